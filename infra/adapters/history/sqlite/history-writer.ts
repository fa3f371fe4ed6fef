import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { type Clock, groupIdOf, type HistoryEntry, InvalidInput, MAX_HISTORY_FACETS } from '@tributary/core';
import { inTransaction } from '../../sqlite/database.ts';
import type { WalCheckpointer } from '../../sqlite/wal-checkpointer.ts';
import { everyListingOf, groupListing, type ListedEntry, listingsOf } from './listings.ts';
import { facetsOf, listedOf } from './schema.ts';

/** A transaction takes no further entry after this time, ms. Its commit takes about as long again. */
const TRANSACTION_MS = 2;
/** Expired entries dropped for each put entry: more than one, so that dropping keeps up. */
const DROPS_PER_ENTRY = 2;

export interface Retention {
  readonly clock: Clock;
  readonly retentionMs: number;
}

type GroupedEntry = Omit<ListedEntry, 'facets'> & { readonly group?: HistoryEntry['group'] | undefined };

/**
 * Puts entries, maintains their listings, and drops a few expired entries with every put. All stages of the process share
 * the thread, so each transaction is followed by a rest of its own length: the dead deliveries of one workspace occupy half of
 * the thread at most.
 */
export class HistoryWriter {
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

  #dropOlderThan(time: number): void {
    for (const row of this.#statements.old.all(time, DROPS_PER_ENTRY)) {
      const entry = listedOf(row);
      this.#unlist(entry);
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
