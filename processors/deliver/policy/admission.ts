import type { DeliveryResult, Destination } from '@tributary/core';
import {
  type BreakerEvent,
  type BreakerOptions,
  type BreakerState,
  breaker,
  closedBreaker,
  mayAttempt,
} from './circuit-breaker.ts';
import {
  afterAccepted,
  afterAskedToWait,
  afterBegin,
  afterFailedRequest,
  afterRecovery,
  afterRefusal,
  idlePace,
  isAlone,
  isAtPace,
  type Pace,
  pacedConcurrency,
  paceWaitMs,
  requestsPerSecond,
} from './pace.ts';

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

/** A request as admission knows it. */
export interface AdmittedRequest {
  readonly limits: RequestLimits;
  /** Ms of a monotonic clock. */
  readonly began: number;
  /** Whether it used the destination's pace in full. */
  readonly atPace: boolean;
}

/** Whether a request to a destination may begin: circuit breaker and pace together. Times are ms of a monotonic clock. */
export class Admission {
  readonly #options: BreakerOptions;
  #breaker: BreakerState;
  /** Since when the circuit is closed, or not. */
  #since: number;
  #pace: Pace;
  /** When a reset connection last counted as a failure. */
  #resetAt = Number.NEGATIVE_INFINITY;

  constructor(options: BreakerOptions, now: number) {
    this.#options = options;
    this.#breaker = closedBreaker(now);
    this.#since = now;
    this.#pace = idlePace(now);
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
    return pacedConcurrency(this.#pace, maxConcurrency, now);
  }

  /** Requests that may begin in a second; undefined: any number. */
  perSecond(limits: Pick<RequestLimits, 'perSecond'>): number | undefined {
    return requestsPerSecond(this.#pace, limits.perSecond);
  }

  /** The pace that the destination's refusals led to; undefined where it refused none. */
  learnedPace(): number | undefined {
    return this.perSecond({ perSecond: undefined });
  }

  /** How long the destination asked for no request, ms; 0 where it did not. */
  heldMs(now: number): number {
    return Math.max(0, this.#pace.heldUntil - now);
  }

  /** Wait of the next request for its pace, ms. */
  rateWaitMs({ perSecond }: RequestLimits, now: number): number {
    return paceWaitMs(this.#pace, perSecond, now);
  }

  requestBegan(limits: RequestLimits, now: number): AdmittedRequest {
    this.#move('attempt', now);
    const atPace = isAtPace(this.#pace, now);
    this.#pace = afterBegin(this.#pace, limits.perSecond, now);
    return { limits, began: now, atPace };
  }

  /**
   * A request ended with these results, one a delivery, without those of deliveries that are refused again and again while
   * others are accepted. Not to be called for an aborted request. A refusal for the rate changes the pace alone: to the
   * circuit the destination has answered. A destination that restarts resets all its connections: the requests under way
   * fail together and count as one. Returns whether only the refused deliveries wait, and not the destination.
   */
  requestEnded(
    results: readonly DeliveryResult[],
    { limits, began, atPace }: AdmittedRequest,
    now: number,
  ): boolean {
    const wasClosed = this.#breaker.kind === 'closed';
    const isThrottled = results.some((result) => result.outcome === 'retry' && result.throttled === true);
    const isAccepted = results.length === 0 || results.some(({ outcome }) => outcome !== 'retry');
    const isReset =
      !isAccepted && results.every((result) => result.outcome === 'retry' && result.reset === true);
    if (!isReset || !wasClosed || began >= this.#resetAt) {
      this.#move(isAccepted || isThrottled ? 'success' : 'failure', now);
      if (isReset) this.#resetAt = now;
    }
    const askedMs = Math.max(0, ...results.map(waitAskedFor));
    if (isAccepted && results.length > 0) this.#pace = afterAccepted(this.#pace, atPace && !isThrottled, now);
    const isRefusedAlone = isThrottled && isAlone(this.#pace);
    if (isThrottled) this.#pace = afterRefusal(this.#pace, askedMs, began, now, atPace);
    else if (askedMs > 0) this.#pace = afterAskedToWait(this.#pace, askedMs, now);
    if (!isAccepted && !isThrottled)
      this.#pace = afterFailedRequest(this.#pace, limits.maxConcurrency, began, now);
    if (!wasClosed && this.#breaker.kind === 'closed') this.#pace = afterRecovery(this.#pace, now);
    return isRefusedAlone;
  }

  /** A request ended without anything sent: a probe is still to be made. */
  nothingSent(now: number): false {
    this.#move('unsent', now);
    return false;
  }

  /** Whether one request at a time is made, as the latest ones were refused for their rate. */
  isRefused(): boolean {
    return this.#pace.refusals > 0;
  }

  #move(event: BreakerEvent, now: number): void {
    const wasClosed = this.#breaker.kind === 'closed';
    this.#breaker = breaker(this.#breaker, event, now, this.#options);
    if ((this.#breaker.kind === 'closed') !== wasClosed) this.#since = now;
  }
}

function waitAskedFor(result: DeliveryResult): number {
  return 'afterMs' in result ? (result.afterMs ?? 0) : 0;
}
