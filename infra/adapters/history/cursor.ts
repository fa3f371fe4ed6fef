import { InvalidInput } from '@tributary/core';

/** The last entry of a page: the next one starts behind it, wherever newer entries have come in since. */
export interface Place {
  readonly at: number;
  readonly id: string;
}

export function formatCursor({ at, id }: Place): string {
  return Buffer.from(JSON.stringify([at, id])).toString('base64url');
}

/** `InvalidInput` for anything that `formatCursor` did not make. */
export function parseCursor(cursor: string): Place {
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
