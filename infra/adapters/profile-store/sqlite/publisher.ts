import { setTimeout as pause, setImmediate as turn } from 'node:timers/promises';
import { backoffMs, type Logger, type Metrics, messageOf, type PublishProfileChanges } from '@tributary/core';
import type { Outbox, Unpublished } from './outbox.ts';
import type { PublishingRight } from './publishing-right.ts';

/** How often one looks for what others committed, and for a publisher that died. */
const LOOK_MS = 100;
const REPORT_MS = 5_000;
/** Between two rounds, ms: taking out what was published is a commit, which cuts those of writes in two. */
const GATHER_MS = 50;
/** So many are taken out before the round is over: no crash has more published again. */
const REMOVED_AT_ONCE = 500;
/** Profiles of which it is known what was told last. */
const REMEMBERED = 10_000;
/** The first wait is longer than others need to look, so that one of them may try. */
const BACKOFF = { firstMs: 3 * LOOK_MS, capMs: 5_000 };

export interface PublisherOptions {
  readonly outbox: Outbox;
  readonly right: PublishingRight;
  readonly publish: PublishProfileChanges;
  /** Takes what was published out of the outbox. */
  readonly remove: (upTo: number) => Promise<void>;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/**
 * Publishes what is in the outbox, in the order of commits, whoever committed it: one of all who have the profiles open
 * does it for all. What was published and could not be taken out before a crash is published again.
 */
export class Publisher {
  readonly #options: PublisherOptions;
  readonly #closing = new AbortController();
  readonly #running: Promise<void>;
  #seenVersion: number | undefined;
  #publishedUpTo = 0;
  #removedUpTo = 0;
  /** Of profiles that were told not long ago, by ucid: a profile is told as it is by then, with what is still to come. */
  readonly #versions = new Map<string, number>();
  #woken = false;
  #wake = () => {};

  constructor(options: PublisherOptions) {
    this.#options = options;
    this.#running = this.#run();
  }

  /** There is something new, probably. */
  wake(): void {
    this.#woken = true;
    this.#wake();
  }

  /** Waits for the changes under way; what is left stays for the next one. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#wake();
    await this.#running;
    this.#options.right.close();
  }

  async #run(): Promise<void> {
    const reporting = setInterval(() => this.#report(), REPORT_MS).unref();
    let failures = 0;
    while (!this.#closing.signal.aborted) {
      try {
        await this.#publishAll();
        failures = 0;
        await this.#pause(GATHER_MS);
        await this.#rest(LOOK_MS);
      } catch (error) {
        this.#options.logger.warn({ error: messageOf(error) }, 'profile changes wait to be published');
        this.#giveUpRight();
        this.#woken = true;
        await this.#pause(backoffMs(failures++, BACKOFF));
      }
    }
    clearInterval(reporting);
  }

  async #publishAll(): Promise<void> {
    const { outbox, right, publish } = this.#options;
    if (!this.#hasNews() || !right.take()) return;
    const version = outbox.version();
    await this.#removePublished();
    const following = () => outbox.after(this.#publishedUpTo, this.#versions);
    for (let next = following(); next !== undefined && !this.#closing.signal.aborted; next = following()) {
      if (next.changes.length > 0) await publish(next.changes);
      this.#remember(next);
      this.#publishedUpTo = next.upTo;
      // Callers come in between.
      await turn();
      if (this.#publishedUpTo - this.#removedUpTo >= REMOVED_AT_ONCE) await this.#removePublished();
    }
    await this.#removePublished();
    this.#seenVersion = version;
  }

  #remember({ changes }: Unpublished): void {
    if (this.#versions.size >= REMEMBERED) this.#versions.clear();
    for (const { ucid, profile } of changes)
      if (profile !== undefined) this.#versions.set(ucid, profile.version);
  }

  /** Whoever has the profiles open beside this one may be able to publish. */
  #giveUpRight(): void {
    const { right, logger } = this.#options;
    try {
      right.release();
    } catch (error) {
      logger.warn({ error: messageOf(error) }, 'the right to publish profile changes is kept');
    }
  }

  async #removePublished(): Promise<void> {
    if (this.#removedUpTo === this.#publishedUpTo) return;
    await this.#options.remove(this.#publishedUpTo);
    this.#removedUpTo = this.#publishedUpTo;
  }

  /** Whether somebody committed since everything was published; always while another one has the right to publish. */
  #hasNews(): boolean {
    const woken = this.#woken;
    this.#woken = false;
    return woken || this.#seenVersion !== this.#options.outbox.version();
  }

  async #pause(ms: number): Promise<void> {
    await pause(ms, undefined, { ref: false, signal: this.#closing.signal }).catch(() => {});
  }

  async #rest(ms: number): Promise<void> {
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
      metrics.gauge('tributary_profile_changes_pending', outbox.waiting());
    } catch (error) {
      logger.warn({ error: messageOf(error) }, 'waiting profile changes are not known');
    }
  }
}
