import { CLOCK_TOLERANCE_MS, type Logger } from '@tributary/core';

const WARN_EVERY_MS = 60_000;

/**
 * Compares the clock of this machine with those of the brokers, by the times that they stamp on appended records. A clock
 * that agrees with any broker is right.
 */
export class BrokerClock {
  readonly #logger: Logger;
  readonly #aheadOf = new Map<number, number>();
  #warnedAt = Number.NEGATIVE_INFINITY;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /**
   * How far this clock is ahead, at least; below 0 it is behind; ms. A difference that the way of the request may explain
   * is none. Undefined before the first append.
   */
  aheadMs(): number | undefined {
    const [first, ...others] = this.#aheadOf.values();
    if (first === undefined) return undefined;
    return others.reduce((least, one) => (Math.abs(one) < Math.abs(least) ? one : least), first);
  }

  /** A broker stamped `stampedAt` on records that were sent at `sentAt` and confirmed within `tookMs`; epoch ms and ms. */
  note(broker: number, { sentAt, tookMs, stampedAt }: Stamp): void {
    const isAhead = sentAt > stampedAt;
    this.#aheadOf.set(broker, isAhead ? sentAt - stampedAt : Math.min(sentAt + tookMs - stampedAt, 0));
    const ahead = this.aheadMs() ?? 0;
    const now = performance.now();
    if (Math.abs(ahead) <= CLOCK_TOLERANCE_MS || now - this.#warnedAt < WARN_EVERY_MS) return;
    this.#warnedAt = now;
    this.#logger.warn(
      { aheadMs: Math.round(ahead) },
      'the clock of this machine differs from those of the brokers: set it, e.g. by NTP',
    );
  }
}

interface Stamp {
  readonly sentAt: number;
  readonly tookMs: number;
  readonly stampedAt: number;
}
