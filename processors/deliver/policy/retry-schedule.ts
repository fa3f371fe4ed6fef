import {
  type DeliveryAttempt,
  type DeliveryResult,
  hopStep,
  type RetrySchedule,
  type RetryStep,
  retryDelays,
} from '@tributary/core';
import { MAX_RETRY_AFTER_MS } from './pace.ts';

/** A delivery waits at most this long while its destination is paused, ms: soon after a resume it is tried. */
const LONGEST_HOLD_MS = 3_600_000;

/** An attempt that did not deliver. */
export type Failure = Extract<DeliveryResult, { outcome: 'retry' | 'dead' }>;

export interface RetryQuestion {
  /** Every attempt of the delivery, the one that just failed last. */
  readonly attempts: readonly DeliveryAttempt[];
  /** The result of that attempt. */
  readonly result: Failure;
  /** `created_at` of the delivery, epoch ms. Attempts before it belong to an earlier drive and do not count. */
  readonly createdAt: number;
  readonly now: number;
  readonly schedule: RetrySchedule;
  /** A failure this long after `createdAt` is the last. */
  readonly expiryMs: number;
}

export type NextStep =
  /** Try once more without waiting, and mark that attempt `at_once`. */
  | { readonly kind: 'again-now' }
  /** Wait in the retry topic of this label, which ends before `notBefore` (epoch ms) where `endsEarly`. */
  | {
      readonly kind: 'retry';
      readonly label: string;
      readonly notBefore: number;
      readonly endsEarly?: true;
    }
  | { readonly kind: 'dead'; readonly cause: 'destination' | 'expired'; readonly reason: string };

/**
 * Decides what happens to a delivery whose last attempt failed.
 *
 * A first attempt that met a reset connection is repeated at once. Later waits follow the schedule and stay on its last
 * step until the delivery expires. A `Retry-After` lengthens the wait to what it asks for, see `longestAskedMs`. It
 * never shortens the wait: a destination that always asks for a second must not get ten thousand requests a day.
 */
export function nextStep(question: RetryQuestion): NextStep {
  const { result, createdAt, now, schedule, expiryMs } = question;
  if (result.outcome === 'dead') return { kind: 'dead', cause: 'destination', reason: result.reason };
  if (now - createdAt >= expiryMs) {
    return { kind: 'dead', cause: 'expired', reason: `expired; last failure: ${result.reason}` };
  }
  const tried = question.attempts.filter((attempt) => Date.parse(attempt.at) >= createdAt);
  const repeated = question.attempts.at(-1)?.at_once === true;
  if (result.reset === true && tried.length <= 1 && !repeated) return { kind: 'again-now' };
  const stepsTaken =
    tried.filter(({ at_once, throttled }) => at_once !== true && throttled !== true).length - 1;
  const longest = schedule.at(-1) ?? schedule[0];
  const { ms: stepMs } = schedule[Math.max(0, stepsTaken)] ?? longest;
  const waitMs = Math.max(stepMs, Math.min(result.afterMs ?? 0, longestAskedMs(schedule)));
  const hop = hopStep(retryDelays(schedule), waitMs);
  return {
    kind: 'retry',
    label: hop.label,
    notBefore: now + waitMs,
    ...(hop.ms < waitMs ? { endsEarly: true } : {}),
  };
}

/** What a destination may ask a delivery to wait for, at most: as long as it holds back all requests, and the longest step. */
export function longestAskedMs(schedule: RetrySchedule): number {
  return Math.min(MAX_RETRY_AFTER_MS, (schedule.at(-1) ?? schedule[0]).ms);
}

/** The first step that is at least so long, else the longest. */
export function stepOfAtLeast(schedule: RetrySchedule, ms: number): RetryStep {
  return schedule.find((step) => step.ms >= ms) ?? schedule.at(-1) ?? schedule[0];
}

/**
 * The step on which a delivery waits while its destination is paused: the longest one that is no longer than the pause
 * so far. A short pause is caught up soon, no burst follows a long one, and waiting deliveries are rewritten ever more
 * rarely.
 */
export function pausedStep(schedule: RetrySchedule, pausedMs: number): RetryStep {
  const atMost = Math.min(pausedMs, LONGEST_HOLD_MS);
  return schedule.findLast((step) => step.ms <= atMost) ?? schedule[0];
}
