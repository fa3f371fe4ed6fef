import {
  type Clock,
  type FollowOptions,
  type KeptEvent,
  type Logger,
  messageOf,
  RECENT_EVENTS,
  type TailFollower,
  type TailItem,
  type TailLimits,
  TributaryError,
  Unavailable,
} from '@tributary/core';

interface FeedsOptions {
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

/** A part of a tail, read from its engine. */
export interface TailPart {
  /** In order. Numbers have a gap where events are no longer kept. */
  readonly events: readonly NumberedEvent[];
  /** The engine's cursor for the next read; undefined until something was read. */
  readonly next: string | undefined;
  /** Whether there may be more events. */
  readonly more: boolean;
}

/** The engine that keeps the tails, as the feeds of a process use it. */
export interface TailSource {
  /** Reads after the cursor `from`, or everything when it is undefined. `Unavailable`. */
  read(workspaceId: string, from: string | undefined): Promise<TailPart>;
  /** Begins change notifications for a workspace. Missed notifications are made up for by reading. */
  watch(workspaceId: string): void;
  unwatch(workspaceId: string): void;
  close(): Promise<void>;
}

/**
 * Share of a tail's retention after which a new era is taken for expiry and not for a loss: the two clocks differ, and
 * events are read a little after they were appended.
 */
const EXPIRED_SHARE = 0.9;

/**
 * This process's copy of a workspace's tail, while it has followers. It is read once for all of them; a follower holds
 * only a position in it.
 */
export class Feed {
  readonly workspaceId: string;
  readonly #source: TailSource;
  readonly #limits: TailLimits;
  readonly #elapsed: Clock;
  readonly #followers = new Set<FeedFollower>();
  readonly kept: KeptEvents;
  /** Increases when the tail restarts: earlier numbers are invalid then. */
  generation = 0;
  /** Increases when an unknown number of events may be missing between two events. */
  losses = 0;
  isInterrupted = false;
  /** Number of followers, including those about to be added. */
  holders = 0;
  #next: string | undefined;
  /** Time of the last event, ms. */
  #grewAt: number;
  #reading: Promise<void> | undefined;
  #nextReading: Promise<void> | undefined;

  /** `elapsed`: a monotonic clock, ms. */
  constructor(workspaceId: string, source: TailSource, limits: TailLimits, elapsed: Clock) {
    this.workspaceId = workspaceId;
    this.#source = source;
    this.#limits = limits;
    this.#elapsed = elapsed;
    this.#grewAt = elapsed();
    this.kept = new KeptEvents(limits);
  }

  /** Reads new events. Calls during a read share the next one, which begins after they were made. */
  refresh(): Promise<void> {
    if (this.#nextReading !== undefined) return this.#nextReading;
    if (this.#reading === undefined) return this.#begin();
    const after = () => {
      this.#nextReading = undefined;
      return this.#begin();
    };
    this.#nextReading = this.#reading.then(after, after);
    return this.#nextReading;
  }

  /** To be called after a `refresh` that began after the follower's request. */
  follow({ after, wake }: FollowOptions, onClose: () => void): TailFollower {
    const follower = new FeedFollower(this, this.#startOf(after), wake, () => {
      this.#followers.delete(follower);
      onClose();
    });
    this.#followers.add(follower);
    return follower;
  }

  #begin(): Promise<void> {
    this.#reading = this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #read(): Promise<void> {
    let more = true;
    try {
      while (more) {
        const part = await this.#source.read(this.workspaceId, this.#next);
        for (const event of part.events) this.#add(event);
        this.#next = part.next;
        more = part.more;
        if (part.events.length > 0 || this.isInterrupted) this.#wakeAll(false);
      }
    } catch (error) {
      if (!this.isInterrupted) this.#wakeAll(true);
      throw error;
    }
  }

  #add(event: NumberedEvent): void {
    const { newest, last } = this.kept;
    const isNewEra = newest !== undefined && event.era !== newest.era;
    if (isNewEra || event.number <= last) {
      this.generation++;
      // A tail without events for its retention expired regularly, and no event was lost.
      const wasExpired =
        isNewEra && this.#elapsed() - this.#grewAt > this.#limits.retentionMs * EXPIRED_SHARE;
      if (!wasExpired) this.losses++;
    }
    this.#grewAt = this.#elapsed();
    this.kept.push(event);
  }

  #wakeAll(isInterrupted: boolean): void {
    this.isInterrupted = isInterrupted;
    for (const follower of this.#followers) follower.wake();
  }

  /** The number after which a follower begins, and whether it may have missed an unknown number of events. */
  #startOf(after: string | undefined): FollowerStart {
    const { first, last, newest } = this.kept;
    if (after === undefined) return { number: Math.max(first - 1, last - RECENT_EVENTS), isLost: false };
    const id = parseId(after);
    const isKept = id !== undefined && this.kept.at(id.number)?.id === after;
    const isBeforeKept = id !== undefined && id.era === newest?.era && id.number < first;
    if (isKept || isBeforeKept) return { number: id.number, isLost: false };
    return { number: first - 1, isLost: true };
  }
}

interface FollowerStart {
  readonly number: number;
  readonly isLost: boolean;
}

/** A position in a feed. */
class FeedFollower implements TailFollower {
  readonly #feed: Feed;
  readonly #wake: () => void;
  readonly #onClose: () => void;
  #generation: number;
  #losses: number;
  /** Number of the last event that was taken. */
  #number: number;
  #lastId: string | undefined;
  #wasInterrupted = false;
  #closed = false;

  constructor(feed: Feed, { number, isLost }: FollowerStart, wake: () => void, onClose: () => void) {
    this.#feed = feed;
    this.#generation = feed.generation;
    this.#losses = feed.losses - (isLost ? 1 : 0);
    this.#number = number;
    this.#lastId = feed.kept.at(number)?.id;
    this.#wake = wake;
    this.#onClose = onClose;
  }

  get lastId(): string | undefined {
    return this.#lastId;
  }

  take(maxCharacters: number): readonly TailItem[] {
    const items: TailItem[] = [];
    const { kept } = this.#feed;
    this.#addGaps(items);
    for (let left = maxCharacters; left > 0 && this.#number < kept.last; ) {
      const event = kept.at(this.#number + 1);
      if (event === undefined) break;
      items.push({ kind: 'event', event });
      left -= event.data.length;
      this.#number = event.number;
      this.#lastId = event.id;
    }
    if (this.#feed.isInterrupted && !this.#wasInterrupted && this.#number === kept.last) {
      this.#wasInterrupted = true;
      items.push({ kind: 'interrupted' });
    }
    return items;
  }

  wake(): void {
    if (!this.#closed) this.#wake();
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#onClose();
  }

  /** Adds an item for each change of the feed since the last take that left out events. */
  #addGaps(items: TailItem[]): void {
    const { kept, generation, losses, isInterrupted } = this.#feed;
    if (this.#wasInterrupted && !isInterrupted) {
      this.#wasInterrupted = false;
      items.push({ kind: 'resumed' });
    }
    if (this.#generation !== generation) {
      this.#generation = generation;
      this.#number = kept.first - 1;
    }
    if (this.#losses !== losses) {
      this.#losses = losses;
      items.push({ kind: 'missed' });
    }
    const count = kept.first - 1 - this.#number;
    if (count > 0) {
      items.push({ kind: 'missed', count });
      this.#number += count;
    }
  }
}

/**
 * An event with its number in its tail. Numbers are consecutive, from 1. An era identifies one lifetime of a tail: an
 * engine that dropped a tail begins a new one. An id is `<era>-<suffix of the engine>-<number>`.
 */
export interface NumberedEvent extends KeptEvent {
  readonly era: string;
  readonly number: number;
}

const ID = /^([0-9a-z]{1,20})-[0-9a-z]{1,20}-(\d{1,15})$/;

export function idOf(era: string, suffix: string | number, number: number): string {
  return `${era}-${suffix}-${number}`;
}

/** Era and number of an id; undefined for any other text. */
function parseId(id: string): { readonly era: string; readonly number: number } | undefined {
  const [, era, number] = ID.exec(id) ?? [];
  return era === undefined || number === undefined ? undefined : { era, number: Number(number) };
}

/** The newest events of one tail, numbered without gaps, within the tail's limits. */
export class KeptEvents {
  readonly #limits: TailLimits;
  #events: NumberedEvent[] = [];
  #characters = 0;
  #last = 0;

  constructor(limits: TailLimits) {
    this.#limits = limits;
  }

  /** Number of the first kept event; `last + 1` when none is kept. */
  get first(): number {
    return this.#last - this.#events.length + 1;
  }

  /** Number of the newest event; 0 before the first. */
  get last(): number {
    return this.#last;
  }

  get characters(): number {
    return this.#characters;
  }

  /** Adds the newest event. One with another era, or not the next number, replaces all kept events. */
  push(event: NumberedEvent): void {
    if (event.number !== this.#last + 1 || event.era !== this.newest?.era)
      [this.#events, this.#characters] = [[], 0];
    this.#last = event.number;
    this.#events.push(event);
    this.#characters += event.data.length;
    while (this.#isOverLimit()) this.#characters -= this.#events.shift()?.data.length ?? 0;
  }

  at(number: number): NumberedEvent | undefined {
    return this.#events[number - this.first];
  }

  get newest(): NumberedEvent | undefined {
    return this.at(this.#last);
  }

  /** The kept events after a number, in order. */
  after(number: number): readonly NumberedEvent[] {
    return this.#events.slice(Math.max(0, number + 1 - this.first));
  }

  /** The newest event is always kept, whatever its size. */
  #isOverLimit(): boolean {
    const { length } = this.#events;
    return length > 1 && (length > this.#limits.events || this.#characters > this.#limits.characters);
  }
}
