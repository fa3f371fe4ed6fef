import {
  type BreakerOptions,
  type BreakerState,
  breaker,
  closedBreaker,
  type DeliveryResult,
  mayAttempt,
  type Pace,
  pacedAfterAsked,
  pacedAfterCall,
  paceWaitMs,
  type Ramp,
  rampAfterFailure,
  rampAfterRecovery,
  rampedCalls,
  UNPACED,
} from '@tributary/core';

/** What calls to a destination are held to. */
export interface CallLimits {
  /** Calls at a time. */
  readonly maxCalls: number;
  /** Calls that begin in a second; undefined: any number. */
  readonly perSecond: number | undefined;
}

/**
 * Whether a call to a destination may begin: its circuit breaker, its pace and its ramp, as one. Times are ms of a
 * clock that never goes back.
 */
export class Gate {
  readonly #options: BreakerOptions;
  #breaker: BreakerState;
  #since: number;
  #pace: Pace = UNPACED;
  #ramp: Ramp | undefined;
  /** When a connection was last closed under a call that counted for it. */
  #closedAt = Number.NEGATIVE_INFINITY;

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

  /** True while the circuit lets no call begin. */
  isOpen(now: number): boolean {
    return !mayAttempt(this.#breaker, now, this.#options);
  }

  callsAtATime({ maxCalls }: CallLimits, now: number): number {
    return rampedCalls(this.#ramp, maxCalls, now);
  }

  /** How long the next call has to wait for its pace, ms. */
  paceMs({ perSecond }: CallLimits, now: number): number {
    return paceWaitMs(this.#pace, perSecond, now);
  }

  begun({ perSecond }: CallLimits, now: number): void {
    this.#move('attempt', now);
    this.#pace = pacedAfterCall(this.#pace, perSecond, now);
  }

  /**
   * A call that began at `beganAt` was answered. What nobody waited for any more says nothing. A place that is started
   * anew closes all its connections: the calls that were under way fail together, and count as one.
   */
  ended(results: readonly DeliveryResult[], { maxCalls }: CallLimits, beganAt: number, now: number): void {
    const wasClosed = this.#breaker.kind === 'closed';
    const answered = results.some((result) => result.outcome !== 'retry');
    const askedMs = Math.max(
      0,
      ...results.map((result) => (result.outcome === 'retry' ? (result.afterMs ?? 0) : 0)),
    );
    if (askedMs > 0) this.#pace = pacedAfterAsked(this.#pace, askedMs, now);
    const isClosed = results.every((result) => result.outcome === 'retry' && result.reset === true);
    if (!isClosed || !wasClosed || beganAt >= this.#closedAt) {
      this.#move(answered ? 'success' : 'failure', now);
      if (isClosed) this.#closedAt = now;
    }
    if (answered) {
      if (!wasClosed && this.#breaker.kind === 'closed') this.#ramp = rampAfterRecovery(now);
      else if (
        this.#ramp !== undefined &&
        this.callsAtATime({ maxCalls, perSecond: undefined }, now) >= maxCalls
      )
        this.#ramp = undefined;
      return;
    }
    this.#ramp = rampAfterFailure(this.#ramp, { asked: askedMs > 0, beganAt, max: maxCalls }, now);
  }

  #move(event: 'attempt' | 'success' | 'failure' | 'tick', now: number): void {
    const wasClosed = this.#breaker.kind === 'closed';
    this.#breaker = breaker(this.#breaker, event, now, this.#options);
    if ((this.#breaker.kind === 'closed') !== wasClosed) this.#since = now;
  }
}
