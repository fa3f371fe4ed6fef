import type { DatabaseSync, StatementSync } from 'node:sqlite';
import {
  type HistoryEntry,
  type HistoryKind,
  type HistoryPage,
  type HistoryQuery,
  InvalidInput,
} from '@tributary/core';
import { formatCursor, parseCursor } from './cursor.ts';
import { entryOf } from './entry-row.ts';
import { listingFor } from './listings.ts';

/** Entries looked at in one go while filtering. */
const ENTRIES_A_READ = 500;

/** The reading half, on a connection of its own: it sees committed entries and never waits for a put. */
export class HistoryReader {
  readonly #get: StatementSync;
  readonly #list: StatementSync;

  constructor(database: DatabaseSync) {
    this.#get = database.prepare('SELECT * FROM entries WHERE kind = ? AND workspace_id = ? AND id = ?');
    this.#list = database.prepare(
      `SELECT entries.* FROM listed JOIN entries ON entries.entry = listed.entry
       WHERE listed.listing = :listing AND listed.at >= :since AND (listed.at, listed.id) < (:at, :id)
         AND entries.kind = :kind AND entries.workspace_id = :workspace_id
       ORDER BY listed.at DESC, listed.id DESC LIMIT :limit`,
    );
  }

  get(kind: HistoryKind, workspaceId: string, id: string): HistoryEntry | undefined {
    const row = this.#get.get(kind, workspaceId, id);
    return row && entryOf(row);
  }

  list(query: HistoryQuery): HistoryPage {
    if (!(query.limit >= 1)) throw new InvalidInput('a page holds at least one entry');
    const entries: HistoryEntry[] = [];
    for (const entry of this.#matching(query)) {
      const last = entries.at(-1);
      if (entries.length === query.limit && last !== undefined) return { entries, next: formatCursor(last) };
      entries.push(entry);
    }
    return { entries };
  }

  /** Every entry behind the cursor that matches, newest first, read as it is asked for. */
  *#matching({ kind, workspaceId, facets = {}, since, until, limit, cursor }: HistoryQuery) {
    const { listing, filters } = listingFor(kind, workspaceId, facets);
    const size = filters.length === 0 ? limit + 1 : Math.max(limit + 1, ENTRIES_A_READ);
    let before = startOf(until, cursor);
    for (;;) {
      const rows = this.#list.all({
        listing,
        kind,
        workspace_id: workspaceId,
        since: since ?? Number.MIN_SAFE_INTEGER,
        at: before.at,
        id: before.id,
        limit: size,
      });
      for (const row of rows) {
        const entry = entryOf(row);
        if (filters.every(([name, value]) => entry.facets[name] === value)) yield entry;
        before = entry;
      }
      if (rows.length < size) return;
    }
  }
}

/** Entries come strictly before this place. No id is less than the empty one, which makes `until` exclusive. */
function startOf(until: number | undefined, cursor: string | undefined): { at: number; id: string } {
  const end = { at: until ?? Number.MAX_SAFE_INTEGER, id: '' };
  if (cursor === undefined) return end;
  const place = parseCursor(cursor);
  return place.at < end.at ? place : end;
}
