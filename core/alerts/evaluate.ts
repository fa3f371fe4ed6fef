import type {
  AlertCondition,
  AlertMeasurement,
  AlertRule,
  AlertState,
  BacklogWatch,
  DeliveryRateWatch,
  SilenceWatch,
  ViolationsWatch,
  VolumeWatch,
} from './alert.ts';
import { isQuiet } from './local-time.ts';
import {
  type AlertSeries,
  backlogWindows,
  floorTo,
  HOUR_MS,
  hoursBefore,
  MINUTE_MS,
  pendingOf,
  type SeriesRange,
  sumOf,
  sumOfWindow,
  windowOf,
} from './series.ts';

/**
 * Why an alert is not evaluated: its events were not counted for long enough; there are too few to compare; they were never
 * counted.
 */
export const UNKNOWN_REASONS = ['little_history', 'few_events', 'never_counted'] as const;
export type UnknownReason = (typeof UNKNOWN_REASONS)[number];

/** The evaluated time, epoch ms. */
interface Evaluated {
  readonly from: number;
  readonly until: number;
}

/** The evaluation of an alert at one moment. `unknown`: the state known before stays. */
export type AlertEvaluation = Evaluated &
  (
    | ({ readonly state: AlertState } & AlertMeasurement)
    | { readonly state: 'unknown'; readonly because: UnknownReason }
  );

/** Weeks with counts that a baseline needs. */
const MIN_WEEKS = 2;
/** Part of the way back from its limit that a value must have gone before an alert recovers. */
const VOLUME_HYSTERESIS = 1 / 2;
const HYSTERESIS = 1 / 5;
const DAY_MS = 24 * HOUR_MS;

/** A change that is to be reported now. */
export interface DueChange {
  readonly evaluation: Exclude<AlertEvaluation, { readonly state: 'unknown' }>;
  /** See `AlertChange.paced_until`, epoch ms. */
  readonly pacedUntil: number;
}

/**
 * Whether the state of an alert changed, and the change is to be reported now: not in quiet hours, and two changes of an
 * alert at most, then one in `everyMs`. A change that is held back by either is reported later, if it still holds then.
 */
export function evaluateAlert(
  rule: AlertRule,
  series: AlertSeries,
  reported: Pick<AlertCondition, 'state' | 'paced_until'> | undefined,
  now: number,
  everyMs: number,
): DueChange | undefined {
  const state = reported?.state ?? 'ok';
  if (isQuiet(rule.quiet_hours, rule.time_zone, now)) return undefined;
  const evaluation = evaluateWatch(rule, series, state);
  if (evaluation.state === 'unknown' || evaluation.state === state) return undefined;
  const used = reported === undefined ? 0 : Date.parse(reported.paced_until);
  const pacedUntil = Math.max(now, used) + everyMs;
  return pacedUntil - now <= 2 * everyMs ? { evaluation, pacedUntil } : undefined;
}

/** Evaluates an alert by its counts. `current`: an alert that fires recovers only at some distance from its limit. */
export function evaluateWatch(
  { watch, time_zone }: Pick<AlertRule, 'watch' | 'time_zone'>,
  series: AlertSeries,
  current: AlertState,
): AlertEvaluation {
  switch (watch.kind) {
    case 'volume':
      return evaluateVolume(watch, series, current, time_zone);
    case 'silence':
      return evaluateSilence(watch, series);
    case 'violations':
      return evaluateViolations(watch, series, current);
    case 'delivery_rate':
      return evaluateDeliveryRate(watch, series, current);
    case 'backlog':
      return evaluateBacklog(watch, series, current);
  }
}

/** The last whole hour; of `above` also the current one, which may exceed its limit before it is over. */
function evaluateVolume(
  { direction, tolerance, weeks, minimum }: VolumeWatch,
  series: AlertSeries,
  current: AlertState,
  timeZone: string,
): AlertEvaluation {
  const tolerated = current === 'firing' ? tolerance * VOLUME_HYSTERESIS : tolerance;
  const compare = (hour: number, until: number) => {
    const evaluated = { from: hour, until };
    const expected = baselineOf(series, hoursBefore(hour, weeks, timeZone));
    if (expected === undefined) return unknown('little_history', evaluated);
    if (direction === 'below' && expected < minimum) return unknown('few_events', evaluated);
    const value = sumOf(series, { interval: 'hour', from: hour, to: hour + HOUR_MS }).received;
    const limit =
      direction === 'below'
        ? rounded(expected * (1 - tolerated))
        : Math.max(rounded(expected * (1 + tolerated)), minimum);
    return compared(direction, value, limit, evaluated, expected);
  };
  const thisHour = floorTo(series.completeUntil, HOUR_MS);
  if (direction === 'above' && series.completeUntil > thisHour) {
    const partial = compare(thisHour, series.completeUntil);
    if (partial.state === 'firing') return partial;
  }
  return compare(thisHour - HOUR_MS, thisHour);
}

/**
 * The median of an hour of the week over the weeks before. Weeks before the first whole day with counts are left out; an
 * hour without events counts as 0. Undefined with fewer than `MIN_WEEKS` weeks.
 */
function baselineOf(series: AlertSeries, hours: readonly number[]): number | undefined {
  if (series.countedSince === undefined) return undefined;
  const since = floorTo(series.countedSince, DAY_MS) + DAY_MS;
  const counts = hours
    .filter((hour) => hour >= since)
    .map((from) => sumOf(series, { interval: 'hour', from, to: from + HOUR_MS }).received)
    .sort((a, b) => a - b);
  if (counts.length < MIN_WEEKS) return undefined;
  const middle = counts.length >> 1;
  const upper = counts[middle] ?? 0;
  return counts.length % 2 === 1 ? upper : ((counts[middle - 1] ?? 0) + upper) / 2;
}

function evaluateSilence(watch: SilenceWatch, series: AlertSeries): AlertEvaluation {
  const window = windowOf(watch, series);
  if (series.countedSince === undefined || series.countedSince >= window.until)
    return unknown('never_counted', window);
  return compared('below', sumOfWindow(series, window).received, 1, window);
}

function evaluateViolations(
  watch: ViolationsWatch,
  series: AlertSeries,
  current: AlertState,
): AlertEvaluation {
  const window = windowOf(watch, series);
  const { received, violations } = sumOfWindow(series, window);
  if (received < Math.max(1, watch.minimum)) return unknown('few_events', window);
  const limit = rounded(current === 'firing' ? watch.share * (1 - HYSTERESIS) : watch.share);
  return compared('above', share(violations, received), limit, window);
}

/** Pending deliveries count as not made, once they had a moment (`DELIVERY_GRACE_MS`). */
function evaluateDeliveryRate(
  watch: DeliveryRateWatch,
  series: AlertSeries,
  current: AlertState,
): AlertEvaluation {
  const window = windowOf(watch, series);
  const { deliveries, delivered } = sumOfWindow(series, window);
  if (deliveries < Math.max(1, watch.minimum)) return unknown('few_events', window);
  const limit = rounded(current === 'firing' ? watch.share + (1 - watch.share) * HYSTERESIS : watch.share);
  return compared('below', share(delivered, deliveries), limit, window);
}

/** `value`: the least age that the oldest undelivered event can have, in minutes. */
function evaluateBacklog(watch: BacklogWatch, series: AlertSeries, current: AlertState): AlertEvaluation {
  const { hours, minutes } = backlogWindows(series);
  const evaluated = { from: hours.from, until: series.completeUntil };
  const oldest = oldestPending(series, hours, minutes);
  const value = oldest === undefined ? 0 : Math.max(0, rounded((series.completeUntil - oldest) / MINUTE_MS));
  const limit = rounded(current === 'firing' ? watch.minutes * (1 - HYSTERESIS) : watch.minutes);
  return compared('above', value, limit, evaluated);
}

/**
 * The end of the oldest interval with pending deliveries, epoch ms. Of an hour that the minutes cover in part, only what
 * they do not cover counts.
 */
function oldestPending(series: AlertSeries, hours: SeriesRange, minutes: SeriesRange): number | undefined {
  for (const hour of series.hours) {
    if (hour.start < hours.from || hour.start >= minutes.from) continue;
    const covered = sumOf(series, {
      interval: 'minute',
      from: Math.max(hour.start, minutes.from),
      to: hour.start + HOUR_MS,
    });
    if (pendingOf(hour) > pendingOf(covered)) return Math.min(hour.start + HOUR_MS, minutes.from);
  }
  const pending = series.minutes.find(
    (point) => point.start >= minutes.from && point.start < minutes.to && pendingOf(point) > 0,
  );
  return pending && pending.start + MINUTE_MS;
}

function unknown(because: UnknownReason, { from, until }: Evaluated): AlertEvaluation {
  return { state: 'unknown', because, from, until };
}

/** `fires`: on which side of the limit. */
function compared(
  fires: 'below' | 'above',
  value: number,
  limit: number,
  { from, until }: Evaluated,
  expected: number | null = null,
): AlertEvaluation {
  const isFiring = fires === 'below' ? value < limit : value > limit;
  return { state: isFiring ? 'firing' : 'ok', value, limit, expected, from, until };
}

/** The share of a part, from 0 to 1. Replays may count an event more often than it was received. */
function share(part: number, whole: number): number {
  return Math.min(1, rounded(part / whole));
}

/** To a ten-thousandth: limits are compared and shown without the noise of floating point. */
function rounded(value: number): number {
  return Math.round(value * 10_000) / 10_000;
}
