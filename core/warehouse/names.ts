import { hash } from 'node:crypto';

/*
 * Names of tables and columns. One rule, without any memory: the same text always gives the same name. Several texts may
 * give one name; `event-rows.ts` decides which value the column of a row gets, and keeps the others beside it.
 */

const COMBINING = /\p{M}+/gu;
const WORD_BEGINS = /([a-z0-9])(?=[A-Z])|([A-Z])(?=[A-Z][a-z])/g;
const OTHERS = /[^a-z0-9]+/g;
const EDGES = /^_+|_+$/g;
/** Hexadecimal digits of a hash in a name. */
const HASH_LENGTH = 8;
const NOT_ASCII = /[^\0-\x7f]/;

/** A text in snake case of ASCII letters and digits; empty where it has none. */
function snakeCase(text: string): string {
  const ascii = NOT_ASCII.test(text) ? text.normalize('NFKD').replace(COMBINING, '') : text;
  return ascii.replace(WORD_BEGINS, '$&_').toLowerCase().replace(OTHERS, '_').replace(EDGES, '');
}

function hashOf(text: string): string {
  return hash('sha256', text).slice(0, HASH_LENGTH);
}

/**
 * The name for a path, such as the one of a property inside an object: its parts in snake case (`userId`, `user-id` and
 * `User ID` are `user_id`), joined by `_`. A part without a letter or digit of ASCII is `x` and a hash; a name that would
 * begin with a digit or a hash begins with `_`; a longer one than `bound` ends with a hash of the path.
 */
export function nameOf(path: readonly string[], bound: number): string {
  const parts = path.map((part) => snakeCase(part) || `x${hashOf(part)}`);
  const name = parts.join('_');
  const safe = /^[0-9]/.test(name) || snakeCase(path[0] ?? '') === '' ? `_${name}` : name;
  if (safe.length <= bound) return safe;
  return `${safe.slice(0, bound - HASH_LENGTH - 1)}_${hashOf(path.join('.'))}`;
}

/** Tables with a fixed meaning. */
export const TABLES_OF_TYPES = {
  track: 'tracks',
  page: 'pages',
  screen: 'screens',
  identify: 'identifies',
  group: 'groups',
  alias: 'aliases',
} as const;
export const USERS = 'users';
export const IDENTITY_MAP = 'identity_map';
export const DISCARDS = 'discards';
const RESERVED_TABLES: ReadonlySet<string> = new Set([
  ...Object.values(TABLES_OF_TYPES),
  USERS,
  IDENTITY_MAP,
  DISCARDS,
]);

/** The table of the events of a name. No name of an event gives a table of ours, as theirs begin with `_tributary_`. */
export function eventTable(event: string, bound: number): string {
  const name = nameOf([event], bound);
  return RESERVED_TABLES.has(name) ? `_${name}` : name;
}

/** Whether a table is that of an event name. */
export function isEventTable(name: string): boolean {
  return !RESERVED_TABLES.has(name);
}
