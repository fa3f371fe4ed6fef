import fc from 'fast-check';
import type { AlertWatch } from './alert.ts';
import { DAY, HOUR } from './counts.fixture.ts';
import type { QuietHours, Weekday } from './local-time.ts';

export type Zone = 'UTC' | 'Europe/Berlin' | 'America/New_York';

/** The n-th (0: last) Sunday of a month, at an hour of UTC. */
function sunday(year: number, month: number, n: number, hour: number): number {
  const days = [];
  for (let day = 1; day <= 31; day++) {
    const date = new Date(Date.UTC(year, month, day, hour));
    if (date.getUTCMonth() === month && date.getUTCDay() === 0) days.push(date.getTime());
  }
  return (n === 0 ? days.at(-1) : days[n - 1]) ?? 0;
}

/** The summer times of 2026. */
const SUMMERS = {
  'Europe/Berlin': { from: sunday(2026, 2, 0, 1), until: sunday(2026, 9, 0, 1), winter: 1 },
  'America/New_York': { from: sunday(2026, 2, 2, 7), until: sunday(2026, 10, 1, 6), winter: -5 },
} as const;

/** Hours that the clocks of a zone are ahead of UTC in 2026. */
function ahead(zone: Zone, ms: number): number {
  if (zone === 'UTC') return 0;
  const { from, until, winter } = SUMMERS[zone];
  return ms >= from && ms < until ? winter + 1 : winter;
}

export const NAMES: readonly Weekday[] = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];

/** The local time of a zone: the day of the week, and minutes of the day. */
export function clocks(zone: Zone, ms: number) {
  const local = new Date(ms + ahead(zone, ms) * HOUR);
  return {
    day: NAMES[local.getUTCDay()] ?? 'sun',
    minutes: local.getUTCHours() * 60 + local.getUTCMinutes(),
  };
}

export interface World {
  readonly zone: Zone;
  /** Start of the first hour with events. */
  readonly begin: number;
  readonly evaluateFrom: number;
  readonly end: number;
  /** Events and violations by start of the hour, all at its minute 17. */
  readonly events: ReadonlyMap<number, { readonly received: number; readonly bad: number }>;
  readonly quiet: QuietHours;
  /** Minutes that counts are behind, by hour of the run. */
  readonly behind: readonly number[];
}

const WEEKS_BEFORE = 5;
const RUN_DAYS = 9;
export const AT_MINUTE = 17;

/** Runs around the clock changes of spring and autumn, and far from any. */
const RUNS_OF: readonly (readonly [Zone, string])[] = [
  ['UTC', '2026-03-27'],
  ['Europe/Berlin', '2026-03-27'],
  ['Europe/Berlin', '2026-10-23'],
  ['America/New_York', '2026-03-06'],
  ['America/New_York', '2026-10-30'],
  ['America/New_York', '2026-06-10'],
];

export const worlds: fc.Arbitrary<World> = fc
  .record({
    run: fc.constantFrom(...RUNS_OF),
    /** Hours. */
    history: fc.oneof(
      { weight: 3, arbitrary: fc.integer({ min: 15 * 24, max: WEEKS_BEFORE * 7 * 24 }) },
      fc.integer({ min: 0, max: 15 * 24 }),
    ),
    level: fc.integer({ min: 5, max: 60 }),
    night: fc.constantFrom(0, 0, 0.2, 1),
    weekend: fc.constantFrom(0, 0.4, 1),
    gaps: fc.array(
      fc.record({
        at: fc.integer({ min: 0, max: RUN_DAYS * 24 }),
        hours: fc.integer({ min: 1, max: 20 }),
        factor: fc.constantFrom(0, 0.3, 0.6, 1.6, 4),
        /** Then it comes half of the way back for some hours. */
        slowly: fc.integer({ min: 0, max: 6 }),
      }),
      { maxLength: 6 },
    ),
    faults: fc.array(
      fc.record({
        at: fc.integer({ min: 0, max: RUN_DAYS * 24 }),
        hours: fc.integer({ min: 1, max: 12 }),
        share: fc.constantFrom(0.03, 0.045, 0.06, 0.5),
      }),
      { maxLength: 4 },
    ),
    noise: fc.array(fc.integer({ min: -3, max: 3 }), { minLength: 40, maxLength: 40 }),
    behind: fc.array(fc.constantFrom(0, 0, 0, 3, 50, 61, 130), { minLength: 24, maxLength: 24 }),
    quiet: fc.array(
      fc.record({
        days: fc.uniqueArray(fc.constantFrom(...NAMES), { minLength: 1 }),
        from: fc.constantFrom('22:00', '00:00', '09:30'),
        until: fc.constantFrom('07:00', '12:15', '00:00'),
      }),
      { maxLength: 1 },
    ),
  })
  .map(({ run: [zone, start], history, level, night, weekend, gaps, faults, noise, behind, quiet }) => {
    const evaluateFrom = Date.parse(`${start}T00:00:00Z`);
    const end = evaluateFrom + RUN_DAYS * DAY;
    const begin = evaluateFrom - history * HOUR;
    const events = new Map<number, { received: number; bad: number }>();
    for (let hour = begin, n = 0; hour < end; hour += HOUR, n++) {
      const { day, minutes } = clocks(zone, hour);
      const isNight = minutes < 360;
      const isWeekend = day === 'sat' || day === 'sun';
      const since = (hour - evaluateFrom) / HOUR;
      const gap = gaps.find(({ at, hours, slowly }) => since >= at && since < at + hours + slowly);
      const isSlow = gap !== undefined && since >= gap.at + gap.hours;
      const factor = gap === undefined ? 1 : isSlow ? 1 + Math.sign(gap.factor - 1) * 0.35 : gap.factor;
      const share = faults.find(({ at, hours }) => since >= at && since < at + hours)?.share ?? 0;
      const usual = level * (isNight ? night : 1) * (isWeekend ? weekend : 1);
      const received = Math.max(
        0,
        Math.round((usual === 0 ? 0 : usual + (noise[n % noise.length] ?? 0)) * factor),
      );
      events.set(hour, { received, bad: Math.round(received * share) });
    }
    return { zone, begin, evaluateFrom, end, events, quiet, behind };
  });

const volumes = fc.record({
  kind: fc.constant('volume' as const),
  source_id: fc.constant(null),
  event_type: fc.constant(null),
  event_name: fc.constant(null),
  direction: fc.constantFrom('below' as const, 'above' as const),
  tolerance: fc.constantFrom(0.2, 0.5, 0.9),
  weeks: fc.constantFrom(2, 3, 4),
  minimum: fc.constantFrom(1, 20),
});

export const watches: fc.Arbitrary<AlertWatch> = fc.oneof(
  { weight: 3, arbitrary: volumes },
  fc.record({
    kind: fc.constant('silence' as const),
    source_id: fc.constant(null),
    event_type: fc.constant(null),
    event_name: fc.constant(null),
    minutes: fc.constantFrom(20, 45, 90, 300),
  }),
  fc.record({
    kind: fc.constant('violations' as const),
    source_id: fc.constant(null),
    event_type: fc.constant(null),
    event_name: fc.constant(null),
    minutes: fc.constantFrom(50, 60, 240),
    share: fc.constant(0.05),
    minimum: fc.constantFrom(1, 30),
  }),
);
