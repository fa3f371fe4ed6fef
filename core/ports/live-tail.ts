import type { Environment } from '../event/event.ts';

/** One event as the live stream shows it. */
export interface LiveEvent {
  readonly environment: Environment;
  /** JSON in one line: the canonical event with its `outcome` and its `violations`. */
  readonly data: string;
}

/** A live event on its way into the tail of its workspace. */
export interface TailedEvent extends LiveEvent {
  readonly workspaceId: string;
  /** Of its record in the partition the batch comes from. */
  readonly offset: number;
}

export interface TailBatch {
  readonly topic: string;
  readonly partition: number;
  /** In the order of their offsets, which differ. */
  readonly events: readonly TailedEvent[];
  /** The end of the partition: a mark beyond it is of a topic that was made anew, and holds nothing back. */
  readonly end?: number;
}

/** An event in the tail of a workspace. */
export interface KeptEvent extends LiveEvent {
  /** Names this event for good, also to other processes. At most `MAX_TAIL_ID` characters of `[0-9a-z-]`. */
  readonly id: string;
}

export const MAX_TAIL_ID = 80;

/** What a follower finds next. */
export type TailItem =
  | { readonly kind: 'event'; readonly event: KeptEvent }
  /** Here so many events were and are kept no more; without a count where nobody knows how many, if any. */
  | { readonly kind: 'missed'; readonly count?: number }
  /** The engine does not answer: what happens now is not seen until `resumed`. */
  | { readonly kind: 'interrupted' }
  | { readonly kind: 'resumed' };

/** A reader of one workspace's tail, at its own pace. It holds a place and no events. */
export interface TailFollower {
  /**
   * What comes next, in order, at once: events of at most about `maxCharacters` in all, but at least one where there
   * is one; nothing where there is nothing.
   */
  take(maxCharacters: number): readonly TailItem[];
  /** The id of the last event that was taken, or that the follower began behind. */
  readonly place: string | undefined;
  /** Wakes nobody any more. Idempotent. */
  close(): void;
}

export interface FollowOptions {
  /** Begin behind the event of this id; any text is taken. Absent: begin with the `RECENT_EVENTS` newest. */
  readonly after?: string;
  /** Called when there may be something to take; it must return soon and throw nothing. */
  wake(): void;
}

/** What a workspace's tail holds at most, and for how long after its last event. */
export interface TailLimits {
  readonly events: number;
  /** Of the data of its events. */
  readonly characters: number;
  readonly retentionMs: number;
}

export const TAIL_LIMITS: TailLimits = { events: 500, characters: 512 * 1024, retentionMs: 60 * 60 * 1_000 };

/** How many a follower without a place begins with. */
export const RECENT_EVENTS = 100;

/**
 * The recent events of each workspace, for people who watch them come in.
 *
 * Promises:
 * - The events of one partition stand in a tail in the order of their offsets, those of several as they came.
 * - An event stands in a tail once, however often its batch is handed over and however it is cut: each tail marks per
 *   partition up to where it has taken events, and mark and events move together.
 * - A follower is handed every event behind its place, each once, or told at that very point how many are kept no
 *   more. That holds across processes: the id one of them handed out is a place in every other.
 * - A tail keeps the newest events within its limits; the limits hold whoever watches and however slowly. An event
 *   that nobody watches is never copied to a process that only follows.
 *
 * A tail is no store: an engine that fails may forget events that were appended (followers are told), and nothing
 * brings them back.
 *
 * Errors: `append` and `follow` reject with `Unavailable` when the engine does not answer. Part of the batch may have
 * been taken: hand all of it over again. A follower that exists is told `interrupted` and goes on by itself.
 *
 * An implementer must not: hold events for a follower that does not take them, open a connection per follower, let a
 * follower see another workspace's events, or make an append wait for followers.
 */
export interface LiveTail {
  /**
   * Adds the events of a batch that are not behind their tail's mark. Answers the highest mark that held events back,
   * 0 where none did.
   */
  append(batch: TailBatch): Promise<number>;
  /** Resolves once everything that was appended before the call can be taken. */
  follow(workspaceId: string, options: FollowOptions): Promise<TailFollower>;
  close(): Promise<void>;
}
