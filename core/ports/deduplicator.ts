import type { Environment } from '../event/event.ts';
import type { Position } from '../log/event-log.ts';

/** A `message_id` and the scope in which it is unique. */
export interface Message {
  readonly workspaceId: string;
  readonly environment: Environment;
  readonly messageId: string;
}

/** A dedupe claim: an event that claims its `message_id`. */
export interface DedupeClaim extends Message {
  readonly position: Position;
  /** The event was rejected by its contract: it claims to be the first rejected one, and does not take the id. */
  readonly rejected?: boolean;
  /**
   * It wins the id only if a rejected event of an earlier call won among the rejected ones of this id; otherwise it
   * takes nothing and loses. So only ids are stored that may be queried later.
   */
  readonly afterRejected?: boolean;
}

/**
 * Decides which event owns a `message_id`.
 *
 * Promises:
 * - For one (workspace, environment, message_id) and window exactly one position wins, and it wins again whenever it
 *   claims again, whatever crashed in between: a crash between the claim and the commit of the output loses nothing.
 *   A win is as durable as its store when the call resolves: on SQLite it is on the disk. A Redis that loses its last
 *   writes (`appendfsync everysec`, a failover) loses wins with them: repeats of those events are accepted again.
 * - A rejected event takes nothing from others: any position may win the id after it. Among the rejected events of an
 *   id one position wins, always the same; none does whose first claim comes after another position won the id.
 *
 * Limits: a win is kept for at least the window (24 h by default), and for at most 1.5 times as long.
 *
 * Errors: `Unavailable` when the store does not answer. Some dedupe claims of the call may have been stored;
 * repeating it is safe.
 *
 * An implementer must not answer from a cache what the store has not confirmed, and must not drop a win for lack of
 * memory.
 */
export interface Deduplicator {
  /**
   * For each dedupe claim: true when its position is the winner. Several claims of one call may have the same id and
   * are decided in order.
   */
  claim(claims: readonly DedupeClaim[]): Promise<readonly boolean[]>;
  /**
   * The position that won a message, else that of the first rejected event; undefined where neither is known. Takes
   * nothing and does not wait for running dedupe claims. A store may keep a topic's name in an irreversible form: `topics`
   * are the candidates, and a winner in another topic counts as unknown.
   */
  winner(message: Message, topics: readonly string[]): Promise<Position | undefined>;
  close(): Promise<void>;
}
