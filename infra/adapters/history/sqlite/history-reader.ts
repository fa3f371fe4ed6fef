import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
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
} from '@tributary/core';
import { reading } from '../../sqlite/database.ts';
import { formatCursor, type ListPosition, parseCursor } from '../cursor.ts';
import { groupListing, IN_RANGE, type Narrowing, NEWEST_FIRST, narrowings } from './listings.ts';
import { entryOf, facetsOf } from './schema.ts';

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
export class HistoryReader {
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
