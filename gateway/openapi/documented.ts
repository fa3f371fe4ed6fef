import { DOCUMENTED } from '../http/schemas.ts';

type Schema = Readonly<Record<string, unknown>>;

/** A schema as the description tells it: a copy with what `documentedAs` adds, at any depth. */
export function documented(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(documented);
  if (typeof schema !== 'object' || schema === null) return schema;
  const { [DOCUMENTED]: added, ...own } = schema as Schema;
  return Object.fromEntries(
    Object.entries({ ...own, ...(added as Schema | undefined) }).map(([key, value]) => [
      key,
      documented(value),
    ]),
  );
}
