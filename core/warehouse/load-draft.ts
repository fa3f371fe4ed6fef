import { hash } from 'node:crypto';
import {
  type CanonicalEvent,
  contractSubject,
  isObject,
  type Json,
  type JsonObject,
  objectIn,
} from '../event/event.ts';
import type { ColumnType, WarehouseLimits } from '../ports/warehouse.ts';
import { canonicalTime, iso } from '../primitives/time.ts';
import type { ProfileChangeValue, ProfileRecord } from '../profiles/record.ts';
import { compareText } from '../profiles/registers.ts';
import {
  DISCARDS,
  eventTable,
  IDENTITY_MAP,
  isEventTable,
  LAYOUTS,
  type Layout,
  nameOf,
  type SchemaLedger,
  TABLES_OF_TYPES,
  USERS,
} from './layout.ts';
import { isStorable, microseconds, typeOf } from './types.ts';
import { type NamedValues, type ValueName, ValueNames } from './value-names.ts';

/** The origin of a row. */
export interface RowSource {
  /** The id of the row, in each of its tables. */
  readonly id: string;
  /** The position in the log: `events.accepted/3/1204`. It names the row where nothing else does. */
  readonly position: string;
  /** Of a row of `users` the ucid, by which a deletion finds what was discarded of it. */
  readonly messageId: string | null;
  /** ISO 8601 */
  readonly receivedAt: string | null;
}

/** A value that its column does not hold. */
export interface Lost {
  /** In the event or the profile; empty: all of it. */
  readonly path: readonly string[];
  readonly column: string | null;
  readonly value: Json;
  readonly reason: string;
  /** Absent: `_unmapped` has the value. Otherwise the column holds it but for some characters or digits. */
  readonly isInColumn?: true;
}

/** A column of one batch. */
export interface DraftColumn {
  /** The name of its first value. */
  readonly name: ValueName;
  /** The types of its values. */
  readonly types: Set<ColumnType>;
  /** Whether some text may not be stored as it is. */
  hasOddText: boolean;
}

export interface DraftRow {
  readonly source: RowSource;
  readonly names: ValueName[];
  /** In the order of `names`; null once a value was taken out. */
  readonly values: Json[];
  readonly lost: Lost[];
}

export interface DraftTable {
  readonly name: string;
  readonly layout: Layout;
  readonly columns: ReadonlyMap<string, DraftColumn>;
  readonly rows: readonly DraftRow[];
}

/** What became of a profile by the newest change of it in the batch. */
export interface DraftProfile {
  readonly ucid: string;
  readonly version: number;
  /** ISO 8601 */
  readonly at: string;
  /** Of `users`; undefined for a profile that is gone. */
  readonly row: DraftRow | undefined;
  readonly identities: readonly ProfileIdentity[];
  readonly isDeleted: boolean;
}

/** An event that is no row. */
export interface DroppedEvent {
  readonly source: RowSource;
  readonly lost: Lost;
}

export interface DraftOptions {
  readonly limits: WarehouseLimits;
  readonly schema: SchemaLedger;
  /** Tables of event names at most; events of further names are in `tracks` alone, with their properties as JSON. */
  readonly maxEventTables: number;
}

/**
 * The rows of one batch, before the types of their columns are known. Each value of an event is in a column of its row, or
 * among those that are `lost` to the columns. A track event is a row of `tracks` and one of the table of its name.
 */
export class LoadDraft {
  readonly #options: DraftOptions;
  readonly #tables = new Map<string, MutableTable>();
  readonly #profiles = new Map<string, DraftProfile>();
  readonly #dropped: DroppedEvent[] = [];
  readonly #names: ReturnType<typeof namesOf>;
  /** Tables of event names, by name; at most as many as the batch has names. */
  readonly #eventTables = new Map<string, string>();
  #ownTables = 0;

  constructor(options: DraftOptions) {
    this.#options = options;
    this.#names = namesOf(options.limits.nameLength);
    for (const name of options.schema.keys()) if (isEventTable(name)) this.#ownTables += 1;
  }

  get tables(): ReadonlyMap<string, DraftTable> {
    return this.#tables;
  }

  get profiles(): ReadonlyMap<string, DraftProfile> {
    return this.#profiles;
  }

  get dropped(): readonly DroppedEvent[] {
    return this.#dropped;
  }

  /** All tables that the batch writes: what `Warehouse.describe` is asked for. */
  get tableNames(): readonly string[] {
    const ofProfiles = this.#profiles.size === 0 ? [] : [USERS, IDENTITY_MAP];
    return [...new Set([...this.#tables.keys(), ...ofProfiles, DISCARDS])];
  }

  /**
   * `position`: see `RowSource`. `id`: of one of several events that a transformation made of one. Default: that of the event.
   */
  addEvent(event: CanonicalEvent, position: string, id = idOf(event, position)): void {
    const source = sourceOf(event, position, id);
    const { type } = event;
    const context = this.#names.context.flatten(event.context);
    const main = this.#table(TABLES_OF_TYPES[type], LAYOUTS[type]);
    const name = type === 'track' ? this.#tableName(event.event ?? '') : main.name;
    const row = eventRow(event, source, main.layout, name);
    if (type === 'track') {
      const table = this.#eventTable(name);
      if (table === undefined) setFixed(row, 'properties', event.properties);
      else {
        // Both tables have the same fixed columns for it.
        const own = { source, names: [...row.names], values: [...row.values], lost: [...row.lost] };
        this.#put(table, own, context);
        this.#put(table, own, this.#names.event.flatten(event.properties));
        this.#finish(table, own);
      }
    }
    this.#put(main, row, context);
    if (type !== 'track') this.#put(main, row, this.#names[type].flatten(event[contractSubject(type)]));
    this.#finish(main, row);
  }

  /** Discards an event as a whole, such as one whose transformation failed. */
  dropEvent(event: CanonicalEvent, position: string, reason: string): void {
    const value = event as CanonicalEvent & JsonObject;
    this.#dropped.push({
      source: sourceOf(event, position, idOf(event, position)),
      lost: { path: [], column: null, value, reason },
    });
  }

  /**
   * A record of `profiles.changes`; where it has no profile (`too_large`) with that of the profile as it is now. Of several
   * changes of one profile the one with the highest version counts. A profile that was merged is gone from the version of the
   * survivor on.
   */
  addChange({ ucid, version, linked, record, kind, ...change }: ProfileChangeValue, position: string): void {
    const at = iso(change.at);
    const isDeleted = kind === 'deleted';
    const gone = { version, at, row: undefined, identities: [], isDeleted };
    for (const former of linked) this.#setProfile({ ucid: former, ...gone });
    if (isDeleted) this.#setProfile({ ucid, ...gone });
    if (isDeleted || record === undefined) return;
    const table = this.#table(USERS, LAYOUTS.users);
    const row = newRow({ id: ucid, position, messageId: ucid, receivedAt: at });
    setFixed(row, 'ucid', ucid);
    setFixed(row, 'id', userIdOf(record) ?? ucid);
    setFixed(row, 'created_at', iso(record.created_ts));
    setFixed(row, 'updated_at', iso(record.updated_ts));
    setFixed(row, 'version', version);
    for (const [index, values] of profileValues(record).entries()) {
      const names = this.#names.users[index];
      if (names !== undefined) this.#put(table, row, names.flatten(values));
    }
    if (this.#setProfile({ ucid, version, at, row, identities: identitiesOf(record), isDeleted }))
      this.#finish(table, row);
  }

  /** False where a newer change is known. */
  #setProfile(profile: DraftProfile): boolean {
    const known = this.#profiles.get(profile.ucid);
    if (known !== undefined && known.version > profile.version) return false;
    this.#profiles.set(profile.ucid, profile);
    return true;
  }

  #tableName(event: string): string {
    let name = this.#eventTables.get(event);
    if (name === undefined) {
      name = eventTable(event, this.#options.limits.nameLength);
      this.#eventTables.set(event, name);
    }
    return name;
  }

  /** The table of an event name; undefined beyond the bound on such tables. */
  #eventTable(name: string): MutableTable | undefined {
    if (!this.#tables.has(name) && !this.#options.schema.has(name)) {
      if (this.#ownTables >= this.#options.maxEventTables) return undefined;
      this.#ownTables += 1;
    }
    return this.#table(name, LAYOUTS.event);
  }

  #table(name: string, layout: Layout): MutableTable {
    const known = this.#tables.get(name);
    if (known !== undefined) return known;
    const ledger = Object.keys(this.#options.schema.get(name)?.columns ?? {});
    const expected = new Set([...layout.fixed.keys(), ...ledger]);
    const columns = new Map([...layout.fixed.keys()].map((fixed) => [fixed, newColumn(fixedName(fixed))]));
    const room = this.#options.limits.columns - expected.size;
    const table = { name, layout, columns, rows: [], expected, room };
    this.#tables.set(name, table);
    return table;
  }

  /** Writes values into a row. Of several values of one column one stays there, by the spelling of its path. */
  #put(table: MutableTable, row: DraftRow, { names, values }: NamedValues): void {
    for (let index = 0; index < names.length; index++) {
      const name = names[index];
      const value = values[index];
      if (name === undefined || value === undefined) continue;
      const column = columnOf(table, name);
      if (column === undefined) lose(row, name, value, NO_ROOM_IN_TABLE);
      else if (column.row === row) choose(row, column.at, name, value);
      else {
        column.row = row;
        column.at = row.names.length;
        row.names.push(name);
        row.values.push(value);
      }
    }
  }

  /** Notes the types of the row's values, and takes those out for which the row has no room. */
  #finish(table: MutableTable, row: DraftRow): void {
    const { limits } = this.#options;
    const { names, values } = row;
    const most = limits.rowValues ?? Number.POSITIVE_INFINITY;
    for (let at = 0; at < names.length; at++) {
      const name = names[at];
      const value = values[at];
      if (name === undefined || value === undefined) continue;
      const type = typeOf(value, limits);
      if (type === undefined) continue;
      if (at >= most) {
        lose(row, name, value, NO_ROOM_IN_ROW);
        values[at] = null;
        continue;
      }
      const column = table.columns.get(name.column);
      if (column === undefined) continue;
      column.types.add(type);
      if (mayBeOdd(value, type, limits)) column.hasOddText = true;
    }
    table.rows.push(row);
  }
}

/** The JSON of a value is measured only where it is written. */
function mayBeOdd(value: Json, type: ColumnType, limits: WarehouseLimits): boolean {
  if (type === 'json') return limits.textBytes !== undefined || limits.parsesJson === true;
  return type === 'text' && typeof value === 'string' && !isStorable(value, limits);
}

const NO_ROOM_IN_TABLE = 'more columns than a table of the warehouse has';
const NO_ROOM_IN_ROW = 'more values than a row of the warehouse has';

interface MutableColumn extends DraftColumn {
  /** The row that got a value last, and where in it. */
  row: DraftRow | undefined;
  at: number;
}

interface MutableTable extends DraftTable {
  readonly columns: Map<string, MutableColumn>;
  readonly rows: DraftRow[];
  /** Columns of the layout and of the ledger. */
  readonly expected: ReadonlySet<string>;
  /** Further columns that the table may get. */
  room: number;
}

function newColumn(name: ValueName): MutableColumn {
  return { name, types: new Set(), hasOddText: false, row: undefined, at: 0 };
}

/** The column of a value; undefined where the table has no room for another one. */
function columnOf(table: MutableTable, name: ValueName): MutableColumn | undefined {
  const known = table.columns.get(name.column);
  if (known !== undefined) return known;
  if (!table.expected.has(name.column)) {
    if (table.room <= 0) return undefined;
    table.room -= 1;
  }
  const made = newColumn(name);
  table.columns.set(name.column, made);
  return made;
}

function lose(
  row: DraftRow,
  { path, column }: Pick<Lost, 'path' | 'column'>,
  value: Json,
  reason: string,
): void {
  row.lost.push({ path, column, value, reason });
}

/** Decides which of two values of one column is in it: that at `at`, or another one. */
function choose(row: DraftRow, at: number, name: ValueName, value: Json): void {
  const other = row.names[at];
  const before = row.values[at];
  if (other === undefined || before === undefined) return;
  if (comesFirst(name, other)) {
    row.names[at] = name;
    row.values[at] = value;
    lose(row, other, before, `same column as ${name.path.join('.')}`);
  } else lose(row, name, value, `same column as ${other.path.join('.')}`);
}

/** The path that is written as its column comes first, then the smaller one, then the shorter one. */
function comesFirst(one: ValueName, other: ValueName): boolean {
  const [isOne, isOther] = [one.spelling === one.column, other.spelling === other.column];
  if (isOne !== isOther) return isOne;
  if (one.spelling !== other.spelling) return compareText(one.spelling, other.spelling) < 0;
  return one.path.length < other.path.length;
}

/** The names of the values of events and profiles, by their place. */
function namesOf(bound: number) {
  const below = (place: readonly string[], prefix: readonly string[], layout: Layout) =>
    new ValueNames(place, prefix, (path) => layout.column(path, bound));
  const ofProperties = (type: 'page' | 'screen' | 'event') => below(['properties'], [], LAYOUTS[type]);
  const ofTraits = (type: 'identify' | 'group' | 'alias') => below(['traits'], [], LAYOUTS[type]);
  return {
    context: new ValueNames(['context'], ['context'], (path) => nameOf(path, bound)),
    event: ofProperties('event'),
    page: ofProperties('page'),
    screen: ofProperties('screen'),
    identify: ofTraits('identify'),
    group: ofTraits('group'),
    alias: ofTraits('alias'),
    users: PROFILE_PLACES.map(({ path, prefix }) => below(path, prefix, LAYOUTS.users)),
  };
}

/** Names of fixed columns; they are written from the field of that name. */
const FIXED_NAMES = new Map<string, ValueName>();

function fixedName(column: string): ValueName {
  const known = FIXED_NAMES.get(column);
  if (known !== undefined) return known;
  const made = { path: [column], column, spelling: column };
  FIXED_NAMES.set(column, made);
  return made;
}

/** Starts a row with the values of an event that belong into fixed columns. */
function eventRow(event: CanonicalEvent, source: RowSource, { fixed }: Layout, table: string): DraftRow {
  const row = newRow(source);
  setFixed(row, 'id', source.id);
  setFixed(row, 'anonymous_id', event.anonymous_id);
  setFixed(row, 'user_id', event.user_id);
  setTime(row, 'received_at', event.received_at);
  setTime(row, 'timestamp', event.timestamp);
  const { sentAt, timestamp = event.timestamp } = objectIn(objectIn(event.context).segment);
  setFixed(row, 'sent_at', timeIn(sentAt));
  setFixed(row, 'original_timestamp', timeIn(timestamp));
  setFixed(row, 'environment', event.environment);
  setFixed(row, 'source_id', event.source_id);
  setFixed(row, 'integrations', event.integrations);
  if (event.type === 'track') {
    setFixed(row, 'event', table);
    setFixed(row, 'event_text', event.event);
  }
  for (const field of FIELDS_OF_TYPES) {
    const value = event[field];
    if (value === undefined) continue;
    if (fixed.has(field)) setFixed(row, field, value);
    else lose(row, { path: [field], column: null }, value, NOT_OF_THIS_TYPE);
  }
  const other = contractSubject(event.type) === 'traits' ? 'properties' : 'traits';
  const unexpected = event[other];
  if (unexpected !== undefined) lose(row, { path: [other], column: null }, unexpected, NOT_OF_THIS_TYPE);
  return row;
}

const FIELDS_OF_TYPES = ['name', 'category', 'group_id', 'previous_id'] as const;
const NOT_OF_THIS_TYPE = 'no field of this type of event';

function newRow(source: RowSource): DraftRow {
  return { source, names: [], values: [], lost: [] };
}

function setFixed(row: DraftRow, column: string, value: Json | undefined): void {
  if (value === undefined) return;
  row.names.push(fixedName(column));
  row.values.push(value);
}

/** Writes a time as exact as columns are; the whole one is kept beside it. */
function setTime(row: DraftRow, column: string, text: string | undefined): void {
  if (text === undefined) return;
  const whole = canonicalTime(text);
  const time = whole === undefined ? undefined : microseconds(whole);
  setFixed(row, column, time);
  const name = fixedName(column);
  if (time === undefined) lose(row, name, text, 'not a time');
  else if (whole !== time)
    row.lost.push({
      path: name.path,
      column,
      value: text,
      reason: 'finer than a microsecond',
      isInColumn: true,
    });
}

function timeIn(value: Json | undefined): string | undefined {
  const time = typeof value === 'string' ? canonicalTime(value) : undefined;
  return time === undefined ? undefined : microseconds(time);
}

function sourceOf({ message_id, received_at }: CanonicalEvent, position: string, id: string): RowSource {
  return { id, position, messageId: message_id ?? null, receivedAt: timeIn(received_at) ?? null };
}

/**
 * The id of the row of an event: its message id, which is unique within its environment, so that of a development event has a
 * prefix. An id that no warehouse can hold gets a hash.
 */
function idOf({ message_id = '', environment }: CanonicalEvent, position: string): string {
  const own = message_id === '' ? position : message_id;
  const id = environment === 'development' ? `development:${own}` : own;
  if (id.isWellFormed() && !id.includes('\0')) return id;
  return `${id.replaceAll('\0', '\ufffd').toWellFormed()}_${hash('sha256', JSON.stringify(id)).slice(0, 8)}`;
}

/** An identity of a profile as a row of `identity_map` has it. */
export interface ProfileIdentity {
  readonly type: string;
  readonly value: string;
}

const TIME = '_ts';
const LINKED = 'linkedUcid';
/** The type of a ucid that was merged into the profile. */
const UCID = 'ucid';

/** The identities of a profile, and the ucids that were merged into it. */
export function identitiesOf({ ids }: ProfileRecord): readonly ProfileIdentity[] {
  return Object.entries(ids).flatMap(([namespace, items]) =>
    listOf(items).flatMap((item): readonly ProfileIdentity[] => {
      if (namespace === LINKED && typeof item === 'string') return [{ type: UCID, value: item }];
      if (!isObject(item)) return [];
      return Object.entries(item).flatMap(([type, value]) =>
        type === TIME || typeof value !== 'string' ? [] : [{ type, value }],
      );
    }),
  );
}

/** The `user_id` that was named first of those that the profile has. */
export function userIdOf({ ids }: ProfileRecord): string | undefined {
  const users = listOf(ids.user_id).flatMap((item) =>
    isObject(item) && typeof item.user_id === 'string'
      ? [{ value: item.user_id, ts: Number(item[TIME] ?? 0) }]
      : [],
  );
  return users.sort((a, b) => a.ts - b.ts || compareText(a.value, b.value))[0]?.value;
}

/**
 * Where the values of `users` are in the record of a profile, and what the names of their columns begin with: traits have no
 * prefix, other attributes the name of their category.
 */
export const PROFILE_PLACES: readonly {
  readonly path: readonly string[];
  readonly prefix: readonly string[];
}[] = [
  { path: ['profile', 'traits'], prefix: [] },
  { path: ['profile'], prefix: [] },
  { path: ['mkt_preferences'], prefix: ['mkt_preferences'] },
  { path: ['consent'], prefix: ['consent'] },
];

/** The values at these places, without their times. */
export function profileValues({ profile, mkt_preferences, consent }: ProfileRecord): readonly JsonObject[] {
  const { traits, ...others } = profile;
  const areTraits = isObject(traits);
  return [
    areTraits ? objectIn(withoutTime(traits)) : {},
    mapValues(areTraits ? others : profile, withoutTime),
    mapValues(mkt_preferences, (value) => aloneIn(withoutTime(value))),
    mapValues(consent, (value) => aloneIn(withoutTime(value))),
  ];
}

function mapValues(values: JsonObject, map: (value: Json) => Json): JsonObject {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, map(value)]));
}

function withoutTime(value: Json): Json {
  if (!isObject(value) || !(TIME in value)) return value;
  const { [TIME]: _, ...rest } = value;
  return rest;
}

/** The value of a register whose only other member was its time. */
function aloneIn(value: Json): Json {
  if (!isObject(value)) return value;
  const { value: own, ...rest } = value;
  return own !== undefined && Object.keys(rest).length === 0 ? own : value;
}

function listOf(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? value : [];
}
