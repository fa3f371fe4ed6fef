import {
  type FollowOptions,
  type Logger,
  messageOf,
  type TailFollower,
  type TailLimits,
  TributaryError,
  Unavailable,
} from '@tributary/core';
import { Feed, type TailSource } from './feed.ts';

export interface FeedsOptions {
  readonly limits: TailLimits;
  readonly logger: Logger;
  /** Interval of reads without a notification, ms. Absent when the source announces every change. */
  readonly pollMs?: number;
}

/** The feeds of the workspaces that have followers in this process. */
export class Feeds {
  readonly #options: FeedsOptions;
  readonly #source: TailSource;
  readonly #feeds = new Map<string, Feed>();
  readonly #polling: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(openSource: (changed: (workspaceId: string) => void) => TailSource, options: FeedsOptions) {
    this.#options = options;
    this.#source = openSource((workspaceId) => this.#refresh(this.#feeds.get(workspaceId)));
    if (options.pollMs === undefined) return;
    this.#polling = setInterval(() => {
      for (const feed of this.#feeds.values()) this.#refresh(feed);
    }, options.pollMs).unref();
  }

  async follow(workspaceId: string, options: FollowOptions): Promise<TailFollower> {
    if (this.#closed) throw new Unavailable('the live tail is closed');
    const feed = this.#acquire(workspaceId);
    const release = () => this.#release(feed);
    try {
      await feed.refresh();
    } catch (error) {
      release();
      throw error;
    }
    return feed.follow(options, release);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    clearInterval(this.#polling);
    this.#feeds.clear();
    await this.#source.close();
  }

  #acquire(workspaceId: string): Feed {
    let feed = this.#feeds.get(workspaceId);
    if (feed === undefined) {
      feed = new Feed(workspaceId, this.#source, this.#options.limits, () => performance.now());
      this.#feeds.set(workspaceId, feed);
      this.#source.watch(workspaceId);
    }
    feed.holders++;
    return feed;
  }

  #release(feed: Feed): void {
    feed.holders--;
    if (feed.holders > 0 || this.#closed) return;
    this.#feeds.delete(feed.workspaceId);
    this.#source.unwatch(feed.workspaceId);
  }

  /** The feed reports an outage to its followers; any other error is unexpected and logged. */
  #refresh(feed: Feed | undefined): void {
    feed?.refresh().catch((error: unknown) => {
      if (error instanceof TributaryError && error.retryable) return;
      this.#options.logger.error({ error: messageOf(error) }, 'reading a live tail failed');
    });
  }
}
