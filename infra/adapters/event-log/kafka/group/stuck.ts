/** How long a partition may wait for what its broker says is there, ms. */
const STUCK_AFTER_MS = 30_000;

/** What a reader waits for. */
export interface Waiting {
  /** The offset it asked for. */
  readonly at: number;
  /** How long it has, ms. */
  readonly ms: number;
}

/**
 * Whether a reader waits for what is there. `end` is where a read-committed reader gets to. A position that stays
 * behind says nothing: entries that were handed over may take as long as they like.
 */
export function isStuck(waiting: Waiting | undefined, end: number): boolean {
  return waiting !== undefined && waiting.ms >= STUCK_AFTER_MS && waiting.at < end;
}
