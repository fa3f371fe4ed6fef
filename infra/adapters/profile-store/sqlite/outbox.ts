import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { setTimeout as pause, setImmediate as turn } from 'node:timers/promises';
import {
  backoffMs,
  type Logger,
  type Metrics,
  messageOf,
  type Profile,
  type ProfileChange,
  type PublishProfileChanges,
  parseExact,
} from '@tributary/core';
import { isBusy, openDatabase, reading, translateSqliteError } from '../../sqlite/database.ts';
import { ucidBytes } from './schema.ts';

/** A change in the outbox. It has no profile, so that a long backlog does not hold a copy for every version. */
export interface OutboxChange extends Omit<ProfileChange, 'profile'> {
  /** A ucid that was linked to the profile and is split off by the change. */
  readonly split?: string;
}

/** Largest row, in changes and merged ucids, because a row is parsed as a whole. A single change may be larger. */
const ROW_WEIGHT = 50;

/** The changes of a transaction as rows of the outbox, in order. */
export function* outboxRows(changes: readonly OutboxChange[]): Generator<readonly OutboxChange[]> {
  let row: OutboxChange[] = [];
  let weight = 0;
  for (const change of changes) {
    const added = 1 + change.linked.length;
    if (row.length > 0 && weight + added > ROW_WEIGHT) {
      yield row;
      [row, weight] = [[], 0];
    }
    row.push(change);
    weight += added;
  }
  if (row.length > 0) yield row;
}

/** Largest batch, characters; a single change may be larger. It is read and written as records in the thread of callers. */
const BATCH_CHARACTERS = 256 * 1024;
/** Profiles of this length are published at a bounded rate. */
const LARGE_CHARACTERS = 32 * 1024;
/** Most changes of a batch. They are read in the thread that answers callers, which this many occupy for about 1 ms. */
const BATCH_CHANGES = 50;

interface UnpublishedChanges {
  /** In the order of their commits. Empty if later changes supersede all of them. */
  readonly changes: readonly ProfileChange[];
  /** The number of the last change that they cover. */
  readonly upTo: number;
  /** Characters of the large profiles among them. */
  readonly large: number;
}

interface Numbered {
  readonly at: number;
  readonly change: OutboxChange;
  /** Its share of the row's length, characters. */
  readonly weight: number;
}

/**
 * The reading side of the outbox. A change is published with the current profile, so several writes of one profile are
 * published as one. Merges and deletions are always published, also of a profile that does not exist any more.
 */
export class Outbox {
  readonly #after: StatementSync;
  readonly #profile: StatementSync;
  readonly #version: StatementSync;
  readonly #countPending: StatementSync;

  constructor(database: DatabaseSync) {
    this.#after = database.prepare('SELECT change, body FROM outbox WHERE change > ? ORDER BY change');
    this.#profile = database.prepare(
      `SELECT profiles.body FROM ucids JOIN profiles USING (profile)
       WHERE ucids.ucid = ? AND profiles.deleted_at IS NULL`,
    );
    this.#version = database.prepare('PRAGMA data_version');
    // Changes are numbered without gaps and removed in order, so two rows suffice to count them.
    this.#countPending = database.prepare(
      `SELECT (SELECT max(change) FROM outbox) - change + json_array_length(body) AS waiting
       FROM outbox ORDER BY change LIMIT 1`,
    );
  }

  /**
   * The next changes after this number; undefined if there are none. `published`: versions of profiles that are already
   * published, by ucid; writes up to them are skipped.
   */
  after(number: number, published: ReadonlyMap<string, number>): UnpublishedChanges | undefined {
    return reading(() => {
      const changesByUcid = new Map<string, ProfileChange>();
      let [upTo, count, characters, large] = [number, 0, 0, 0];
      for (const { at, change, weight } of this.#rowsAfter(number)) {
        if (++count > BATCH_CHANGES) break;
        if (change.kind === 'written' && change.version <= (published.get(change.ucid) ?? 0)) {
          upTo = at;
          continue;
        }
        const before = changesByUcid.get(change.ucid);
        if (before?.profile === undefined) {
          const text = change.kind === 'deleted' ? '' : this.#textOf(change.ucid);
          characters += weight + text.length;
          if (upTo !== number && characters > BATCH_CHARACTERS) break;
          if (text.length > LARGE_CHARACTERS) large += text.length;
          const current = text === '' ? undefined : (parseExact(text) as Profile);
          const profile = current?.ucid === change.ucid ? current : undefined;
          const all = mergedChange(before, change, profile);
          // The profile does not exist any more: a later deletion or merge in the outbox covers this write.
          if (profile === undefined && all.kind === 'written') changesByUcid.delete(change.ucid);
          else changesByUcid.set(change.ucid, all);
        } else {
          changesByUcid.set(change.ucid, mergedChange(before, change, before.profile));
        }
        upTo = at;
      }
      return upTo === number ? undefined : { changes: [...changesByUcid.values()], upTo, large };
    });
  }

  /** Changes with every commit of another connection. */
  version(): number {
    return reading(() => Number(this.#version.get()?.data_version));
  }

  /** The number of unpublished changes. */
  pending(): number {
    return reading(() => Number(this.#countPending.get()?.waiting ?? 0));
  }

  /** The changes after this number. The connection sees one snapshot of the file during the iteration. */
  *#rowsAfter(number: number): Generator<Numbered> {
    for (const { change: last, body } of this.#after.iterate(number)) {
      const text = String(body);
      const changes = parseExact(text) as readonly OutboxChange[];
      const weight = text.length / changes.length;
      let at = Number(last) - changes.length;
      for (const change of changes) if (++at > number) yield { at, change, weight };
    }
  }

  #textOf(ucid: string): string {
    return String(this.#profile.get(ucidBytes(ucid))?.body ?? '');
  }
}

/**
 * Two successive changes of one ucid as one; the profile, if there is one, is newer than both. Ucids split off since are not
 * listed; a deletion lists all merged ucids by itself.
 */
function mergedChange(
  before: ProfileChange | undefined,
  { split, ...change }: OutboxChange,
  profile: Profile | undefined,
): ProfileChange {
  if (change.kind === 'deleted') return change;
  const all = new Set([...(before?.linked ?? []).filter((ucid) => ucid !== split), ...change.linked]);
  const linked = [...all].filter((ucid) => profile === undefined || profile.linked.includes(ucid));
  const kind = linked.length > 0 ? 'merged' : 'written';
  if (profile === undefined) return { ...change, kind, linked };
  return { ...change, kind, linked, version: profile.version, at: profile.updated_ts, profile };
}

/** How often the file is polled for commits of other processes, and the lease for its holder's death. */
const POLL_MS = 100;
const REPORT_MS = 5_000;
/** Pause between two rounds, ms. Removing published changes is a commit, which splits the groups of writes. */
const BATCH_PAUSE_MS = 50;
/**
 * A round with large profiles is followed by a pause in proportion to them, so that writes to the same profile meanwhile are
 * published as one: neither the log nor the thread pays 200 KB for each small write.
 */
const LARGE_CHARACTERS_A_MS = 1024;
const LONGEST_PAUSE_MS = 1_000;
/** Published changes are removed at the latest after so many: this bounds what a crash publishes again. */
const REMOVE_EVERY = 500;
/** Profiles of which the published version is known. */
const MAX_VERSIONS = 10_000;
/** The first pause is longer than the polling interval, so that another process may take the lease. */
const BACKOFF = { firstMs: 3 * POLL_MS, capMs: 5_000 };

interface PublisherOptions {
  readonly outbox: Outbox;
  readonly lease: PublisherLease;
  readonly publish: PublishProfileChanges;
  /** Removes published changes from the outbox. */
  readonly remove: (upTo: number) => Promise<void>;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/**
 * Publishes the outbox in the order of commits. Of all processes that have the file open, the holder of the publisher
 * lease does it for all. Changes that were published and not yet removed at a crash are published again.
 */
export class Publisher {
  readonly #options: PublisherOptions;
  readonly #closing = new AbortController();
  readonly #running: Promise<void>;
  #seenVersion: number | undefined;
  #publishedUpTo = 0;
  #removedUpTo = 0;
  /** Recently published versions by ucid: a change carries the current profile, which covers later changes as well. */
  readonly #versions = new Map<string, number>();
  #woken = false;
  #wake = () => {};

  constructor(options: PublisherOptions) {
    this.#options = options;
    this.#running = this.#run();
  }

  /** To be called after a commit. */
  wake(): void {
    this.#woken = true;
    this.#wake();
  }

  /** Waits for the append under way. Remaining changes are left to the next holder of the lease. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#wake();
    await this.#running;
    this.#options.lease.close();
  }

  async #run(): Promise<void> {
    const reporting = setInterval(() => this.#report(), REPORT_MS).unref();
    let failures = 0;
    while (!this.#closing.signal.aborted) {
      try {
        const large = await this.#publishAll();
        failures = 0;
        const pauseMs = Math.min(LONGEST_PAUSE_MS, large / LARGE_CHARACTERS_A_MS);
        await this.#pause(Math.max(BATCH_PAUSE_MS, pauseMs));
        await this.#waitForWake(POLL_MS);
      } catch (error) {
        this.#options.logger.warn(
          { error: messageOf(error) },
          'profile changes could not be published; retrying',
        );
        this.#releaseLease();
        this.#woken = true;
        await this.#pause(backoffMs(failures++, BACKOFF));
      }
    }
    clearInterval(reporting);
  }

  /** Returns the characters of the large profiles that were published. */
  async #publishAll(): Promise<number> {
    const { outbox, lease, publish } = this.#options;
    let large = 0;
    if (!this.#hasChanges() || !lease.acquire()) return large;
    const version = outbox.version();
    await this.#removePublished();
    const nextChanges = () => outbox.after(this.#publishedUpTo, this.#versions);
    for (
      let next = nextChanges();
      next !== undefined && !this.#closing.signal.aborted;
      next = nextChanges()
    ) {
      if (next.changes.length > 0) await publish(next.changes);
      large += next.large;
      this.#noteVersions(next);
      this.#publishedUpTo = next.upTo;
      // Yields to callers in this thread.
      await turn();
      if (this.#publishedUpTo - this.#removedUpTo >= REMOVE_EVERY) await this.#removePublished();
    }
    await this.#removePublished();
    this.#seenVersion = version;
    return large;
  }

  #noteVersions({ changes }: UnpublishedChanges): void {
    if (this.#versions.size >= MAX_VERSIONS) this.#versions.clear();
    for (const { ucid, profile } of changes)
      if (profile !== undefined) this.#versions.set(ucid, profile.version);
  }

  /** Another process may be able to publish. */
  #releaseLease(): void {
    const { lease, logger } = this.#options;
    try {
      lease.release();
    } catch (error) {
      logger.warn({ error: messageOf(error) }, 'the publisher lease of the profiles could not be released');
    }
  }

  async #removePublished(): Promise<void> {
    if (this.#removedUpTo === this.#publishedUpTo) return;
    await this.#options.remove(this.#publishedUpTo);
    this.#removedUpTo = this.#publishedUpTo;
  }

  /** Whether there was a commit since everything was published. Always true while another process has the lease. */
  #hasChanges(): boolean {
    const woken = this.#woken;
    this.#woken = false;
    return woken || this.#seenVersion !== this.#options.outbox.version();
  }

  async #pause(ms: number): Promise<void> {
    await pause(ms, undefined, { ref: false, signal: this.#closing.signal }).catch(() => {});
  }

  async #waitForWake(ms: number): Promise<void> {
    if (this.#woken || this.#closing.signal.aborted) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms).unref();
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #report(): void {
    const { metrics, outbox, logger } = this.#options;
    try {
      metrics.gauge('tributary_profile_changes_pending', outbox.pending());
    } catch (error) {
      logger.warn({ error: messageOf(error) }, 'pending profile changes could not be counted');
    }
  }
}

/**
 * The publisher lease: held by one of the processes that have the profiles open, as a write transaction of a file of its
 * own. A process that dies loses it at once, whatever the cause; one that cannot publish releases it.
 */
export class PublisherLease {
  readonly #database: DatabaseSync;

  /** `busyTimeoutMs`: how long opening waits while other processes open or close the file. Acquiring never waits. */
  constructor(file: string, busyTimeoutMs: number) {
    this.#database = openDatabase(file, { busyTimeoutMs });
    this.#database.exec('PRAGMA busy_timeout = 0');
  }

  /** True if this process holds the lease now. */
  acquire(): boolean {
    if (this.#database.isTransaction) return true;
    try {
      this.#database.exec('BEGIN IMMEDIATE');
      return true;
    } catch (error) {
      if (isBusy(error)) return false;
      throw translateSqliteError(error);
    }
  }

  release(): void {
    if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
  }

  close(): void {
    this.#database.close();
  }
}
