import type { AlertWatch } from './alert.ts';
import { sameHourBefore } from './local-time.ts';

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;

/** Counts of the watched events in one interval. All are counted in the interval in which the event was received. */
export interface SeriesPoint {
  /** Start of the interval, epoch ms. */
  readonly start: number;
  /** Without repeats. */
  readonly received: number;
  /** Rejected, or accepted with a warning or without some fields. */
  readonly violations: number;
  /** Deliveries that were created or redriven. */
  readonly deliveries: number;
  readonly delivered: number;
  readonly dead: number;
}

/** The counts that one alert is evaluated by, in order of time. Intervals without counts are absent. */
export interface AlertSeries {
  /** All events received before this time are counted, epoch ms. */
  readonly completeUntil: number;
  readonly minutes: readonly SeriesPoint[];
  readonly hours: readonly SeriesPoint[];
  /** When the first of these events was counted, as far back as counts are kept; undefined where there is none. */
  readonly countedSince: number | undefined;
  /** Whether there are hours only, as in the past. Default false. */
  readonly hoursOnly?: boolean;
}

/** A range of counts, epoch ms: whole intervals, `to` exclusive. */
export interface SeriesRange {
  readonly interval: 'minute' | 'hour';
  readonly from: number;
  readonly to: number;
}

/** Windows of more minutes are counted in whole hours, because single minutes are kept for an hour only. */
const MAX_MINUTES = 55;
/** Deliveries younger than this are not counted as late. */
const DELIVERY_GRACE_MS = 2 * MINUTE_MS;
/** How far back undelivered events are looked for. */
const BACKLOG_MS = 72 * HOUR_MS;

/** The window of an alert: the intervals that it counts. */
export interface AlertWindow extends SeriesRange {
  /** The evaluated time ends here; `to` is the end of the last interval. */
  readonly until: number;
  /** The part of the last interval that is too young: it is subtracted. */
  readonly tail?: SeriesRange;
}

export function floorTo(ms: number, interval: number): number {
  return Math.floor(ms / interval) * interval;
}

function ceilTo(ms: number, interval: number): number {
  return Math.ceil(ms / interval) * interval;
}

/** The window of the last `minutes`. It begins with a whole interval, so it may be longer by up to one. */
export function windowOf(
  watch: Extract<AlertWatch, { readonly kind: 'silence' | 'violations' | 'delivery_rate' }>,
  { completeUntil, hoursOnly = false }: Pick<AlertSeries, 'completeUntil' | 'hoursOnly'>,
): AlertWindow {
  const interval = hoursOnly || watch.minutes > MAX_MINUTES ? 'hour' : 'minute';
  const ms = interval === 'hour' ? HOUR_MS : MINUTE_MS;
  const windowTo = (until: number): AlertWindow => ({
    interval,
    from: floorTo(until - watch.minutes * MINUTE_MS, ms),
    to: ceilTo(until, ms),
    until,
  });
  if (watch.kind !== 'delivery_rate' || hoursOnly) return windowTo(completeUntil);
  const window = windowTo(floorTo(completeUntil - DELIVERY_GRACE_MS, MINUTE_MS));
  if (interval === 'minute') return window;
  return { ...window, tail: { interval: 'minute', from: window.until, to: window.to } };
}

/** The two windows in which a backlog is looked for: whole hours, and the minutes of the last one. */
export function backlogWindows({
  completeUntil,
}: Pick<AlertSeries, 'completeUntil'>): Readonly<Record<'hours' | 'minutes', SeriesRange>> {
  const to = floorTo(completeUntil, MINUTE_MS);
  return {
    hours: {
      interval: 'hour',
      from: floorTo(completeUntil - BACKLOG_MS, HOUR_MS),
      to: ceilTo(completeUntil, HOUR_MS),
    },
    minutes: { interval: 'minute', from: to - MAX_MINUTES * MINUTE_MS, to },
  };
}

/** The ranges of counts that an evaluation reads, the largest of which has 72 intervals. */
export function rangesOf(watch: AlertWatch, timeZone: string, completeUntil: number): readonly SeriesRange[] {
  switch (watch.kind) {
    case 'volume': {
      const thisHour = floorTo(completeUntil, HOUR_MS);
      const compared = watch.direction === 'above' ? [thisHour - HOUR_MS, thisHour] : [thisHour - HOUR_MS];
      return compared.flatMap((hour) => [hour, ...hoursBefore(hour, watch.weeks, timeZone)].map(oneHour));
    }
    case 'silence':
    case 'violations':
    case 'delivery_rate': {
      const { tail, ...window } = windowOf(watch, { completeUntil });
      return tail === undefined ? [window] : [window, tail];
    }
    case 'backlog': {
      const { hours, minutes } = backlogWindows({ completeUntil });
      return [hours, minutes];
    }
  }
}

/** Whether the evaluation needs to know since when its events are counted. */
export function needsHistory({ kind }: AlertWatch): boolean {
  return kind === 'volume' || kind === 'silence';
}

/** The same hour of the week in the weeks before, newest first. */
export function hoursBefore(hour: number, weeks: number, timeZone: string): readonly number[] {
  return Array.from({ length: weeks }, (_, n) => sameHourBefore(hour, n + 1, timeZone));
}

function oneHour(from: number): SeriesRange {
  return { interval: 'hour', from, to: from + HOUR_MS };
}

export type SeriesSums = Omit<SeriesPoint, 'start'>;

const MEASURES = ['received', 'violations', 'deliveries', 'delivered', 'dead'] as const;

export function sumOfWindow(
  series: Pick<AlertSeries, 'minutes' | 'hours'>,
  { tail, ...window }: AlertWindow,
): SeriesSums {
  const sums = sumOf(series, window);
  if (tail === undefined) return sums;
  const young = sumOf(series, tail);
  // The two are read one after the other, so the tail may have more.
  return Object.fromEntries(
    MEASURES.map((measure) => [measure, Math.max(0, sums[measure] - young[measure])]),
  ) as SeriesSums;
}

/** Sums the intervals that begin in a range. */
export function sumOf(
  { minutes, hours }: Pick<AlertSeries, 'minutes' | 'hours'>,
  { interval, from, to }: SeriesRange,
): SeriesSums {
  const sums = { received: 0, violations: 0, deliveries: 0, delivered: 0, dead: 0 };
  for (const point of interval === 'minute' ? minutes : hours)
    if (point.start >= from && point.start < to)
      for (const measure of MEASURES) sums[measure] += point[measure];
  return sums;
}

/** Deliveries that are neither made nor dead. */
export function pendingOf({ deliveries, delivered, dead }: SeriesSums): number {
  return Math.max(0, deliveries - delivered - dead);
}
