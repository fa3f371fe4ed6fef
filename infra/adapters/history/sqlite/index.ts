import { join } from 'node:path';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import {
  type Clock,
  groupIdOf,
  type History,
  type HistoryCount,
  type HistoryCountQuery,
  type HistoryEntry,
  type HistoryGroup,
  type HistoryGroups,
  type HistoryGroupsQuery,
  type HistoryKind,
  type HistoryPage,
  type HistoryQuery,
  InvalidInput,
  MAX_HISTORY_FACETS,
} from '@tributary/core';
import {
  inTransaction,
  openForExport,
  openStoreFile,
  prepareSchema,
  reading,
} from '../../sqlite/database.ts';
import { WalCheckpointer } from '../../sqlite/wal-checkpointer.ts';
import { formatCursor, type ListPosition, parseCursor } from '../cursor.ts';
import {
  entryOf,
  everyListingOf,
  facetsOf,
  groupListing,
  IN_RANGE,
  type ListedEntry,
  listedOf,
  listingsOf,
  type Narrowing,
  NEWEST_FIRST,
  narrowings,
  SCHEMA,
} from './schema.ts';

/** WAL pages after which the checkpointer thread runs, 8 MB: entries with random ids change the same index pages again. */
const MANY_PAGES = 2_000;
/** WAL pages that it leaves to the thread of the puts. */
const FEW_PAGES = 100;

export interface SqliteHistoryOptions {
  /** Holds this store alone; several processes and threads may share it. */
  readonly folder: string;
  readonly clock: Clock;
  /** Entries are kept for at least this long after their last put, ms. */
  readonly retentionMs: number;
  /** How long a put waits for another process's put before it is `Unavailable`, ms. Default 5,000. */
  readonly busyTimeoutMs?: number;
}

/**
 * A `History` in one database file, with one connection for puts and one for reads. Throws when the file has another
 * schema.
 */
export function openSqliteHistory({
  folder,
  clock,
  retentionMs,
  busyTimeoutMs,
}: SqliteHistoryOptions): History {
  const file = join(folder, 'history.db');
  const store = openStoreFile(file, (database) => prepareSchema(database, file, SCHEMA), { busyTimeoutMs });
  const checkpointer = new WalCheckpointer(store.writer, {
    file,
    checkpointPages: MANY_PAGES,
    inlinePages: FEW_PAGES,
  });
  const writer = new HistoryWriter(store.writer, { clock, retentionMs }, checkpointer);
  const reader = new HistoryReader(store.reader);
  let closed: Promise<void> | undefined;
  return {
    async put(entries) {
      await writer.put(entries);
    },
    async list(query) {
      return reading(() => reader.list(query));
    },
    countByHour: (query) => reader.countByHour(query),
    async groups(query) {
      return reading(() => reader.groups(query));
    },
    async get(kind, workspaceId, id) {
      return reading(() => reader.get(kind, workspaceId, id));
    },
    close() {
      closed ??= writer.settled().then(async () => {
        await checkpointer.close();
        store.close();
      });
      return closed;
    },
  };
}

/** Bound of the entries that a filtered list reads in one call, unless its page is larger: reads block the thread. */
const LIST_READ_ENTRIES = 1_000;
/** Index rows counted, and entries read for filtering, before a count yields to the event loop: 1 ms each. */
const COUNTED_ROWS = 5_000;
const COUNT_READ_ENTRIES = 500;

/** Groups that are read at most, to find those with the most entries. */
const READ_GROUPS = 20_000;

const HOUR_MS = 3_600_000;

/** All but the detail. */
const LISTED_COLUMNS = ['kind', 'workspace_id', 'id', 'at', 'version', 'facets', 'body']
  .map((column) => `entries.${column}`)
  .join(', ');

/** Entries from `since` on, strictly before a position. */
interface Range {
  readonly since: number;
  readonly before: ListPosition;
}

/** Reads on a connection of its own: it sees committed entries and never waits for a put. */
class HistoryReader {
  readonly #get: StatementSync;
  readonly #list: StatementSync;
  readonly #listWithDetails: StatementSync;
  readonly #nth: StatementSync;
  readonly #countDownTo: StatementSync;
  readonly #facetRows: StatementSync;
  readonly #groups: StatementSync;
  readonly #oldest: StatementSync;
  readonly #newest: StatementSync;

  constructor(database: DatabaseSync) {
    this.#get = database.prepare('SELECT * FROM entries WHERE kind = ? AND workspace_id = ? AND id = ?');
    const list = (columns: string) =>
      database.prepare(
        `SELECT ${columns} FROM listed JOIN entries ON entries.entry = listed.entry
         WHERE ${IN_RANGE} AND entries.kind = :kind AND entries.workspace_id = :workspace_id ${NEWEST_FIRST} LIMIT :limit`,
      );
    this.#list = list(LISTED_COLUMNS);
    this.#listWithDetails = list('entries.*');
    this.#nth = database.prepare(
      `SELECT listed.at, listed.id FROM listed WHERE ${IN_RANGE} ${NEWEST_FIRST} LIMIT 1 OFFSET :offset`,
    );
    this.#countDownTo = database.prepare(
      `SELECT listed.at / ${HOUR_MS} AS hour, count(*) AS count FROM listed
       WHERE ${IN_RANGE} AND (listed.at, listed.id) >= (:lastAt, :lastId) GROUP BY hour`,
    );
    this.#facetRows = database.prepare(
      `SELECT listed.at, listed.id, entries.facets FROM listed JOIN entries ON entries.entry = listed.entry
       WHERE ${IN_RANGE} ${NEWEST_FIRST} LIMIT ${COUNT_READ_ENTRIES}`,
    );
    this.#groups = database.prepare(
      `SELECT id, "values", count FROM groups WHERE kind = ? AND workspace_id = ? LIMIT ${READ_GROUPS}`,
    );
    const end = (order: 'ASC' | 'DESC') =>
      `SELECT at, id FROM listed WHERE listing = ? ORDER BY at ${order}, id ${order} LIMIT 1`;
    this.#oldest = database.prepare(end('ASC'));
    this.#newest = database.prepare(end('DESC'));
  }

  /** Oldest and newest are the ends of the listing of the group. */
  groups({ kind, workspaceId, values = {}, limit }: HistoryGroupsQuery): HistoryGroups {
    const wanted = Object.entries(values);
    const found = this.#groups.all(kind, workspaceId).flatMap((row) => {
      const stored = JSON.parse(String(row.values)) as HistoryGroup['values'];
      const isWanted = wanted.every(([name, value]) => stored[name] === value);
      return isWanted ? [{ id: String(row.id), values: stored, count: Number(row.count) }] : [];
    });
    found.sort((a, b) => b.count - a.count || (a.id < b.id ? -1 : 1));
    const groups = found.slice(0, limit).map((group): HistoryGroup => {
      const listing = groupListing(kind, workspaceId, group.id);
      const newest = this.#newest.get(listing);
      return {
        ...group,
        firstAt: Number(this.#oldest.get(listing)?.at),
        lastAt: Number(newest?.at),
        newest: String(newest?.id),
      };
    });
    return { groups, more: found.length > limit };
  }

  get(kind: HistoryKind, workspaceId: string, id: string): HistoryEntry | undefined {
    const row = this.#get.get(kind, workspaceId, id);
    return row && entryOf(row);
  }

  list(query: HistoryQuery): HistoryPage {
    const { kind, workspaceId, facets = {}, group, limit } = query;
    if (!(limit >= 1)) throw new InvalidInput('a page holds at least one entry');
    const range = rangeOf(query);
    const { listing, filters } = this.#narrowest(narrowings(kind, workspaceId, facets, group), range);
    const maxRows = filters.length === 0 ? limit + 1 : Math.max(limit + 1, LIST_READ_ENTRIES);
    const statement = query.details === true ? this.#listWithDetails : this.#list;
    const rows = statement.iterate({
      ...parameters(listing, range),
      kind,
      workspace_id: workspaceId,
      limit: maxRows,
    });
    const entries: HistoryEntry[] = [];
    let [read, last] = [0, range.before];
    for (const row of rows) {
      if (matches(row, filters)) {
        if (entries.length === limit) return { entries, next: formatCursor(last) };
        entries.push(entryOf(row));
      }
      read += 1;
      last = positionOf(row);
    }
    return read < maxRows ? { entries } : { entries, next: formatCursor(last) };
  }

  /**
   * Counts entries by the hour. A query that one listing covers is counted in the index alone; otherwise entries are read
   * and filtered. Yields to the event loop regularly, as there may be millions of entries.
   */
  async countByHour({
    kind,
    workspaceId,
    facets = {},
    fromHour,
    toHour,
  }: HistoryCountQuery): Promise<readonly HistoryCount[]> {
    const [narrowing] = narrowings(kind, workspaceId, facets);
    const counts = new Map<number, number>();
    let before: ListPosition | undefined = { at: toHour + HOUR_MS, id: '' };
    while (before !== undefined) {
      const range: Range = { since: fromHour, before };
      before = reading(() =>
        narrowing.filters.length === 0
          ? this.#countRows(narrowing, range, counts)
          : this.#countFiltered(narrowing, range, counts),
      );
      await nextTurn();
    }
    return [...counts]
      .sort(([one], [other]) => one - other)
      .map(([hour, count]) => ({ hour: hour * HOUR_MS, count }));
  }

  /** The listing with the fewest entries in the range: the one whose next entries reach back farthest. */
  #narrowest([first, ...others]: readonly [Narrowing, ...Narrowing[]], range: Range): Narrowing {
    let [narrowest, farthest] = [first, others.length === 0 ? 0 : this.#reachOf(first, range)];
    for (const other of others) {
      const reach = this.#reachOf(other, range);
      if (reach < farthest) [narrowest, farthest] = [other, reach];
    }
    return narrowest;
  }

  /** The time of the last entry that one list call would read; negative infinity when it would reach the end. */
  #reachOf({ listing }: Narrowing, range: Range): number {
    const row = this.#nth.get({ ...parameters(listing, range), offset: LIST_READ_ENTRIES - 1 });
    return row === undefined ? Number.NEGATIVE_INFINITY : Number(row.at);
  }

  /** Counts the next index rows. Returns the position to continue at; undefined at the end. */
  #countRows({ listing }: Narrowing, range: Range, counts: Map<number, number>): ListPosition | undefined {
    const bounds = parameters(listing, range);
    const row = this.#nth.get({ ...bounds, offset: COUNTED_ROWS - 1 });
    const last = row && positionOf(row);
    const downTo = last ?? { at: range.since, id: '' };
    const rows = this.#countDownTo.iterate({ ...bounds, lastAt: downTo.at, lastId: downTo.id });
    for (const { hour, count } of rows) add(counts, Number(hour), Number(count));
    return last;
  }

  /** Reads the next entries and counts those that match. Returns the position to continue at; undefined at the end. */
  #countFiltered(
    { listing, filters }: Narrowing,
    range: Range,
    counts: Map<number, number>,
  ): ListPosition | undefined {
    const rows = this.#facetRows.all(parameters(listing, range));
    for (const row of rows) if (matches(row, filters)) add(counts, Math.floor(Number(row.at) / HOUR_MS), 1);
    const last = rows.length < COUNT_READ_ENTRIES ? undefined : rows.at(-1);
    return last && positionOf(last);
  }
}

function matches(row: Record<string, unknown>, filters: Narrowing['filters']): boolean {
  const facets = facetsOf(row);
  return filters.every(([name, value]) => facets[name] === value);
}

function positionOf(row: Record<string, unknown>): ListPosition {
  return { at: Number(row.at), id: String(row.id) };
}

function parameters(listing: Uint8Array, { since, before }: Range) {
  return { listing, since, at: before.at, id: before.id };
}

/** No id is less than the empty one, which makes `until` exclusive. */
function rangeOf({ since, until, cursor }: HistoryQuery): Range {
  const end = { at: until ?? Number.MAX_SAFE_INTEGER, id: '' };
  const position = cursor === undefined ? end : parseCursor(cursor);
  return { since: since ?? Number.MIN_SAFE_INTEGER, before: position.at < end.at ? position : end };
}

function add(counts: Map<number, number>, hour: number, count: number): void {
  counts.set(hour, (counts.get(hour) ?? 0) + count);
}

/** A transaction puts no further entry after this time, and drops none after as long again, ms. Its commit takes as long too. */
const TRANSACTION_MS = 2;
/** Expired entries dropped for each put entry: more than one, so that dropping keeps up. */
const DROPS_PER_ENTRY = 2;

interface Retention {
  readonly clock: Clock;
  readonly retentionMs: number;
}

type GroupedEntry = Omit<ListedEntry, 'facets'> & { readonly group?: HistoryEntry['group'] | undefined };

/**
 * Puts entries, maintains their listings, and drops a few expired entries with every put. All stages of the process share
 * the thread, so each transaction is followed by a rest of its own length: the dead deliveries of one workspace occupy half of
 * the thread at most.
 */
class HistoryWriter {
  readonly #database: DatabaseSync;
  readonly #retention: Retention;
  readonly #checkpointer: Pick<WalCheckpointer, 'committed'>;
  readonly #statements: ReturnType<typeof prepare>;
  #last: Promise<void> = Promise.resolve();
  #restsUntil = 0;

  constructor(
    database: DatabaseSync,
    retention: Retention,
    checkpointer: Pick<WalCheckpointer, 'committed'>,
  ) {
    this.#database = database;
    this.#retention = retention;
    this.#checkpointer = checkpointer;
    this.#statements = prepare(database);
  }

  /** Puts run one after another, and yield to the event loop between transactions. */
  put(entries: readonly HistoryEntry[]): Promise<void> {
    const done = this.#last.then(() => this.#putAll(entries));
    this.#last = done.catch(() => {}); // reported to the caller of this put; the next one runs nevertheless
    return done;
  }

  /** Resolves when all puts under way have ended, successfully or not. */
  settled(): Promise<void> {
    return this.#last;
  }

  async #putAll(entries: readonly HistoryEntry[]): Promise<void> {
    for (const { facets } of entries)
      if (Object.keys(facets).length > MAX_HISTORY_FACETS)
        throw new InvalidInput(`an entry has at most ${MAX_HISTORY_FACETS} facets`);
    for (let put = 0; put < entries.length; ) {
      const restMs = this.#restsUntil - performance.now();
      await (restMs > 0 ? sleep(restMs) : nextTurn());
      const began = performance.now();
      put += inTransaction(this.#database, () => this.#putSome(entries.slice(put)));
      this.#checkpointer.committed();
      const ended = performance.now();
      this.#restsUntil = ended + (ended - began);
    }
  }

  /** Puts as many entries as the time of a transaction allows, at least one. Returns their number. */
  #putSome(entries: readonly HistoryEntry[]): number {
    const end = performance.now() + TRANSACTION_MS;
    const writtenAt = this.#retention.clock();
    let put = 0;
    for (const entry of entries) {
      this.#putOne(entry, writtenAt);
      put += 1;
      if (performance.now() >= end) break;
    }
    this.#dropOlderThan(writtenAt - this.#retention.retentionMs, DROPS_PER_ENTRY * put);
    return put;
  }

  #putOne(entry: HistoryEntry, writtenAt: number): void {
    const { kind, workspaceId, id, at, version } = entry;
    const [facets, body] = [JSON.stringify(entry.facets), JSON.stringify(entry.body)];
    const detail = entry.detail === undefined ? null : JSON.stringify(entry.detail);
    const stored = this.#statements.find.get(kind, workspaceId, id);
    if (stored === undefined) {
      const inserted = this.#statements.insert.run(
        kind,
        workspaceId,
        id,
        at,
        writtenAt,
        version,
        facets,
        body,
        detail,
      );
      const number = Number(inserted.lastInsertRowid);
      this.#list(entry, number);
      this.#joinGroup(entry, number);
      return;
    }
    if (version < Number(stored.version)) return;
    const number = Number(stored.entry);
    this.#statements.update.run(writtenAt, version, facets, body, detail, number); // it has left its group
    // The position in lists stays that of the first version: paging must not return an entry twice.
    const listed = { kind, workspaceId, id, at: Number(stored.at) };
    this.#joinGroup({ ...listed, group: entry.group }, number);
    if (facets === stored.facets) return;
    this.#unlist({ ...listed, facets: facetsOf(stored) });
    this.#list({ ...listed, facets: entry.facets }, number);
  }

  #list(entry: ListedEntry, number: number): void {
    for (const listing of listingsOf(entry)) this.#statements.list.run(listing, entry.at, entry.id, number);
  }

  #unlist(entry: ListedEntry): void {
    for (const listing of everyListingOf(entry)) this.#statements.unlist.run(listing, entry.at, entry.id);
  }

  /** The entry is in no group; a change and a drop of it take it out by triggers (`schema.ts`). */
  #joinGroup({ kind, workspaceId, at, id, group }: GroupedEntry, number: number): void {
    if (group === undefined) return;
    const groupId = groupIdOf(group);
    const listing = groupListing(kind, workspaceId, groupId);
    this.#statements.group.run(number, groupId, listing);
    this.#statements.list.run(listing, at, id, number);
    this.#statements.join.run(kind, workspaceId, groupId, JSON.stringify(group));
  }

  #dropOlderThan(time: number, limit: number): void {
    const end = performance.now() + TRANSACTION_MS;
    for (const [dropped, row] of this.#statements.old.all(time, limit).entries()) {
      if (dropped >= DROPS_PER_ENTRY && performance.now() >= end) break;
      this.#unlist(listedOf(row));
      this.#statements.drop.run(Number(row.entry));
    }
  }
}

function prepare(database: DatabaseSync) {
  return {
    find: database.prepare(
      'SELECT entry, at, version, facets FROM entries WHERE kind = ? AND workspace_id = ? AND id = ?',
    ),
    insert: database.prepare(
      'INSERT INTO entries (kind, workspace_id, id, at, written_at, version, facets, body, detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)',
    ),
    update: database.prepare(
      'UPDATE entries SET written_at = ?, version = ?, facets = ?, body = ?, detail = ? WHERE entry = ?',
    ),
    list: database.prepare('INSERT INTO listed (listing, at, id, entry) VALUES (?, ?, ?, ?)'),
    unlist: database.prepare('DELETE FROM listed WHERE listing = ? AND at = ? AND id = ?'),
    old: database.prepare(
      'SELECT entry, kind, workspace_id, id, at, facets FROM entries WHERE written_at < ? ORDER BY written_at LIMIT ?',
    ),
    group: database.prepare('INSERT INTO grouped (entry, id, listing) VALUES (?, ?, ?)'),
    join: database.prepare(
      `INSERT INTO groups (kind, workspace_id, id, "values", count) VALUES (?, ?, ?, ?, 1)
       ON CONFLICT (kind, workspace_id, id) DO UPDATE SET count = count + 1`,
    ),
    drop: database.prepare('DELETE FROM entries WHERE entry = ?'),
  } satisfies Record<string, StatementSync>;
}

/** An entry with its number, which grows in the order of first puts. */
interface StoredEntry {
  readonly number: number;
  readonly entry: HistoryEntry;
}

/** The history of a folder that no process writes to. */
interface StoredHistory {
  /** The next entries, in the order of their numbers, at most `limit` and some MB of them; empty at the end. */
  after(number: number, limit: number): readonly StoredEntry[];
  /** The time of the last put of any entry of each day (UTC, counted from the epoch) of `at`, epoch ms. */
  lastPuts(): ReadonlyMap<number, number>;
  /** The number of entries. */
  count(): number;
  close(): void;
}

const DAY_MS = 86_400_000;

/** Characters of the entries of one page; an entry may have more. */
const PAGE_CHARACTERS = 8 * 1024 * 1024;

export function dayOf(at: number): number {
  return Math.floor(at / DAY_MS);
}

/** Undefined where nothing was ever put. `InvalidInput` where an older release wrote the file. */
export function openStoredHistory(folder: string): StoredHistory | undefined {
  const database = openForExport(join(folder, 'history.db'), SCHEMA);
  if (database === undefined) return undefined;
  const after = database.prepare('SELECT * FROM entries WHERE entry > ? ORDER BY entry LIMIT ?');
  return {
    after(number, limit) {
      const page: StoredEntry[] = [];
      let characters = 0;
      for (const row of after.iterate(number, limit)) {
        page.push({ number: Number(row.entry), entry: entryOf(row) });
        characters += String(row.body).length + String(row.detail ?? '').length;
        if (characters >= PAGE_CHARACTERS) break;
      }
      return page;
    },
    lastPuts() {
      const days = new Map<number, number>();
      for (const { at, written_at } of database.prepare('SELECT at, written_at FROM entries').iterate()) {
        const day = dayOf(Number(at));
        days.set(day, Math.max(days.get(day) ?? 0, Number(written_at)));
      }
      return days;
    },
    count: () => Number(database.prepare('SELECT count(*) AS count FROM entries').get()?.count),
    close: () => database.close(),
  };
}
