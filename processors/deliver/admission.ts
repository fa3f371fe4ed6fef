import type { DeliveryResult, Destination } from '@tributary/core';

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

  /**
   * Requests a second by which waits are estimated; undefined: any number. Not a pace that still doubles each second, as the
   * limit is not known: it ends long before a wait that is estimated by it.
   */
  perSecond({ perSecond }: Pick<RequestLimits, 'perSecond'>): number | undefined {
    return this.#pace.raisedFor < UNKNOWN_S ? requestsPerSecond(this.#pace, perSecond) : perSecond;
  }

  /** The pace that the destination's refusals led to; undefined where it refused none. */
  learnedPace(): number | undefined {
    return requestsPerSecond(this.#pace, undefined);
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
    return { began: now, atPace };
  }

  /**
   * A request ended with these results, one a delivery, without those of deliveries that are refused again and again while
   * others are accepted. Not to be called for an aborted request. A refusal for the rate changes the pace alone: to the
   * circuit the destination has answered. A destination that restarts resets all its connections: the requests under way
   * fail together and count as one. Returns whether only the refused deliveries wait, and not the destination.
   */
  requestEnded(results: readonly DeliveryResult[], { began, atPace }: AdmittedRequest, now: number): boolean {
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

/** When a destination's breaker opens, and for how long. */
export interface BreakerOptions {
  /** Opens after this many failures in a row. */
  readonly consecutiveFailures: number;
  /** Opens when this share of the requests in the window failed, if there were at least `minimumCalls`. */
  readonly failureRatio: number;
  /** Requests in the window below which `failureRatio` does not count. */
  readonly minimumCalls: number;
  readonly windowMs: number;
  /** How long it stays open before a probe may go; also how long a probe may stay unanswered. */
  readonly coolDownMs: number;
}

export const DEFAULT_BREAKER: BreakerOptions = {
  consecutiveFailures: 10,
  failureRatio: 0.5,
  minimumCalls: 50,
  windowMs: 30_000,
  coolDownMs: 15_000,
};

interface Tally {
  readonly calls: number;
  readonly failures: number;
}

/** Times are ms of a monotonic clock. */
export type BreakerState =
  | {
      readonly kind: 'closed';
      /** Failures in a row. */
      readonly failing: number;
      readonly windowStart: number;
      readonly window: Tally;
      /** The window before; it fades out while the current one fills, so the ratio rolls. */
      readonly previous: Tally;
    }
  | { readonly kind: 'open'; readonly until: number }
  /** `probedAt`: when the one probe under way began; null when none is. */
  | { readonly kind: 'half-open'; readonly probedAt: number | null };

/** `attempt`: a call begins. `success`, `failure`: it ended; `unsent`: without a request. `tick`: time passed. */
export type BreakerEvent = 'attempt' | 'success' | 'failure' | 'unsent' | 'tick';

const NO_CALLS: Tally = { calls: 0, failures: 0 };

export function closedBreaker(now: number): BreakerState {
  return { kind: 'closed', failing: 0, windowStart: now, window: NO_CALLS, previous: NO_CALLS };
}

/** Whether a request may begin now. If so, the caller reports `attempt`; if not, its delivery goes to a retry topic. */
export function mayAttempt(state: BreakerState, now: number, options: BreakerOptions): boolean {
  const current = afterTime(state, now, options);
  return current.kind === 'closed' || (current.kind === 'half-open' && current.probedAt === null);
}

/**
 * The circuit breaker of one destination, as a fold over its requests. Results of calls that began before it opened are
 * ignored while it is open. A probe that is never answered (its process lost the partition) makes room for the next
 * one after the cool-down.
 */
export function breaker(
  state: BreakerState,
  event: BreakerEvent,
  now: number,
  options: BreakerOptions,
): BreakerState {
  const current = afterTime(state, now, options);
  if (event === 'tick') return current;
  if (event === 'unsent')
    return current.kind === 'half-open' ? { kind: 'half-open', probedAt: null } : current;
  if (current.kind === 'closed')
    return event === 'attempt' ? current : afterCall(current, event, now, options);
  if (current.kind === 'open') return current;
  if (event === 'success') return closedBreaker(now);
  if (event === 'failure') return { kind: 'open', until: now + options.coolDownMs };
  return current.probedAt === null ? { kind: 'half-open', probedAt: now } : current;
}

function afterTime(state: BreakerState, now: number, options: BreakerOptions): BreakerState {
  if (state.kind === 'open') return now >= state.until ? { kind: 'half-open', probedAt: null } : state;
  if (state.kind === 'half-open') {
    const forgotten = state.probedAt !== null && now - state.probedAt >= options.coolDownMs;
    return forgotten ? { kind: 'half-open', probedAt: null } : state;
  }
  const age = now - state.windowStart;
  if (age < options.windowMs) return state;
  const previous = age < 2 * options.windowMs ? state.window : NO_CALLS;
  return { ...state, windowStart: now - (age % options.windowMs), window: NO_CALLS, previous };
}

function afterCall(
  state: Extract<BreakerState, { kind: 'closed' }>,
  event: 'success' | 'failure',
  now: number,
  options: BreakerOptions,
): BreakerState {
  const failed = event === 'failure' ? 1 : 0;
  const failing = failed === 1 ? state.failing + 1 : 0;
  const window = { calls: state.window.calls + 1, failures: state.window.failures + failed };
  const fade = 1 - (now - state.windowStart) / options.windowMs;
  const calls = window.calls + state.previous.calls * fade;
  const failures = window.failures + state.previous.failures * fade;
  const tooMany = calls >= options.minimumCalls && failures >= calls * options.failureRatio;
  if (failed === 1 && (failing >= options.consecutiveFailures || tooMany)) {
    return { kind: 'open', until: now + options.coolDownMs };
  }
  return { ...state, failing, window };
}

/**
 * The pace of requests to one destination, learned from its responses and kept by each process for itself. A refusal for
 * the rate (429 and the like) lowers it, accepted requests raise it again: additive increase, multiplicative decrease. All
 * times are ms of a monotonic clock.
 *
 * Refused requests stay rare: one request at a time follows a refusal until one is accepted, and then the pace stays below
 * the refused one for a while. The longer a destination accepts the pace, the more quickly it rises: it has become faster.
 *
 * A single refusal among many accepted requests is about its delivery: that alone waits, and the pace hardly changes.
 */
export interface Pace {
  /** Requests that may begin in a second; infinite until the destination refuses one for its rate. */
  readonly perSecond: number;
  /** The pace is not raised before this time. */
  readonly steadyUntil: number;
  /** For how long it was used in full and raised since it was lowered last, seconds. */
  readonly raisedFor: number;
  /** When the next request would begin if they were evenly spaced. */
  readonly nextAt: number;
  /** No request begins before: the destination asked for that. */
  readonly heldUntil: number;
  /** Refusals in a row. */
  readonly refusals: number;
  /** The last refusal: those of requests that began before belong to it. */
  readonly refusedAt: number;
  /** Share of refused ones among the latest requests. */
  readonly refusedShare: number;
  /** Whether a refusal that left the pace as it is was the last result. */
  readonly isOneRefused: boolean;
  /** Accepted requests of about the last second, as of the last one. */
  readonly accepted: number;
  readonly acceptedAt: number;
  /** One request at a time then; their number doubles each second. */
  readonly rampFrom: number;
}

/** Requests at a time double after this, ms: the backlog of a destination that was down does not bring it down again. */
export const DOUBLED_AFTER_MS = 1_000;
/** Four at a time for a destination that was idle, so that few are refused before its limit is known. */
const IDLE_DOUBLINGS = 2;

/** Requests may begin this much earlier than evenly spaced: a second has at most a tenth more than its limit, or one. */
const BURST_MS = 100;

/** A destination that asks for a longer wait gets a request again after this. */
export const MAX_RETRY_AFTER_MS = 3_600_000;
/** Wait after a refusal without `Retry-After`, and after a second one in a row; doubled by each further one. */
export const BACKOFF_MS = 1_000;
const MAX_BACKOFF_MS = 60_000;

/** The part of the refused pace that is left; where the last refusal was as short ago, or the limit may be far below; and at least. */
const LOWERED = 0.93;
const FAR_BELOW = 0.85;
const AGAIN_MS = 4_000;
const MIN_PER_SECOND = 0.1;
/** The first pace, where the destination accepted fewer before it refused one. */
const FIRST_PER_SECOND = 1;
/** So many accepted requests in a second show the limit of a destination; fewer may be a burst that it allows. */
const TELLING = 10;

/** How long the pace stays below a refused one, ms, and after a refusal that left it as it is, requests. */
const STEADY_MS = 20_000;
const STEADY_REQUESTS = 30;
/**
 * Requests a second that an accepted request adds: a twentieth a second, or a hundredth a request where these are few; twice as much
 * after ten seconds, five times after twenty, up to one, with which the pace doubles each second.
 */
const RAISED_BY = 0.05;
const RAISED_BY_PART = 0.01;
const RAISED_TWICE_AFTER_S = 10;
/** As after a long rise: the limit is not known. */
const UNKNOWN_S = 100;
/** Refusals are about single deliveries below this share of about so many requests. */
const SHARE_OF_REQUESTS = 200;
/** How far the pace is lowered by each of them: several processes share a limit, and each sees few refusals. */
const LOWERED_BY_ONE = 0.01;
const SMALL_SHARE = 0.04;

/** The pace of a destination that was idle for long, or had no deliveries yet. */
export function idlePace(now: number): Pace {
  return {
    perSecond: Number.POSITIVE_INFINITY,
    steadyUntil: now,
    raisedFor: 0,
    nextAt: now,
    heldUntil: now,
    refusals: 0,
    refusedAt: Number.NEGATIVE_INFINITY,
    refusedShare: SMALL_SHARE,
    isOneRefused: false,
    accepted: 0,
    acceptedAt: now,
    rampFrom: now - IDLE_DOUBLINGS * DOUBLED_AFTER_MS,
  };
}

/** Requests that may begin in a second; undefined: any number. `limit`: the one that the destination is configured with. */
export function requestsPerSecond({ perSecond }: Pace, limit: number | undefined): number | undefined {
  return Number.isFinite(perSecond) ? Math.min(perSecond, limit ?? perSecond) : limit;
}

/** Wait of the next request, ms. */
export function paceWaitMs(pace: Pace, limit: number | undefined, now: number): number {
  const evenly = requestsPerSecond(pace, limit) === undefined ? 0 : pace.nextAt - BURST_MS - now;
  return Math.max(0, evenly, pace.heldUntil - now);
}

/** Requests at a time, of `max` at most. */
export function pacedConcurrency({ refusals, rampFrom }: Pace, max: number, now: number): number {
  if (refusals > 0) return 1;
  const doublings = Math.min((now - rampFrom) / DOUBLED_AFTER_MS, 30);
  return Math.min(max, Math.max(1, Math.floor(2 ** doublings)));
}

/** Whether a request that begins now uses the pace in full, so that its acceptance shows that the destination takes it. */
export function isAtPace({ nextAt }: Pace, now: number): boolean {
  return now <= nextAt;
}

export function afterBegin(pace: Pace, limit: number | undefined, now: number): Pace {
  const perSecond = requestsPerSecond(pace, limit);
  if (perSecond === undefined) return pace;
  return { ...pace, nextAt: Math.max(pace.nextAt, now) + 1_000 / perSecond };
}

/** The destination accepted a request. */
export function afterAccepted(pace: Pace, atPace: boolean, now: number): Pace {
  const next = {
    ...pace,
    accepted: acceptedLately(pace, now) + 1,
    acceptedAt: now,
    refusals: 0,
    refusedShare: pace.refusedShare * (1 - 1 / SHARE_OF_REQUESTS),
    isOneRefused: false,
  };
  const { perSecond, steadyUntil } = pace;
  if (!Number.isFinite(perSecond) || now < steadyUntil || !atPace) return next;
  const raisedFor = pace.raisedFor + 1 / perSecond;
  const usual = Math.min(RAISED_BY, RAISED_BY_PART * perSecond);
  const raise = Math.min(1, usual * (1 + (raisedFor / RAISED_TWICE_AFTER_S) ** 2));
  return { ...next, perSecond: perSecond + raise, raisedFor };
}

/** The destination asked for a wait, ms, without a refusal. */
export function afterAskedToWait(pace: Pace, askedMs: number, now: number): Pace {
  const heldUntil = Math.max(pace.heldUntil, now + Math.min(askedMs, MAX_RETRY_AFTER_MS));
  // Evenly spaced from the first request on.
  return { ...pace, heldUntil, nextAt: Math.max(pace.nextAt, heldUntil + BURST_MS) };
}

/**
 * The destination refused a request that began at `beganAt` for its rate, alone or not. `askedMs`: its `Retry-After`, 0
 * without one.
 */
export function afterRefusal(
  pace: Pace,
  askedMs: number,
  beganAt: number,
  now: number,
  atPace: boolean,
): Pace {
  const refusedShare = pace.refusedShare + (1 - pace.refusedShare) / SHARE_OF_REQUESTS;
  if (isAlone(pace))
    return {
      ...pace,
      refusedShare,
      perSecond: pace.perSecond * (1 - LOWERED_BY_ONE),
      isOneRefused: true,
      steadyUntil: Math.max(pace.steadyUntil, now + (1_000 * STEADY_REQUESTS) / pace.perSecond),
    };
  const asked = { ...afterAskedToWait(pace, askedMs, now), refusedShare };
  if (beganAt < pace.refusedAt) return asked;
  const isAsked = askedMs > 0 && pace.refusals === 0;
  const backoffMs = isAsked ? 0 : Math.min(BACKOFF_MS * 2 ** Math.min(pace.refusals, 30), MAX_BACKOFF_MS);
  const held = afterAskedToWait(asked, backoffMs, now);
  const refused = { ...held, refusals: pace.refusals + 1, refusedAt: now };
  if (pace.refusals > 0) return refused;
  if (!atPace && Number.isFinite(pace.perSecond)) return refused;
  return { ...refused, ...loweredPace(pace, held.heldUntil, now) };
}

/**
 * Whether a refusal now is one of few among many accepted requests, and about its delivery: then that alone waits. A
 * destination that is asked for too much refuses several in a row; the first refusals are judged by that, as their share is
 * not known.
 */
function isAlone(pace: Pace): boolean {
  const { refusals, isOneRefused, refusedShare, perSecond, accepted } = pace;
  if (refusals > 0 || isOneRefused || accepted === 0) return false;
  return refusedShare < (Number.isFinite(perSecond) ? SMALL_SHARE : 2 * SMALL_SHARE);
}

type LoweredPace = Pick<Pace, 'perSecond' | 'steadyUntil' | 'raisedFor'>;

function loweredPace(pace: Pace, heldUntil: number, now: number): LoweredPace {
  const { perSecond: before, raisedFor } = pace;
  const steadyUntil = heldUntil + STEADY_MS;
  if (Number.isFinite(before)) {
    const isFarBelow = now - pace.heldUntil < AGAIN_MS || raisedFor >= UNKNOWN_S;
    const perSecond = before * LOWERED * (isFarBelow ? FAR_BELOW : 1);
    return { perSecond: Math.max(MIN_PER_SECOND, perSecond), steadyUntil, raisedFor: 0 };
  }
  const took = Math.ceil(acceptedLately(pace, now));
  const perSecond = Math.max(FIRST_PER_SECOND, took * LOWERED);
  return took >= TELLING
    ? { perSecond, steadyUntil, raisedFor: 0 }
    : { perSecond, steadyUntil: now, raisedFor: UNKNOWN_S };
}

/** Accepted requests of about the last second. */
function acceptedLately({ accepted, acceptedAt }: Pace, now: number): number {
  return accepted * Math.exp((acceptedAt - now) / 1_200);
}

/** The destination is back after its circuit was open. */
export function afterRecovery(pace: Pace, now: number): Pace {
  return { ...pace, rampFrom: now };
}
