import type { Environment } from '../event/event.ts';
import type { Position } from '../log/event-log.ts';

/** What a `message_id` is unique in, and it. */
export interface Message {
  readonly workspaceId: string;
  readonly environment: Environment;
  readonly messageId: string;
}

/** One event that asks whether it is the first of its `message_id`. */
export interface DedupeClaim extends Message {
  readonly position: Position;
  /** Its contract rejects the event: it asks whether it is the first rejected one, and does not take the id. */
  readonly rejected?: boolean;
  /**
   * It wins the id only where a rejected claimant of an earlier call has won among the rejected ones of it; else it takes
   * nothing and loses. So ids are remembered of those events alone that somebody may ask about.
   */
  readonly afterRejected?: boolean;
}

/**
 * Promises: of one (workspace, environment, message_id) in a window exactly one position ever wins, and that position
 * wins again whenever it asks again, whatever crashed in between; so a crash between "seen" and "emitted" loses
 * nothing. A win is durable when the call resolves.
 *
 * A rejected claimant takes nothing from the others: after it any position may win the id. Of the rejected claimants of
 * an id one position wins, always the same; none that asks first after another position has won the id.
 *
 * Limits: a window (24 h by default) is at least kept, at most kept for 1.5 times as long.
 * Errors: `Unavailable` when the store does not answer (some claims of the call may have been taken; asking again is safe).
 *
 * An implementer must not answer from a cache what the store has not confirmed, and must not forget a win because
 * memory ran short.
 */
export interface Deduplicator {
  /** For each claimant: true when its position is the winner. Several of one call may share an id and are decided in order. */
  claim(claimants: readonly DedupeClaim[]): Promise<readonly boolean[]>;
  /**
   * The position that won a message, else the first that was rejected, as far as it is remembered; undefined where none is known. Takes nothing and waits
   * for no claim. A store may keep a topic's name in a form it cannot read back: `topics` are those a winner may be in,
   * and one of another topic counts as unknown.
   */
  winner(message: Message, topics: readonly string[]): Promise<Position | undefined>;
  close(): Promise<void>;
}
