import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { HistoryEntry } from '@tributary/core';
import { inTransaction } from '../../sqlite/database.ts';
import { entryOf } from './entry-row.ts';
import { listingsOf } from './listings.ts';

/** Entries of one transaction at most: another thread's write waits no longer than that. */
const ENTRIES_A_TRANSACTION = 200;
/** Old entries one transaction drops at most; more than it can add, so that dropping keeps up. */
const DROPS_A_TRANSACTION = 2 * ENTRIES_A_TRANSACTION;

/** The writing half: puts entries, keeps their listings, drops what is past its time a little with every put. */
export class HistoryWriter {
  readonly #database: DatabaseSync;
  readonly #statements: ReturnType<typeof prepare>;

  constructor(database: DatabaseSync) {
    this.#database = database;
    this.#statements = prepare(database);
  }

  /** Puts the entries and drops some of those older than `horizon`, epoch ms. */
  put(entries: readonly HistoryEntry[], horizon: number): void {
    for (let start = 0; start < entries.length; start += ENTRIES_A_TRANSACTION) {
      inTransaction(this.#database, () => {
        for (const entry of entries.slice(start, start + ENTRIES_A_TRANSACTION)) this.#putOne(entry);
        this.#dropOlderThan(horizon);
      });
    }
  }

  #putOne(entry: HistoryEntry): void {
    const { kind, workspaceId, id, at, version } = entry;
    const [facets, body] = [JSON.stringify(entry.facets), JSON.stringify(entry.body)];
    const stored = this.#statements.find.get(kind, workspaceId, id);
    if (stored === undefined) {
      const inserted = this.#statements.insert.run(kind, workspaceId, id, at, version, facets, body);
      this.#list(entry, at, Number(inserted.lastInsertRowid));
      return;
    }
    const old = entryOf(stored);
    if (version < old.version) return;
    this.#statements.update.run(version, facets, body, Number(stored.entry));
    if (facets === stored.facets) return;
    this.#unlist(old);
    // The place in lists is the first one's: a cursor must not meet an entry twice.
    this.#list(entry, old.at, Number(stored.entry));
  }

  #list(entry: HistoryEntry, at: number, number: number): void {
    for (const listing of listingsOf(entry)) this.#statements.list.run(listing, at, entry.id, number);
  }

  #unlist(entry: HistoryEntry): void {
    for (const listing of listingsOf(entry)) this.#statements.unlist.run(listing, entry.at, entry.id);
  }

  #dropOlderThan(horizon: number): void {
    for (const row of this.#statements.old.all(horizon, DROPS_A_TRANSACTION)) {
      this.#unlist(entryOf(row));
      this.#statements.drop.run(Number(row.entry));
    }
  }
}

function prepare(database: DatabaseSync) {
  return {
    find: database.prepare('SELECT * FROM entries WHERE kind = ? AND workspace_id = ? AND id = ?'),
    insert: database.prepare(
      'INSERT INTO entries (kind, workspace_id, id, at, version, facets, body) VALUES (?, ?, ?, ?, ?, ?, ?)',
    ),
    update: database.prepare('UPDATE entries SET version = ?, facets = ?, body = ? WHERE entry = ?'),
    list: database.prepare('INSERT INTO listed (listing, at, id, entry) VALUES (?, ?, ?, ?)'),
    unlist: database.prepare('DELETE FROM listed WHERE listing = ? AND at = ? AND id = ?'),
    old: database.prepare('SELECT * FROM entries WHERE at < ? ORDER BY at LIMIT ?'),
    drop: database.prepare('DELETE FROM entries WHERE entry = ?'),
  } satisfies Record<string, StatementSync>;
}
