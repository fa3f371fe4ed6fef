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

/** An error as a health change reports it. */
export type HealthChangeError = Pick<HealthError, 'reason' | 'status'> & {
  /** ISO 8601 */
  readonly at: string;
};

/** A change of a destination from well to bad or back, as the catalog keeps it and notices report it. */
export interface HealthChange {
  /** A UUID: the id of all its notices. */
  readonly id: string;
  readonly state: DestinationState;
  /** Null where it is well again. */
  readonly because: BadBecause | null;
  /** Since when it is so, ISO 8601. */
  readonly since: string;
  /** ISO 8601, see `ReportedCondition`. */
  readonly paced_until: string;
  /** The health of the destination at the time of the report. */
  readonly delivered_per_second: number;
  readonly failed_per_second: number;
  readonly oldest_waiting_ms: number | null;
  /** Newest first. */
  readonly last_errors: readonly HealthChangeError[];
}

/** The health of a destination that was reported last. */
export interface DestinationCondition
  extends Pick<HealthChange, 'state' | 'because' | 'since' | 'paced_until'> {
  /** Number of changes. */
  readonly turns: number;
  /** Ids of the last ones, newest first: they show which of several proposals became a change. */
  readonly recent: readonly string[];
}

/** Changes whose ids are kept. They come hours apart, so a notice stage that is behind still finds its own. */
const REMEMBERED = 8;
/** Characters of an error in a fact, which is kept for ever. */
const MAX_REASON = 200;

export function conditionAfter(
  before: DestinationCondition | undefined,
  { id, state, because, since, paced_until }: HealthChange,
): DestinationCondition {
  const recent = [id, ...(before?.recent ?? [])].slice(0, REMEMBERED);
  return { state, because, since, paced_until, turns: (before?.turns ?? 0) + 1, recent };
}

export function reportedCondition(
  condition: DestinationCondition | undefined,
): ReportedCondition | undefined {
  return condition && { state: condition.state, pacedUntil: Date.parse(condition.paced_until) };
}

/** The part of a health change that is taken from the destination's health. */
export function figuresOf(
  health: DestinationHealth,
): Pick<HealthChange, 'delivered_per_second' | 'failed_per_second' | 'oldest_waiting_ms' | 'last_errors'> {
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
