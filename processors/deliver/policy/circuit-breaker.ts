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
