import type { DeliveryResult, Destination } from '@tributary/core';
import {
  type BreakerOptions,
  type BreakerState,
  breaker,
  closedBreaker,
  mayAttempt,
} from './circuit-breaker.ts';
import {
  afterRequest,
  afterRetryAfter,
  allowedConcurrency,
  type RateState,
  rateWaitMs,
  type SlowStart,
  slowStartAfterFailure,
  startSlowly,
  UNLIMITED,
} from './rate-limit.ts';

/** Limits of one process on its requests to a destination. */
export interface RequestLimits {
  /** Requests at a time. */
  readonly maxConcurrency: number;
  /** Requests that begin in a second; undefined: any number. */
  readonly perSecond: number | undefined;
}

type OwnLimits = Pick<Destination, 'max_concurrency' | 'rate_limit_per_second'>;

/** Whether a destination has limits of its own, which hold for all processes together. */
export function hasOwnLimits(destination: OwnLimits | undefined): boolean {
  return destination?.max_concurrency != null || destination?.rate_limit_per_second != null;
}

/** The share of one process of a destination's limits, where `processes` deliver to it; else the defaults. */
export function requestLimits(
  destination: OwnLimits | undefined,
  defaults: RequestLimits,
  processes: number,
): RequestLimits {
  const { max_concurrency: concurrency, rate_limit_per_second: perSecond } = destination ?? {};
  return {
    maxConcurrency:
      concurrency == null ? defaults.maxConcurrency : Math.max(1, Math.floor(concurrency / processes)),
    perSecond: perSecond == null ? defaults.perSecond : perSecond / processes,
  };
}

/**
 * Whether a request to a destination may begin: circuit breaker, rate limit and slow start together. Times are ms of a
 * monotonic clock.
 */
export class Admission {
  readonly #options: BreakerOptions;
  #breaker: BreakerState;
  /** Since when the circuit is closed, or not. */
  #since: number;
  #rate: RateState = UNLIMITED;
  #slowStart: SlowStart | undefined;
  /** When a reset connection last counted as a failure. */
  #resetAt = Number.NEGATIVE_INFINITY;

  constructor(options: BreakerOptions, now: number) {
    this.#options = options;
    this.#breaker = closedBreaker(now);
    this.#since = now;
  }

  /** The state of the circuit, and since when it is closed or not. */
  circuit(now: number): { readonly kind: BreakerState['kind']; readonly since: number } {
    this.#move('tick', now);
    return { kind: this.#breaker.kind, since: this.#since };
  }

  /** Whether the circuit admits no request. */
  isOpen(now: number): boolean {
    return !mayAttempt(this.#breaker, now, this.#options);
  }

  /** Requests at a time now. */
  concurrency({ maxConcurrency }: RequestLimits, now: number): number {
    return allowedConcurrency(this.#slowStart, maxConcurrency, now);
  }

  /** Wait of the next request for the rate limit, ms. */
  rateWaitMs({ perSecond }: RequestLimits, now: number): number {
    return rateWaitMs(this.#rate, perSecond, now);
  }

  requestBegan({ perSecond }: RequestLimits, now: number): void {
    this.#move('attempt', now);
    this.#rate = afterRequest(this.#rate, perSecond, now);
  }

  /**
   * A request that began at `beganAt` ended with these results, one a delivery. Not to be called for an aborted request.
   * A destination that restarts resets all its connections: the requests under way fail together and count as one.
   */
  requestEnded(
    results: readonly DeliveryResult[],
    { maxConcurrency }: RequestLimits,
    beganAt: number,
    now: number,
  ): void {
    const wasClosed = this.#breaker.kind === 'closed';
    const answered = results.some(({ outcome }) => outcome !== 'retry');
    let askedMs = 0;
    for (const result of results)
      if (result.outcome === 'retry') askedMs = Math.max(askedMs, result.afterMs ?? 0);
    if (askedMs > 0) this.#rate = afterRetryAfter(this.#rate, askedMs, now);
    const isReset = results.every((result) => result.outcome === 'retry' && result.reset === true);
    if (!isReset || !wasClosed || beganAt >= this.#resetAt) {
      this.#move(answered ? 'success' : 'failure', now);
      if (isReset) this.#resetAt = now;
    }
    if (!answered) {
      const failure = { asked: askedMs > 0, beganAt, max: maxConcurrency };
      this.#slowStart = slowStartAfterFailure(this.#slowStart, failure, now);
    } else if (!wasClosed && this.#breaker.kind === 'closed') this.#slowStart = startSlowly(now);
    else if (allowedConcurrency(this.#slowStart, maxConcurrency, now) >= maxConcurrency)
      this.#slowStart = undefined;
  }

  #move(event: 'attempt' | 'success' | 'failure' | 'tick', now: number): void {
    const wasClosed = this.#breaker.kind === 'closed';
    this.#breaker = breaker(this.#breaker, event, now, this.#options);
    if ((this.#breaker.kind === 'closed') !== wasClosed) this.#since = now;
  }
}
