import type { BadReason, DestinationHealth, DestinationState, ReportedCondition } from '@tributary/core';

/** The evaluation of a destination at one moment. `unknown`: it is at rest or in between; the state known before stays. */
export type HealthEvaluation =
  | { readonly kind: 'bad'; readonly because: BadReason }
  | { readonly kind: 'well' }
  | { readonly kind: 'unknown' };

export interface AlertLimits {
  /** A destination is reported bad once it was found bad for this long, ms. `unknown` evaluations do not interrupt this. */
  readonly badAfterMs: number;
  /** A destination is reported well again once it was found well for this long, ms. */
  readonly wellAfterMs: number;
  /** Two changes of a destination are reported, and from then on one in this time, ms, however it flaps. */
  readonly everyMs: number;
  /** A queued delivery that waited for longer makes its destination bad, ms. */
  readonly waitingMs: number;
}

export const DEFAULT_ALERT_LIMITS: AlertLimits = {
  badAfterMs: 2 * 60_000,
  wellAfterMs: 30_000,
  everyMs: 60 * 60_000,
  waitingMs: 60_000,
};

/**
 * `failing`: more than half of the attempts of the last minute failed; `rate_limited`: the destination refused more of them
 * for their rate than it took. As many as were delivered: `unknown`.
 */
export function evaluateHealth(
  health: DestinationHealth,
  { waitingMs }: Pick<AlertLimits, 'waitingMs'>,
): HealthEvaluation {
  const {
    delivered_per_second: delivered,
    failed_per_second: failed,
    throttled_per_second: throttled,
    put_off_per_second: notAttempted,
  } = health;
  if (health.circuit === 'open') return { kind: 'bad', because: 'circuit_open' };
  if (failed > delivered) return { kind: 'bad', because: 'failing' };
  if (throttled > delivered) return { kind: 'bad', because: 'rate_limited' };
  if ((health.oldest_waiting_ms ?? 0) > waitingMs) return { kind: 'bad', because: 'waiting' };
  if (notAttempted > delivered) return { kind: 'bad', because: 'behind' };
  const isWell = health.circuit === 'closed' && delivered > failed;
  return { kind: isWell ? 'well' : 'unknown' };
}

/** Consecutive evaluations with the same result. Times are ms of a monotonic clock. */
export interface Streak {
  readonly state: DestinationState;
  /** The reason by the last evaluation; null while the destination is well. */
  readonly because: BadReason | null;
  readonly since: number;
  readonly lastAt: number;
}

/** The streak after one more evaluation; unchanged by an `unknown` one. */
export function streakAfter(
  streak: Streak | undefined,
  evaluation: HealthEvaluation,
  now: number,
): Streak | undefined {
  if (evaluation.kind === 'unknown') return streak;
  const since = streak?.state === evaluation.kind ? streak.since : now;
  const because = evaluation.kind === 'bad' ? evaluation.because : null;
  return { state: evaluation.kind, because, since, lastAt: now };
}

/** Whether a streak is to be reported now, and up to when that uses up the rate of reports; `now` is epoch ms. */
export function changeDue(
  reported: ReportedCondition | undefined,
  streak: Streak,
  now: number,
  { badAfterMs, wellAfterMs, everyMs }: AlertLimits,
): { readonly pacedUntil: number } | undefined {
  if (streak.state === (reported?.state ?? 'well')) return undefined;
  const needed = streak.state === 'bad' ? badAfterMs : wellAfterMs;
  if (streak.lastAt - streak.since < needed) return undefined;
  const pacedUntil = Math.max(now, reported?.pacedUntil ?? 0) + everyMs;
  return pacedUntil - now <= 2 * everyMs ? { pacedUntil } : undefined;
}
