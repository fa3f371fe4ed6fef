import { InvalidInput } from '@tributary/core';

/** The position of an entry in a list, newest first. A page continues after that of the last entry before it. */
export interface ListPosition {
  readonly at: number;
  readonly id: string;
}

export function formatCursor({ at, id }: ListPosition): string {
  return Buffer.from(JSON.stringify([at, id])).toString('base64url');
}

/** `InvalidInput` for any text that `formatCursor` did not return. */
export function parseCursor(cursor: string): ListPosition {
  const [at, id, ...rest] = partsOf(cursor);
  if (typeof at !== 'number' || typeof id !== 'string' || rest.length > 0)
    throw new InvalidInput('invalid cursor');
  return { at, id };
}

function partsOf(cursor: string): readonly unknown[] {
  try {
    const parts = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8')) as unknown;
    return Array.isArray(parts) ? parts : [];
  } catch {
    return [];
  }
}
