import type { DatabaseSync, StatementSync } from 'node:sqlite';
import {
  type HistoryEntry,
  type HistoryKind,
  type HistoryPage,
  type HistoryQuery,
  InvalidInput,
} from '@tributary/core';
import { formatCursor, type Place, parseCursor } from '../cursor.ts';
import { entryOf, facetsOf } from './entry-row.ts';
import { IN_RANGE, type Narrowing, NEWEST_FIRST, narrowings } from './listings.ts';

/** Entries a filtered list looks at in one call, unless its page is larger: the thread waits for it. */
const LOOKED_AT = 1_000;

/** All but the detail. */
const LISTED_COLUMNS = ['kind', 'workspace_id', 'id', 'at', 'version', 'facets', 'body']
  .map((column) => `entries.${column}`)
  .join(', ');

/** The entries a list may take: those from `since` on that come strictly before the place. */
interface Range {
  readonly since: number;
  readonly before: Place;
}

/** The reading half, on a connection of its own: it sees committed entries and never waits for a put. */
export class HistoryReader {
  readonly #get: StatementSync;
  readonly #list: StatementSync;
  readonly #listWhole: StatementSync;
  readonly #reach: StatementSync;

  constructor(database: DatabaseSync) {
    this.#get = database.prepare('SELECT * FROM entries WHERE kind = ? AND workspace_id = ? AND id = ?');
    const list = (columns: string) =>
      database.prepare(
        `SELECT ${columns} FROM listed JOIN entries ON entries.entry = listed.entry
         WHERE ${IN_RANGE} AND entries.kind = :kind AND entries.workspace_id = :workspace_id ${NEWEST_FIRST} LIMIT :limit`,
      );
    this.#list = list(LISTED_COLUMNS);
    this.#listWhole = list('entries.*');
    this.#reach = database.prepare(
      `SELECT listed.at FROM listed WHERE ${IN_RANGE} ${NEWEST_FIRST} LIMIT 1 OFFSET :offset`,
    );
  }

  get(kind: HistoryKind, workspaceId: string, id: string): HistoryEntry | undefined {
    const row = this.#get.get(kind, workspaceId, id);
    return row && entryOf(row);
  }

  list(query: HistoryQuery): HistoryPage {
    const { kind, workspaceId, facets = {}, limit } = query;
    if (!(limit >= 1)) throw new InvalidInput('a page holds at least one entry');
    const range = rangeOf(query);
    const { listing, filters } = this.#narrowest(narrowings(kind, workspaceId, facets), range);
    const most = filters.length === 0 ? limit + 1 : Math.max(limit + 1, LOOKED_AT);
    const statement = query.details === true ? this.#listWhole : this.#list;
    const rows = statement.iterate({
      ...parameters(listing, range),
      kind,
      workspace_id: workspaceId,
      limit: most,
    });
    const entries: HistoryEntry[] = [];
    let [lookedAt, last] = [0, range.before];
    for (const row of rows) {
      const its = facetsOf(row);
      if (filters.every(([name, value]) => its[name] === value)) {
        if (entries.length === limit) return { entries, next: formatCursor(last) };
        entries.push(entryOf(row));
      }
      lookedAt += 1;
      last = { at: Number(row.at), id: String(row.id) };
    }
    return lookedAt < most ? { entries } : { entries, next: formatCursor(last) };
  }

  /** The one with the fewest entries in the stretch ahead: whose next so many reach back farthest. */
  #narrowest([first, ...others]: readonly [Narrowing, ...Narrowing[]], range: Range): Narrowing {
    let [narrowest, farthest] = [first, others.length === 0 ? 0 : this.#reachOf(first, range)];
    for (const other of others) {
      const reach = this.#reachOf(other, range);
      if (reach < farthest) [narrowest, farthest] = [other, reach];
    }
    return narrowest;
  }

  /** The time of the last entry that one call would look at; before all times when it would come to the end. */
  #reachOf({ listing }: Narrowing, range: Range): number {
    const row = this.#reach.get({ ...parameters(listing, range), offset: LOOKED_AT - 1 });
    return row === undefined ? Number.NEGATIVE_INFINITY : Number(row.at);
  }
}

function parameters(listing: Uint8Array, { since, before }: Range) {
  return { listing, since, at: before.at, id: before.id };
}

/** No id is less than the empty one, which makes `until` exclusive. */
function rangeOf({ since, until, cursor }: HistoryQuery): Range {
  const end = { at: until ?? Number.MAX_SAFE_INTEGER, id: '' };
  const place = cursor === undefined ? end : parseCursor(cursor);
  return { since: since ?? Number.MIN_SAFE_INTEGER, before: place.at < end.at ? place : end };
}
