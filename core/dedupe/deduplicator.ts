import type { Environment } from '../event/event.ts';
import type { Position } from '../log/position.ts';

/** What a `message_id` is unique in, and it. */
export interface Message {
  readonly workspaceId: string;
  readonly environment: Environment;
  readonly messageId: string;
}

/** One event that asks whether it is the first of its `message_id`. */
export interface Claimant extends Message {
  readonly position: Position;
}

/**
 * Promises: of one (workspace, environment, message_id) in a window exactly one position ever wins, and that position
 * wins again whenever it asks again, whatever crashed in between; so a crash between "seen" and "emitted" loses
 * nothing. A win is durable when the call resolves.
 *
 * Limits: a window (24 h by default) is at least kept, at most kept for 1.5 times as long.
 * Errors: `Unavailable` when the store does not answer (some claims of the call may have been taken; asking again is safe).
 *
 * An implementer must not answer from a cache what the store has not confirmed, and must not forget a win because
 * memory ran short.
 */
export interface Deduplicator {
  /** For each claimant, in order: true when its position is the winner. Several of one call may share an id. */
  claim(claimants: readonly Claimant[]): Promise<readonly boolean[]>;
  /**
   * The position that won a message, as far as it is remembered; undefined where none is known. Takes nothing and waits
   * for no claim. A store may keep a topic's name in a form it cannot read back: `topics` are those a winner may be in,
   * and one of another topic counts as unknown.
   */
  winner(message: Message, topics: readonly string[]): Promise<Position | undefined>;
  close(): Promise<void>;
}
