import type { Environment } from '../event/event.ts';

/** An event as the live stream shows it. */
export interface LiveEvent {
  readonly environment: Environment;
  /** One line of JSON: the canonical event with its `outcome` and `violations`. */
  readonly data: string;
}

/** A live event to append to the tail of its workspace. */
export interface TailedEvent extends LiveEvent {
  readonly workspaceId: string;
  /** Offset of its record in the batch's partition. */
  readonly offset: number;
}

export interface TailBatch {
  readonly topic: string;
  readonly partition: number;
  /** In the order of their distinct offsets. */
  readonly events: readonly TailedEvent[];
  /** The end of the partition: a mark beyond it belongs to a topic that was replaced, and is ignored. */
  readonly end?: number;
}

export interface KeptEvent extends LiveEvent {
  /** A stable id of this event, the same in all processes. At most 80 characters of `[0-9a-z-]`. */
  readonly id: string;
}

/** An item of a follower's stream. */
export type TailItem =
  | { readonly kind: 'event'; readonly event: KeptEvent }
  /** Events at this point that are no longer kept; without `count` where their number is unknown and may be 0. */
  | { readonly kind: 'missed'; readonly count?: number }
  /** The engine does not answer: later events are only read after `resumed`. */
  | { readonly kind: 'interrupted' }
  | { readonly kind: 'resumed' };

/** A reader of one workspace's tail, at its own pace. It holds a position, not events. */
export interface TailFollower {
  /**
   * Returns the next items in order, without waiting: events of at most about `maxCharacters` in all, but at least
   * one where there is one; an empty list where there is none.
   */
  take(maxCharacters: number): readonly TailItem[];
  /** The id of the last event that was taken, or after which the follower began. */
  readonly lastId: string | undefined;
  /** Ends the calls of `wake`. Idempotent. */
  close(): void;
}

export interface FollowOptions {
  /** Begin after the event with this id; any text is accepted. Absent: begin with the `RECENT_EVENTS` newest. */
  readonly after?: string;
  /** Called when there may be something to take; it must return quickly and not throw. */
  wake(): void;
}

/** Bounds on a workspace's tail, and its retention after the last event. */
export interface TailLimits {
  readonly events: number;
  /** Characters of the data of its events. */
  readonly characters: number;
  readonly retentionMs: number;
}

export const TAIL_LIMITS: TailLimits = { events: 500, characters: 512 * 1024, retentionMs: 60 * 60 * 1_000 };

/** Number of events that a follower without a position begins with. */
export const RECENT_EVENTS = 100;

/**
 * The recent events of each workspace, for live streams.
 *
 * Promises:
 * - A tail holds the events of one partition in the order of their offsets; those of several partitions in the order
 *   of arrival.
 * - An event is in a tail once, however often and in whichever batches it is appended: each tail marks per partition
 *   up to where it has taken events, and mark and events are stored together.
 * - A follower gets every event after its position, each once, or at that point the number of those that are not kept
 *   any more. This holds across processes: an id from one process is a position in every other.
 * - A tail keeps the newest events within its limits, whatever the number and speed of followers. Events of
 *   workspaces without followers are never copied to processes that only follow.
 *
 * A tail is not a durable store: an engine that fails may lose appended events (followers are informed), and they are
 * not restored.
 *
 * Errors: `append` and `follow` reject with `Unavailable` when the engine does not answer. A part of the batch may
 * have been taken: append all of it again. Existing followers get `interrupted` and continue by themselves.
 *
 * An implementer must not: hold events for a follower that does not take them, open a connection per follower, let a
 * follower see another workspace's events, or make an append wait for followers.
 */
export interface LiveTail {
  /**
   * Adds the events of a batch that are beyond their tail's mark. Returns the highest mark that excluded events, 0
   * where none did.
   */
  append(batch: TailBatch): Promise<number>;
  /** Resolves once everything that was appended before the call can be taken. */
  follow(workspaceId: string, options: FollowOptions): Promise<TailFollower>;
  close(): Promise<void>;
}
