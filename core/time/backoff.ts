export interface Backoff {
  /** The first wait, ms; each further one is twice as long. */
  readonly firstMs: number;
  /** The longest wait, ms. */
  readonly capMs: number;
}

/**
 * How long to wait before repetition `n` (0, 1, ...), ms. For every retry of the product that is no delivery: what else
 * differs (when to stop, what to log, what ends the wait early) stands in the loop of the caller.
 */
export function backoffMs(n: number, { firstMs, capMs }: Backoff): number {
  return Math.min(capMs, firstMs * 2 ** Math.min(n, 30));
}
