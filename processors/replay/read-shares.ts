/** One that made no step for so long, ms, has ended. */
const FORGOTTEN_AFTER_MS = 5_000;

interface Share {
  bytes: number;
  at: number;
}

/**
 * What replays may read of the log, which answers others too: so much a second by all that run in a process, shared out
 * evenly. A share that is not used is kept for the next step up to `burst`, and one that is overdrawn waits.
 */
export class ReadShares {
  readonly #bytesPerMs: number;
  readonly #burst: number;
  readonly #elapsed: () => number;
  readonly #shares = new Map<string, Share>();

  /** `burst`: bytes that all together may read at once. `elapsed`: ms that never go back. */
  constructor(bytesPerSecond: number, burst: number, elapsed: () => number) {
    this.#bytesPerMs = bytesPerSecond / 1_000;
    this.#burst = burst;
    this.#elapsed = elapsed;
  }

  /** The bytes that the next step of a replay may read; none where it is 0 or less. */
  of(replayId: string): number {
    const now = this.#elapsed();
    for (const [id, { at }] of this.#shares) if (now - at > FORGOTTEN_AFTER_MS) this.#shares.delete(id);
    const known = this.#shares.get(replayId);
    const sharers = this.#shares.size + (known === undefined ? 1 : 0);
    const most = this.#burst / sharers;
    const bytes =
      known === undefined
        ? most
        : Math.min(most, known.bytes + ((now - known.at) * this.#bytesPerMs) / sharers);
    this.#shares.set(replayId, { bytes, at: now });
    return bytes;
  }

  /** Takes what a step has read off its share. */
  take(replayId: string, bytes: number): void {
    const share = this.#shares.get(replayId);
    if (share !== undefined) share.bytes -= bytes;
  }
}
