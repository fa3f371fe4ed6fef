import type { EventType } from '../event/event.ts';
import type { ColumnType } from '../ports/warehouse.ts';
import { nameOf } from './names.ts';

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
