import { describe, expect, it } from 'vitest';
import type { AlertState, AlertWatch } from './alert.ts';
import { type Counted, countsOf, DAY, HOUR, MINUTE } from './counts.fixture.ts';
import { evaluateAlert, evaluateWatch } from './evaluate.ts';
import { readAlertSeries } from './funnel-series.ts';

/** A Thursday. */
const NOW = Date.parse('2026-03-19T10:00:00Z');
const ALL = { source_id: null, event_type: null, event_name: null } as const;

interface Moment {
  readonly watch: AlertWatch;
  readonly counts: readonly Counted[];
  readonly now?: number;
  readonly current?: AlertState;
  readonly isActive?: (id: string) => boolean;
}

async function evaluated({ watch, counts, now = NOW, current = 'ok', isActive = () => true }: Moment) {
  const rule = { environment: 'production', watch, time_zone: 'UTC' } as const;
  const query = { workspaceId: 'w', ...rule, completeUntil: now, isActive };
  return evaluateWatch(
    rule,
    await readAlertSeries(
      countsOf(counts, () => now),
      query,
    ),
    current,
  );
}

const received = (at: number, count: number, more: Readonly<Record<string, number>> = {}) => ({
  at,
  counts: { received: count, ...more },
});

/** The same hour of the weeks before, newest first, and a day before them, as the first day does not count. */
const weeksOf = (hour: number, counts: readonly number[]) => [
  ...counts.map((count, n) => received(hour - (n + 1) * 7 * DAY, count)),
  received(hour - (counts.length * 7 + 2) * DAY, 1),
];

describe('volume', () => {
  const below = {
    kind: 'volume',
    ...ALL,
    direction: 'below',
    tolerance: 0.5,
    weeks: 4,
    minimum: 20,
  } as const;
  const above = { ...below, direction: 'above' } as const;
  const last = NOW - HOUR;

  it('below the median of the weeks, by more than the tolerance', async () => {
    const history = weeksOf(last, [100, 120, 0, 110]);
    const of = (count: number) => evaluated({ watch: below, counts: [...history, received(last, count)] });
    expect(await of(52)).toMatchObject({ state: 'firing', value: 52, limit: 52.5, expected: 105 });
    expect(await of(53)).toMatchObject({ state: 'ok' });
    expect(await of(1_000)).toMatchObject({ state: 'ok' });
  });

  it('repeats of an event do not count', async () => {
    const counts = [...weeksOf(last, [100, 100]), received(last, 100, { duplicate: 60 })];
    expect(await evaluated({ watch: below, counts })).toMatchObject({ state: 'firing', value: 40 });
  });

  it('recovers when half of the way back is gone', async () => {
    const of = (count: number) =>
      evaluated({
        watch: below,
        current: 'firing',
        counts: [...weeksOf(last, [100, 100]), received(last, count)],
      });
    expect(await of(74)).toMatchObject({ state: 'firing', limit: 75 });
    expect(await of(75)).toMatchObject({ state: 'ok' });
  });

  it('of a quiet night raises no alert', async () => {
    expect(await evaluated({ watch: below, counts: weeksOf(last, [3, 19, 19, 30]) })).toMatchObject({
      state: 'unknown',
      because: 'few_events',
    });
  });

  it('with too little history raises no alert: one week, or weeks before the first whole day', async () => {
    for (const counts of [
      [],
      weeksOf(last, [100]),
      [100, 100].map((n, k) => received(last - (k + 1) * 7 * DAY, n)),
    ])
      expect(await evaluated({ watch: below, counts })).toMatchObject({ because: 'little_history' });
  });

  it('an hour without events in a week with some counts as 0', async () => {
    const counts = [...weeksOf(last, [0, 0, 0, 100]), received(last, 0)];
    expect(await evaluated({ watch: below, counts })).toMatchObject({ because: 'few_events' });
  });

  it('above: already before the hour is over, and recovers after one that is as it should be', async () => {
    const thisHour = [...weeksOf(NOW, [100, 100]), ...weeksOf(last, [100, 100])];
    const now = NOW + 10 * MINUTE;
    const of = (before: number, count: number, current: AlertState = 'ok') =>
      evaluated({
        watch: above,
        now,
        current,
        counts: [...thisHour, received(last, before), received(NOW, count)],
      });
    expect(await of(100, 151)).toMatchObject({
      state: 'firing',
      value: 151,
      limit: 150,
      from: NOW,
      until: now,
    });
    expect(await of(151, 20)).toMatchObject({ state: 'firing', from: last });
    expect(await of(100, 20)).toMatchObject({ state: 'ok', from: last });
    expect(await of(130, 20, 'firing')).toMatchObject({ state: 'firing', limit: 125 });
    expect(await of(125, 20, 'firing')).toMatchObject({ state: 'ok' });
  });

  it('above: two hours that are compared with the same one, which a clock change left out, count it once', async () => {
    // At 02:00 and 03:00 in Berlin; a week before the clocks went from 02:00 to 03:00.
    const now = Date.parse('2026-04-05T01:10:00Z');
    const rule = {
      environment: 'production',
      watch: { ...above, weeks: 2 },
      time_zone: 'Europe/Berlin',
    } as const;
    const day = Array.from({ length: 25 * 24 }, (_, n) => received(now - 10 * MINUTE - n * HOUR, 100));
    const query = { workspaceId: 'w', ...rule, completeUntil: now, isActive: () => true };
    const series = await readAlertSeries(
      countsOf(day, () => now),
      query,
    );
    expect(series.hours.filter(({ start }, n) => series.hours[n - 1]?.start === start)).toEqual([]);
    expect(evaluateWatch(rule, series, 'ok')).toMatchObject({ state: 'ok', expected: 100 });
  });

  it('above: events where there were none before, from the minimum on', async () => {
    const of = (count: number) =>
      evaluated({ watch: above, counts: [...weeksOf(last, [0, 0, 0]), received(last, count)] });
    expect(await of(20)).toMatchObject({ state: 'ok' });
    expect(await of(21)).toMatchObject({ state: 'firing', expected: 0 });
  });
});

describe('silence', () => {
  const watch = { kind: 'silence', ...ALL, minutes: 30 } as const;

  it('from the last event on, to the minute', async () => {
    const after = (minutes: number) => evaluated({ watch, counts: [received(NOW - minutes * MINUTE, 1)] });
    expect(await after(30)).toMatchObject({ state: 'ok' });
    expect(await after(31)).toMatchObject({ state: 'firing', value: 0, from: NOW - 30 * MINUTE, until: NOW });
    expect(await after(1)).toMatchObject({ state: 'ok', value: 1 });
  });

  it('of more than 55 minutes by whole hours, so up to an hour later', async () => {
    const long = { ...watch, minutes: 120 } as const;
    const now = NOW + 30 * MINUTE;
    const of = (at: number) => evaluated({ watch: long, now, counts: [received(at, 1)] });
    expect(await of(Date.parse('2026-03-19T08:05:00Z'))).toMatchObject({ state: 'ok' });
    expect(await of(Date.parse('2026-03-19T07:55:00Z'))).toMatchObject({ state: 'firing' });
  });

  it('of events that never arrived raises no alert', async () => {
    expect(await evaluated({ watch, counts: [] })).toMatchObject({ because: 'never_counted' });
  });
});

describe('violations', () => {
  const watch = { kind: 'violations', ...ALL, minutes: 30, share: 0.05, minimum: 20 } as const;

  it('above the share of received events, rejected or warned of', async () => {
    const of = (counts: Readonly<Record<string, number>>, current: AlertState = 'ok') =>
      evaluated({ watch, current, counts: [{ at: NOW - MINUTE, counts }] });
    expect(await of({ received: 100, 'rejected/c1/missing': 3, 'warned/omitted': 3 })).toMatchObject({
      state: 'firing',
      value: 0.06,
    });
    expect(await of({ received: 100, 'rejected/c1/missing': 5 })).toMatchObject({ state: 'ok' });
    expect(await of({ received: 100, 'rejected/c1/missing': 5 }, 'firing')).toMatchObject({
      state: 'firing',
    });
    expect(await of({ received: 100, 'rejected/c1/missing': 4 }, 'firing')).toMatchObject({ state: 'ok' });
    expect(await of({ received: 19, 'rejected/c1/missing': 19 })).toMatchObject({ because: 'few_events' });
  });

  it('in its window alone', async () => {
    const counts = [received(NOW - MINUTE, 50), received(NOW - 40 * MINUTE, 50, { 'rejected/c/x': 50 })];
    expect(await evaluated({ watch, counts })).toMatchObject({ state: 'ok', value: 0 });
    expect(await evaluated({ watch: { ...watch, minutes: 50 }, counts })).toMatchObject({ state: 'firing' });
  });
});

describe('deliveries', () => {
  const rate = { kind: 'delivery_rate', destination_id: null, minutes: 30, share: 0.9, minimum: 20 } as const;
  const backlog = { kind: 'backlog', destination_id: null, minutes: 60 } as const;
  const made = (minutes: number, counts: Readonly<Record<string, number>>, destination = 'd') => ({
    at: NOW - minutes * MINUTE,
    destination,
    counts,
  });

  it('made below the share; those of the last two minutes are not counted yet', async () => {
    const counts = [made(10, { created: 100, delivered_first: 80, delivered_later: 9 })];
    expect(await evaluated({ watch: rate, counts })).toMatchObject({ state: 'firing', value: 0.89 });
    expect(
      await evaluated({ watch: rate, counts: [made(10, { created: 100, delivered_first: 90 })] }),
    ).toMatchObject({
      state: 'ok',
    });
    const young = [made(10, { created: 100, delivered_first: 95 }), made(1, { created: 100 })];
    expect(await evaluated({ watch: rate, counts: young })).toMatchObject({ state: 'ok', value: 0.95 });
  });

  it('of a long window, too', async () => {
    const watch = { ...rate, minutes: 120 };
    const counts = [made(90, { created: 100, delivered_first: 95 }), made(1, { created: 100 })];
    expect(await evaluated({ watch, counts })).toMatchObject({ state: 'ok', value: 0.95 });
  });

  it('to destinations that are paused do not count', async () => {
    const counts = [made(10, { created: 100 }, 'paused'), made(10, { created: 100, delivered_first: 99 })];
    const isActive = (id: string) => id !== 'paused';
    expect(await evaluated({ watch: rate, counts, isActive })).toMatchObject({ state: 'ok', value: 0.99 });
    expect(await evaluated({ watch: rate, counts })).toMatchObject({ state: 'firing' });
  });

  it('wait for long: to the minute in the last hour, from then on at least so long', async () => {
    const watch = { ...backlog, minutes: 30 } as const;
    const of = (minutes: number, more: readonly Counted[] = []) =>
      evaluated({
        watch,
        counts: [
          made(minutes, { created: 5, delivered_first: 4 }),
          made(2, { created: 9, delivered_first: 9 }),
          ...more,
        ],
      });
    expect(await of(31)).toMatchObject({ state: 'ok', value: 30 });
    expect(await of(32)).toMatchObject({ state: 'firing', value: 31 });
    expect(await of(5 * 60 + 30)).toMatchObject({ state: 'firing', value: 300 });
    const settled = made(5 * 60 + 30, { 'dead/expired': 1 });
    expect(await of(5 * 60 + 30, [settled])).toMatchObject({ state: 'ok', value: 0 });
  });

  it('that failed in their rule never were deliveries; a redriven one waits again', async () => {
    const failed = made(300, { created: 5, delivered_first: 4, 'dead/transformation': 7 });
    expect(await evaluated({ watch: backlog, counts: [failed] })).toMatchObject({ state: 'firing' });
    const redriven = made(300, {
      created: 5,
      delivered_first: 4,
      'dead/destination': 1,
      'redriven/delivery': 1,
    });
    expect(await evaluated({ watch: backlog, counts: [redriven] })).toMatchObject({ state: 'firing' });
  });

  it('that wait in an hour of which the last minutes are known are not taken for older ones', async () => {
    const now = NOW + 11 * MINUTE;
    const at = (minutes: number, pending: number) => ({
      at: now - minutes * MINUTE,
      destination: 'd',
      counts: { created: pending },
    });
    // Minutes are known from 09:16 on.
    expect(await evaluated({ watch: backlog, now, counts: [at(50, 1)] })).toMatchObject({ value: 49 });
    expect(await evaluated({ watch: backlog, now, counts: [at(57, 1)] })).toMatchObject({ value: 55 });
    expect(await evaluated({ watch: backlog, now, counts: [at(70, 1), at(50, 1)] })).toMatchObject({
      value: 55,
    });
    expect(await evaluated({ watch: backlog, now, counts: [at(80, 1)] })).toMatchObject({ value: 71 });
  });
});

describe('a change', () => {
  const watch = { kind: 'silence', ...ALL, minutes: 30 } as const;
  const rule = { environment: 'production', watch, time_zone: 'UTC', quiet_hours: null } as const;
  const series = (isSilent: boolean) => ({
    completeUntil: NOW,
    minutes: isSilent
      ? []
      : [{ start: NOW - MINUTE, received: 1, violations: 0, deliveries: 0, delivered: 0, dead: 0 }],
    hours: [],
    countedSince: 0,
  });
  const reported = (state: AlertState, pacedUntil: number) => ({
    state,
    paced_until: new Date(pacedUntil).toISOString(),
  });

  it('is due once: not while the reported state holds', () => {
    expect(evaluateAlert(rule, series(true), undefined, NOW, HOUR)).toMatchObject({
      evaluation: { state: 'firing' },
      pacedUntil: NOW + HOUR,
    });
    expect(evaluateAlert(rule, series(true), reported('firing', NOW + HOUR), NOW, HOUR)).toBeUndefined();
    expect(evaluateAlert(rule, series(false), undefined, NOW, HOUR)).toBeUndefined();
    expect(evaluateAlert(rule, series(false), reported('firing', NOW + HOUR), NOW, HOUR)).toMatchObject({
      evaluation: { state: 'ok' },
      pacedUntil: NOW + 2 * HOUR,
    });
  });

  it('is paced: after two in a row, one in the time', () => {
    const third = reported('ok', NOW + 2 * HOUR);
    expect(evaluateAlert(rule, series(true), third, NOW, HOUR)).toBeUndefined();
    expect(evaluateAlert(rule, series(true), third, NOW + HOUR - 1, HOUR)).toBeUndefined();
    expect(evaluateAlert(rule, series(true), third, NOW + HOUR, HOUR)).toBeDefined();
  });

  it('in quiet hours waits for their end, and is dropped if it no longer holds then', () => {
    const quiet = { ...rule, quiet_hours: [{ days: ['thu'], from: '09:00', until: '11:00' }] } as const;
    expect(evaluateAlert(quiet, series(true), undefined, NOW, HOUR)).toBeUndefined();
    expect(evaluateAlert(quiet, series(true), undefined, NOW + HOUR, HOUR)).toBeDefined();
    expect(evaluateAlert(quiet, series(false), undefined, NOW + HOUR, HOUR)).toBeUndefined();
    expect(evaluateAlert(quiet, series(false), reported('firing', 0), NOW, HOUR)).toBeUndefined();
    expect(evaluateAlert(quiet, series(false), reported('firing', 0), NOW + HOUR, HOUR)).toBeDefined();
  });
});
