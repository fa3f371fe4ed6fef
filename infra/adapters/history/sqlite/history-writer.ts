import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Clock, type HistoryEntry, InvalidInput, MAX_HISTORY_FACETS } from '@tributary/core';
import { inTransaction } from '../../sqlite/database.ts';
import { facetsOf, listedOf } from './entry-row.ts';
import { everyListingOf, type Listed, listingsOf } from './listings.ts';

/**
 * A transaction takes no further entry after this long, ms. Its commit takes about as long again, a few ms more when it
 * carries the write-ahead log over; all stages of the process share the thread that waits.
 */
const TRANSACTION_MS = 2;
/** Old entries dropped for each entry put: more than one, so that dropping keeps up. */
const DROPS_AN_ENTRY = 2;

export interface Retention {
  readonly clock: Clock;
  readonly retentionMs: number;
}

/** The writing half: puts entries, keeps their listings, drops what is past its time a little with every put. */
export class HistoryWriter {
  readonly #database: DatabaseSync;
  readonly #retention: Retention;
  readonly #statements: ReturnType<typeof prepare>;
  #last: Promise<void> = Promise.resolve();

  constructor(database: DatabaseSync, retention: Retention) {
    this.#database = database;
    this.#retention = retention;
    this.#statements = prepare(database);
  }

  /** Puts run one after another, each transaction in a turn of the event loop of its own. */
  put(entries: readonly HistoryEntry[]): Promise<void> {
    const done = this.#last.then(() => this.#putAll(entries));
    this.#last = done.catch(() => {}); // whoever put it sees the error; the next one tries for itself
    return done;
  }

  /** Resolves when every put under way has ended, well or not. */
  settled(): Promise<void> {
    return this.#last;
  }

  async #putAll(entries: readonly HistoryEntry[]): Promise<void> {
    for (const { facets } of entries)
      if (Object.keys(facets).length > MAX_HISTORY_FACETS)
        throw new InvalidInput(`an entry has at most ${MAX_HISTORY_FACETS} facets`);
    for (let put = 0; put < entries.length; ) {
      await nextTurn();
      put += inTransaction(this.#database, () => this.#putSome(entries.slice(put)));
    }
  }

  /** Puts the first entries, as many as the time of a transaction allows, at least one; how many. */
  #putSome(entries: readonly HistoryEntry[]): number {
    const end = performance.now() + TRANSACTION_MS;
    const writtenAt = this.#retention.clock();
    let put = 0;
    for (const entry of entries) {
      this.#putOne(entry, writtenAt);
      this.#dropOlderThan(writtenAt - this.#retention.retentionMs);
      put += 1;
      if (performance.now() >= end) break;
    }
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
      this.#list(entry, Number(inserted.lastInsertRowid));
      return;
    }
    if (version < Number(stored.version)) return;
    const number = Number(stored.entry);
    this.#statements.update.run(writtenAt, version, facets, body, detail, number);
    if (facets === stored.facets) return;
    // The place in lists is the first one's: a cursor must not meet an entry twice.
    const place = { kind, workspaceId, id, at: Number(stored.at) };
    this.#unlist({ ...place, facets: facetsOf(stored) });
    this.#list({ ...place, facets: entry.facets }, number);
  }

  #list(entry: Listed, number: number): void {
    for (const listing of listingsOf(entry)) this.#statements.list.run(listing, entry.at, entry.id, number);
  }

  #unlist(entry: Listed): void {
    for (const listing of everyListingOf(entry)) this.#statements.unlist.run(listing, entry.at, entry.id);
  }

  #dropOlderThan(horizon: number): void {
    for (const row of this.#statements.old.all(horizon, DROPS_AN_ENTRY)) {
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
    drop: database.prepare('DELETE FROM entries WHERE entry = ?'),
  } satisfies Record<string, StatementSync>;
}
