import type { DestinationHealth } from './health.ts';

/**
 * Why a destination is bad: its circuit is open; most attempts fail; more deliveries are put off than delivered; what
 * waits for a call has waited for too long; it answered `410 Gone` and was paused.
 */
export const BAD_BECAUSE = ['circuit_open', 'failing', 'behind', 'waiting', 'gone'] as const;
export type BadBecause = (typeof BAD_BECAUSE)[number];

export type DestinationState = 'well' | 'bad';

/** What a look at a destination says. `unknown`: it rests, or is between the two; what was known stays. */
export type Judgement =
  | { readonly kind: 'bad'; readonly because: BadBecause }
  | { readonly kind: 'well' }
  | { readonly kind: 'unknown' };

export interface ConditionLimits {
  /** A destination is told bad when looks found nothing but that for so long, ms... */
  readonly badAfterMs: number;
  /** ...and well again likewise. */
  readonly wellAfterMs: number;
  /** Of one destination two turns are told, and from then on one in this time, ms, however it flaps. */
  readonly everyMs: number;
  /** What waits for a call longer than this has waited for too long, ms. */
  readonly waitingMs: number;
}

export const DEFAULT_CONDITION: ConditionLimits = {
  badAfterMs: 2 * 60_000,
  wellAfterMs: 30_000,
  everyMs: 60 * 60_000,
  waitingMs: 60_000,
};

/** More than half of the attempts of the last minute failed: `failing`. As many as were delivered: neither. */
export function judge(
  health: DestinationHealth,
  { waitingMs }: Pick<ConditionLimits, 'waitingMs'>,
): Judgement {
  const { delivered_per_second: delivered, failed_per_second: failed, put_off_per_second: putOff } = health;
  if (health.circuit === 'open') return { kind: 'bad', because: 'circuit_open' };
  if (failed > delivered) return { kind: 'bad', because: 'failing' };
  if ((health.oldest_waiting_ms ?? 0) > waitingMs) return { kind: 'bad', because: 'waiting' };
  if (putOff > delivered) return { kind: 'bad', because: 'behind' };
  const isWell = health.circuit === 'closed' && delivered > failed;
  return { kind: isWell ? 'well' : 'unknown' };
}

/** Looks that found the same, one after the other. Times are ms of a clock that never goes back. */
export interface Streak {
  readonly state: DestinationState;
  /** Of the last of them; null while it is well. */
  readonly because: BadBecause | null;
  readonly since: number;
  readonly lastAt: number;
}

/** The streak after one more look. Where that says nothing the streak is what it was. */
export function afterLook(streak: Streak | undefined, judgement: Judgement, now: number): Streak | undefined {
  if (judgement.kind === 'unknown') return streak;
  const since = streak?.state === judgement.kind ? streak.since : now;
  const because = judgement.kind === 'bad' ? judgement.because : null;
  return { state: judgement.kind, because, since, lastAt: now };
}

/** What was told of a destination last. Absent: nothing ever, so it is well. */
export interface ToldCondition {
  readonly state: DestinationState;
  /** Epoch ms: how far its turns have used up what may be told (`everyMs`). */
  readonly pacedUntil: number;
}

/** Whether a streak is to be told now, and how far that uses up what may be told; `now` is epoch ms. */
export function turnDue(
  told: ToldCondition | undefined,
  streak: Streak,
  now: number,
  { badAfterMs, wellAfterMs, everyMs }: ConditionLimits,
): { readonly pacedUntil: number } | undefined {
  if (streak.state === (told?.state ?? 'well')) return undefined;
  const needed = streak.state === 'bad' ? badAfterMs : wellAfterMs;
  if (streak.lastAt - streak.since < needed) return undefined;
  const pacedUntil = Math.max(now, told?.pacedUntil ?? 0) + everyMs;
  return pacedUntil - now <= 2 * everyMs ? { pacedUntil } : undefined;
}
