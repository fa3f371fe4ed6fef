export interface BackoffOptions {
  /** The first wait, ms; each further one is twice as long. */
  readonly firstMs: number;
  /** The longest wait, ms. */
  readonly capMs: number;
}

/** How long to wait before repetition `n` (0, 1, ...), ms. */
export function backoffMs(n: number, { firstMs, capMs }: BackoffOptions): number {
  return Math.min(capMs, firstMs * 2 ** Math.min(n, 30));
}
