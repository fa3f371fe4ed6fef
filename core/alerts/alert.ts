import type { Environment, EventType } from '../event/event.ts';
import type { QuietHours } from './local-time.ts';

export const ALERT_KINDS = ['volume', 'silence', 'violations', 'delivery_rate', 'backlog'] as const;
export type AlertKind = (typeof ALERT_KINDS)[number];

/** The events that an alert counts. Null: all. */
export interface WatchedEvents {
  readonly source_id: string | null;
  readonly event_type: EventType | null;
  readonly event_name: string | null;
}

/** Fewer, or more, events in an hour than in the same hour of the week before (`baselineOf`). */
export interface VolumeWatch extends WatchedEvents {
  readonly kind: 'volume';
  readonly direction: 'below' | 'above';
  /** Deviation from the baseline that is tolerated, as a share of it. */
  readonly tolerance: number;
  readonly weeks: number;
  /** An hour is evaluated where its baseline (of `above`: its count) has at least so many events. */
  readonly minimum: number;
}

/** No event for this long. */
export interface SilenceWatch extends WatchedEvents {
  readonly kind: 'silence';
  readonly minutes: number;
}

/** More than a share of the received events was rejected or accepted with a warning. */
export interface ViolationsWatch extends WatchedEvents {
  readonly kind: 'violations';
  readonly minutes: number;
  readonly share: number;
  readonly minimum: number;
}

/** Less than a share of the deliveries was made. */
export interface DeliveryRateWatch {
  readonly kind: 'delivery_rate';
  /** Null: all destinations together. */
  readonly destination_id: string | null;
  readonly minutes: number;
  readonly share: number;
  readonly minimum: number;
}

/** The oldest event with an unfinished delivery is older than this. */
export interface BacklogWatch {
  readonly kind: 'backlog';
  readonly destination_id: string | null;
  readonly minutes: number;
}

export type AlertWatch = VolumeWatch | SilenceWatch | ViolationsWatch | DeliveryRateWatch | BacklogWatch;

/** The part of an alert that its evaluation needs. */
export interface AlertRule {
  readonly environment: Environment;
  readonly watch: AlertWatch;
  /** IANA name: the hours of the week and the quiet hours are those of its clocks. */
  readonly time_zone: string;
  /** Null: none. */
  readonly quiet_hours: QuietHours | null;
}

export type AlertState = 'ok' | 'firing';

/** The numbers of an evaluation. */
export interface AlertMeasurement {
  /** Events, a share of 1, or minutes, depending on the kind. */
  readonly value: number;
  /** The limit that `value` was compared with. */
  readonly limit: number;
  /** The baseline of a volume. */
  readonly expected: number | null;
}

/** A change of an alert's state, as the catalog stores it and notices report it. */
export interface AlertChange extends AlertMeasurement {
  /** A UUID: the id of all its notices. */
  readonly id: string;
  readonly state: AlertState;
  /** The evaluated time, ISO 8601; `until` is exclusive. */
  readonly from: string;
  readonly until: string;
  /** Rate limit of changes: the time up to which earlier changes have used it, ISO 8601. */
  readonly paced_until: string;
}

/** The last reported state of an alert. Absent: nothing was reported yet, so it is `ok`. */
export interface AlertCondition extends Omit<AlertChange, 'id'>, Turns {
  /** When the state was reported, ISO 8601. */
  readonly since: string;
}

/** The changes of a reported state. */
export interface Turns {
  /** Number of changes. */
  readonly turns: number;
  /** Ids of the last changes, newest first: they show which of several proposals was applied. */
  readonly recent: readonly string[];
}

/** Number of kept change ids. Changes are paced, so a notice stage that lags still finds its own. */
const REMEMBERED = 8;

export function turnsAfter(before: Turns | undefined, id: string): Turns {
  return {
    turns: (before?.turns ?? 0) + 1,
    recent: [id, ...(before?.recent ?? [])].slice(0, REMEMBERED),
  };
}

export function alertConditionAfter(
  before: AlertCondition | undefined,
  { id, ...change }: AlertChange,
  since: string,
): AlertCondition {
  return { ...change, since, ...turnsAfter(before, id) };
}
