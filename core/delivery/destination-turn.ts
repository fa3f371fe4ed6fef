import { iso } from '../time/clock.ts';
import { type DestinationHealth, type HealthError, KEPT_ERRORS } from './health.ts';

/**
 * Why a destination is bad: its circuit is open; most attempts fail; more deliveries are put off than delivered; queued
 * deliveries have waited for too long; it answered `410 Gone` and was paused.
 */
export const BAD_BECAUSE = ['circuit_open', 'failing', 'behind', 'waiting', 'gone'] as const;
export type BadBecause = (typeof BAD_BECAUSE)[number];

export type DestinationState = 'well' | 'bad';

/** The state of a destination that was reported last. Absent: nothing was reported yet, so it is well. */
export interface ReportedCondition {
  readonly state: DestinationState;
  /** Epoch ms: up to when the reports so far use up the rate of reports. */
  readonly pacedUntil: number;
}

/** An error as a turn reports it. */
export type TurnError = Pick<HealthError, 'reason' | 'status'> & {
  /** ISO 8601 */
  readonly at: string;
};

/** One turn of a destination, from well to bad or back: what the catalog keeps, and what is told of it. */
export interface DestinationTurn {
  /** A UUID: the id of everything that tells of it. */
  readonly id: string;
  readonly state: DestinationState;
  /** Null where it is well again. */
  readonly because: BadBecause | null;
  /** Since when it is so, ISO 8601. */
  readonly since: string;
  /** ISO 8601, see `ReportedCondition`. */
  readonly paced_until: string;
  /** How it was doing when it was told. */
  readonly delivered_per_second: number;
  readonly failed_per_second: number;
  readonly oldest_waiting_ms: number | null;
  /** Newest first. */
  readonly last_errors: readonly TurnError[];
}

/** How a destination is, as it was told last. */
export interface DestinationCondition
  extends Pick<DestinationTurn, 'state' | 'because' | 'since' | 'paced_until'> {
  /** How many turns there were. */
  readonly turns: number;
  /** Ids of the last ones, newest first: which of several that were proposed became one. */
  readonly recent: readonly string[];
}

/** Turns whose ids are remembered. They take hours to come: whoever tells of them is not that late. */
const REMEMBERED = 8;
/** Facts are kept for ever: no error takes more, characters. */
const MAX_REASON = 200;

export function conditionAfter(
  before: DestinationCondition | undefined,
  { id, state, because, since, paced_until }: DestinationTurn,
): DestinationCondition {
  const recent = [id, ...(before?.recent ?? [])].slice(0, REMEMBERED);
  return { state, because, since, paced_until, turns: (before?.turns ?? 0) + 1, recent };
}

export function reportedCondition(
  condition: DestinationCondition | undefined,
): ReportedCondition | undefined {
  return condition && { state: condition.state, pacedUntil: Date.parse(condition.paced_until) };
}

/** What a turn tells of how the destination was doing. */
export function figuresOf(
  health: DestinationHealth,
): Pick<DestinationTurn, 'delivered_per_second' | 'failed_per_second' | 'oldest_waiting_ms' | 'last_errors'> {
  return {
    delivered_per_second: health.delivered_per_second,
    failed_per_second: health.failed_per_second,
    oldest_waiting_ms: health.oldest_waiting_ms,
    last_errors: health.last_errors.slice(0, KEPT_ERRORS).map(({ at, reason, status }) => ({
      at: iso(at),
      reason: reason.slice(0, MAX_REASON),
      ...(status === undefined ? {} : { status }),
    })),
  };
}
