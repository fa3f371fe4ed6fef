import type { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause, setImmediate as turn } from 'node:timers/promises';
import { backoffMs, type Logger, type Metrics, messageOf, type PublishProfileChanges } from '@tributary/core';
import { isBusy, openDatabase, translateSqliteError } from '../../sqlite/database.ts';
import type { Outbox, UnpublishedChanges } from './outbox.ts';

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

export interface PublisherOptions {
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
