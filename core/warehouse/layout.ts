import { hash } from 'node:crypto';
import type { EventType } from '../event/event.ts';
import type { ColumnType } from '../ports/warehouse.ts';

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

/** A column that a loader made. */
export interface SchemaColumn {
  readonly type: ColumnType;
  /** `fixed`: of the layout; `contract`: of a contract in force; `value`: of the first value. */
  readonly origin: 'fixed' | 'contract' | 'value';
  /** Where its values are in an event or profile, by the first one: `properties.order.total`. Absent for fixed columns. */
  readonly path?: string;
  /** When it got its type, ISO 8601. */
  readonly since: string;
}

/**
 * The ledger of one table's schema: what the loader made of it. The warehouse says what became of it since; a difference
 * between the two was made by a person.
 */
export interface TableSchema {
  readonly table: string;
  readonly columns: Readonly<Record<string, SchemaColumn>>;
}

/** Ledgers by table. */
export type SchemaLedger = ReadonlyMap<string, TableSchema>;

/** Types that contracts in force give, by table and column. */
export type ContractTypes = ReadonlyMap<string, ReadonlyMap<string, ColumnType>>;

/** A difference between ledger and warehouse. */
export interface Drift {
  readonly table: string;
  /** Absent: the whole table. */
  readonly column?: string;
  /**
   * `missing`: it was dropped, and is made again. `retyped`: values that the column holds exactly are written into it. `foreign`:
   * its type is none of a loader's, so nothing is written into it. `held`: the warehouse does not let it be added or widened,
   * for the reason; it gets the values that it holds.
   */
  readonly kind: 'missing' | 'retyped' | 'foreign' | 'held';
  readonly expected?: ColumnType;
  readonly found?: ColumnType;
  readonly reason?: string;
}

/*
 * The tables that every warehouse has, with their fixed columns, as Segment and RudderStack name them. A property whose name
 * is that of a fixed column gets `_` before it.
 */

/** What a column beside the fixed ones may not be called: the context of an event has this prefix. */
const CONTEXT = 'context_';

/** Columns that an engine has in each table, as lakes have one of the day; the layout is the same in all engines. */
const OF_ENGINES: ReadonlySet<string> = new Set([
  ...['ctid', 'cmax', 'cmin', 'oid', 'tableoid', 'xmax', 'xmin'],
  ...['deletexid', 'insertxid'],
  'received_date',
]);

/** Values of a row that are in none of its columns, as JSON in the shape of the event. */
export const UNMAPPED = '_unmapped';
/** Both hold the time of the load: Segment's name, and RudderStack's. */
export const LOAD_TIMES: ReadonlySet<string> = new Set(['uuid_ts', 'loaded_at']);

type Columns = Readonly<Record<string, ColumnType>>;

const LOADED: Columns = { [UNMAPPED]: 'json', uuid_ts: 'timestamp', loaded_at: 'timestamp' };

const OF_EVENTS: Columns = {
  id: 'text',
  anonymous_id: 'text',
  user_id: 'text',
  received_at: 'timestamp',
  sent_at: 'timestamp',
  original_timestamp: 'timestamp',
  timestamp: 'timestamp',
  environment: 'text',
  source_id: 'text',
  integrations: 'json',
  ...LOADED,
};
const OF_TRACKS: Columns = { ...OF_EVENTS, event: 'text', event_text: 'text' };
const OF_PAGES: Columns = { ...OF_EVENTS, name: 'text', category: 'text' };

/** Fixed columns of the tables of events, by type. */
const OF_TYPES: Readonly<Record<EventType, Columns>> = {
  track: { ...OF_TRACKS, properties: 'json' },
  page: OF_PAGES,
  screen: OF_PAGES,
  identify: OF_EVENTS,
  group: { ...OF_EVENTS, group_id: 'text' },
  alias: { ...OF_EVENTS, previous_id: 'text' },
};

const OF_USERS: Columns = {
  ucid: 'text',
  id: 'text',
  created_at: 'timestamp',
  updated_at: 'timestamp',
  version: 'bigint',
  ...LOADED,
};

/** Columns of `identity_map` that the loader writes. */
export const OF_IDENTITIES: ReadonlyMap<string, ColumnType> = new Map<string, ColumnType>([
  ['ucid', 'text'],
  ['type', 'text'],
  ['value', 'text'],
  ['valid_from', 'timestamp'],
]);
/** The engine writes when a row ended. */
export const OF_IDENTITY_MAP: ReadonlyMap<string, ColumnType> = new Map([
  ...OF_IDENTITIES,
  ['valid_to', 'timestamp'],
]);

export const OF_DISCARDS: ReadonlyMap<string, ColumnType> = new Map<string, ColumnType>([
  ['id', 'text'],
  ['message_id', 'text'],
  ['position', 'text'],
  ['table_name', 'text'],
  ['column_name', 'text'],
  ['value', 'text'],
  ['reason', 'text'],
  ['received_at', 'timestamp'],
  ['loaded_at', 'timestamp'],
]);

/** A kind of table: its fixed columns, and the names of the others. */
export interface Layout {
  readonly fixed: ReadonlyMap<string, ColumnType>;
  /** The column of a path of properties or traits. */
  column(path: readonly string[], bound: number): string;
}

function layoutOf(columns: Columns): Layout {
  const fixed = new Map(Object.entries(columns));
  return {
    fixed,
    column(path, bound) {
      const name = nameOf(path, bound);
      const isTaken = fixed.has(name) || OF_ENGINES.has(name) || name.startsWith(CONTEXT);
      return isTaken ? `_${nameOf(path, bound - 1)}` : name;
    },
  };
}

export const LAYOUTS: Readonly<Record<EventType | 'event' | 'users', Layout>> = {
  track: layoutOf(OF_TYPES.track),
  page: layoutOf(OF_TYPES.page),
  screen: layoutOf(OF_TYPES.screen),
  identify: layoutOf(OF_TYPES.identify),
  group: layoutOf(OF_TYPES.group),
  alias: layoutOf(OF_TYPES.alias),
  event: layoutOf(OF_TRACKS),
  users: layoutOf(OF_USERS),
};
