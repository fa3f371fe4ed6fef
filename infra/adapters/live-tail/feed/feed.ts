import {
  type Clock,
  type FollowOptions,
  RECENT_EVENTS,
  type TailFollower,
  type TailLimits,
} from '@tributary/core';
import { FeedFollower, type Followed } from './follower.ts';
import { KeptEvents } from './kept-events.ts';
import { type NumberedEvent, parseId } from './numbered-event.ts';
import type { TailSource } from './source.ts';

/** Of the time a tail is kept: two clocks tell it, and events are read a little after they were appended. */
const FORGOTTEN_SHARE = 0.9;

/**
 * The tail of one workspace as this process has it while somebody follows: one copy within the tail's limits, read
 * once for all followers, each of which holds a place in it and nothing else.
 */
export class Feed implements Followed {
  readonly workspaceId: string;
  readonly #source: TailSource;
  readonly #limits: TailLimits;
  readonly #elapsed: Clock;
  readonly #followers = new Set<FeedFollower>();
  readonly kept: KeptEvents;
  generation = 0;
  losses = 0;
  isInterrupted = false;
  /** Followers, and those who are about to follow. */
  holders = 0;
  #next: string | undefined;
  /** When events came last, ms. */
  #grewAt: number;
  #reading: Promise<void> | undefined;
  #readingNext: Promise<void> | undefined;

  /** `elapsed`: ms that never go back. */
  constructor(workspaceId: string, source: TailSource, limits: TailLimits, elapsed: Clock) {
    this.workspaceId = workspaceId;
    this.#source = source;
    this.#limits = limits;
    this.#elapsed = elapsed;
    this.#grewAt = elapsed();
    this.kept = new KeptEvents(limits);
  }

  /** Reads what is new. Whoever comes while that is under way shares the next read, which begins after they came. */
  refresh(): Promise<void> {
    if (this.#readingNext !== undefined) return this.#readingNext;
    if (this.#reading === undefined) return this.#begin();
    const after = () => {
      this.#readingNext = undefined;
      return this.#begin();
    };
    this.#readingNext = this.#reading.then(after, after);
    return this.#readingNext;
  }

  /** The feed must have been refreshed since the follower came. */
  follow({ after, wake }: FollowOptions, onClose: () => void): TailFollower {
    const follower = new FeedFollower(this, this.#placeOf(after), wake, () => {
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
    const isAnew = newest !== undefined && event.era !== newest.era;
    if (isAnew || event.number <= last) {
      this.generation++;
      // A tail that had been quiet for as long as it is kept was forgotten as it should be, and nothing with it.
      const wasForgotten =
        isAnew && this.#elapsed() - this.#grewAt > this.#limits.retentionMs * FORGOTTEN_SHARE;
      if (!wasForgotten) this.losses++;
    }
    this.#grewAt = this.#elapsed();
    this.kept.push(event);
  }

  #wakeAll(isInterrupted: boolean): void {
    this.isInterrupted = isInterrupted;
    for (const follower of this.#followers) follower.wake();
  }

  /** Where a follower begins, and whether it has to be told that what it missed is not known. */
  #placeOf(after: string | undefined): { readonly number: number; readonly isLost: boolean } {
    const { first, last, newest } = this.kept;
    if (after === undefined) return { number: Math.max(first - 1, last - RECENT_EVENTS), isLost: false };
    const place = parseId(after);
    const isKept = place !== undefined && this.kept.at(place.number)?.id === after;
    const isBefore = place !== undefined && place.era === newest?.era && place.number < first;
    if (isKept || isBefore) return { number: place.number, isLost: false };
    return { number: first - 1, isLost: true };
  }
}
