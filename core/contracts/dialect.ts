import type { JsonObject } from '../event/event.ts';
import type { SchemaFault } from './contract.ts';
import { DRAFT_07, DRAFT_2020_12, type Keyword } from './keywords.ts';

export interface Dialect {
  readonly name: 'draft-07' | '2020-12';
  readonly keywords: ReadonlyMap<string, Keyword>;
}

const DRAFT_07_DIALECT: Dialect = { name: 'draft-07', keywords: DRAFT_07 };
const DRAFT_2020_12_DIALECT: Dialect = { name: '2020-12', keywords: DRAFT_2020_12 };

const BY_SCHEMA = new Map([
  ['json-schema.org/draft-07/schema', DRAFT_07_DIALECT],
  ['json-schema.org/draft/2020-12/schema', DRAFT_2020_12_DIALECT],
]);

/** The dialect named by `$schema`, 2020-12 when there is none; undefined when it is another one. */
export function dialectOf(schema: JsonObject): Dialect | undefined {
  const named = schema.$schema;
  if (named === undefined) return DRAFT_2020_12_DIALECT;
  if (typeof named !== 'string') return undefined;
  return BY_SCHEMA.get(named.replace(/^https?:\/\//, '').replace(/#$/, ''));
}

export const UNKNOWN_DIALECT: SchemaFault = {
  path: '/$schema',
  message: 'must name JSON Schema draft-07 or 2020-12',
};
