import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Fact } from '../catalog/facts.ts';
import { applyFact } from '../catalog/fold/fold.ts';
import { CatalogState } from '../catalog/fold/state.ts';
import type { AlertRule, AlertState, AlertWatch } from './alert.ts';
import { type Counted, countsOf, DAY, HOUR, MINUTE } from './counts.fixture.ts';
import { evaluateAlert } from './evaluate.ts';
import { readAlertSeries } from './funnel-series.ts';
import type { QuietHours } from './local-time.ts';
import { AT_MINUTE, clocks, NAMES, type World, watches, worlds, type Zone } from './random-series.fixture.ts';

/*
 * Alerts are evaluated on random series (a weekly shape with quiet nights, gaps, counts that come late) for weeks around
 * a clock change, and reported by the real fold. A model decides independently of the code: it has each hour's events as plain
 * numbers, the rules of summer time of three zones, and looks for the hour of the week by comparing what clocks show.
 */

const isSameHour = (zone: Zone, a: number, b: number) => {
  const [one, other] = [clocks(zone, a), clocks(zone, b)];
  return one.day === other.day && one.minutes === other.minutes;
};

/** Walks through the minutes of a period from its begin, instead of comparing its ends. */
function isQuietIn(zone: Zone, quiet: QuietHours, now: number): boolean {
  const { day, minutes } = clocks(zone, now);
  const today = NAMES.indexOf(day);
  return quiet.some(({ days, from, until }) => {
    const minute = (text: string) => Number(text.split(':')[0]) * 60 + Number(text.split(':')[1]);
    const length = (minute(until) - minute(from) + 1_440) % 1_440 || 1_440;
    return days.some((begins) => {
      const daysAgo = (today - NAMES.indexOf(begins) + 7) % 7;
      const since = daysAgo * 1_440 + minutes - minute(from);
      return since >= 0 && since < length;
    });
  });
}

/** The state that the model expects by the events received before `until`; undefined where the model does not decide. */
function wanted(
  world: World,
  watch: AlertWatch,
  until: number,
  reported: AlertState,
): AlertState | undefined {
  switch (watch.kind) {
    case 'volume':
      return watch.direction === 'below'
        ? wantedBelow(world, watch, until, reported)
        : wantedAbove(world, watch, until, reported);
    case 'silence':
      return wantedSilence(world, watch.minutes, until);
    case 'violations': {
      const { received, bad } = between(world, windowBegin(watch.minutes, until), until);
      if (received < watch.minimum || received === 0) return undefined;
      const share = Math.round((bad / received) * 10_000) / 10_000;
      return share > (reported === 'firing' ? 0.04 : 0.05) ? 'firing' : 'ok';
    }
    default:
      return undefined;
  }
}

type Volume = Extract<AlertWatch, { readonly kind: 'volume' }>;

/** The counts of the same hour of the week; undefined with fewer than two, or where clocks showed it twice or never. */
function baseline(
  { zone, begin, events }: World,
  hour: number,
  weeks: number,
): number | undefined | 'ambiguous' {
  const firstWholeDay = Math.floor(firstEvent(events, begin) / DAY) * DAY + DAY;
  const counts: number[] = [];
  for (let week = 1; week <= weeks; week++) {
    const near = [-1, 0, 1].map((hours) => hour - week * 7 * DAY + hours * HOUR);
    const same = near.filter((other) => isSameHour(zone, other, hour));
    const [only] = same;
    if (same.length !== 1 || only === undefined) return 'ambiguous';
    if (only >= firstWholeDay) counts.push(events.get(only)?.received ?? 0);
  }
  if (counts.length < 2) return undefined;
  const sorted = counts.toSorted((a, b) => a - b);
  const below = sorted.filter((_, n) => n === Math.floor((sorted.length - 1) / 2))[0] ?? 0;
  const above = sorted.filter((_, n) => n === Math.ceil((sorted.length - 1) / 2))[0] ?? 0;
  return (below + above) / 2;
}

function firstEvent(events: World['events'], begin: number): number {
  for (const [hour, { received }] of events) if (received > 0) return hour + AT_MINUTE * MINUTE;
  return begin + 1_000 * DAY;
}

/** Without the noise of floating point. */
const exact = (value: number) => Number(value.toFixed(4));

function wantedBelow(
  world: World,
  watch: Volume,
  until: number,
  reported: AlertState,
): AlertState | undefined {
  const hour = Math.floor(until / HOUR) * HOUR - HOUR;
  const expected = baseline(world, hour, watch.weeks);
  if (expected === 'ambiguous') throw new Ambiguous();
  if (expected === undefined || expected < watch.minimum) return undefined;
  const tolerated = reported === 'firing' ? watch.tolerance / 2 : watch.tolerance;
  return (world.events.get(hour)?.received ?? 0) < exact(expected * (1 - tolerated)) ? 'firing' : 'ok';
}

/** All events of an hour come at one minute, so the current one is either over or has none. */
function wantedAbove(
  world: World,
  watch: Volume,
  until: number,
  reported: AlertState,
): AlertState | undefined {
  const thisHour = Math.floor(until / HOUR) * HOUR;
  const states = [thisHour, thisHour - HOUR].map((hour) => {
    const expected = baseline(world, hour, watch.weeks);
    if (expected === 'ambiguous') throw new Ambiguous();
    if (expected === undefined) return undefined;
    const tolerated = reported === 'firing' ? watch.tolerance / 2 : watch.tolerance;
    const count = hour + AT_MINUTE * MINUTE < until ? (world.events.get(hour)?.received ?? 0) : 0;
    return count > Math.max(exact(expected * (1 + tolerated)), watch.minimum) ? 'firing' : 'ok';
  });
  return states[0] === 'firing' && until > thisHour ? 'firing' : states[1];
}

/** The clocks of the model do not say which hour is meant. */
class Ambiguous extends Error {}

function windowBegin(minutes: number, until: number): number {
  const begin = until - minutes * MINUTE;
  const unit = minutes > 55 ? HOUR : MINUTE;
  return Math.floor(begin / unit) * unit;
}

function between({ events }: World, from: number, until: number) {
  const sum = { received: 0, bad: 0 };
  for (const [hour, { received, bad }] of events) {
    const at = hour + AT_MINUTE * MINUTE;
    if (at < from || at >= until) continue;
    sum.received += received;
    sum.bad += bad;
  }
  return sum;
}

function wantedSilence(world: World, minutes: number, until: number): AlertState | undefined {
  if (firstEvent(world.events, world.begin) >= until) return undefined;
  return between(world, windowBegin(minutes, until), until).received === 0 ? 'firing' : 'ok';
}

const RUNS = 16;
const EVERY_MS = 3 * HOUR;
/** Evaluations of the run: two an hour, on both sides of the minute of the events. */
const AT_MINUTES = [0, 25];

/** An alert in a catalog, to which two processes propose each change. */
function catalogOf(rule: AlertRule) {
  const state = new CatalogState();
  const at = '2026-01-01T00:00:00.000Z';
  const from = { address: '', request_id: '' };
  let position = 0;
  const add = (fact: object) => applyFact(state, { v: 1, by: 'a', from, at, ...fact } as Fact, position++);
  const workspace = { id: 'w', name: 'w', organization_id: 'o', region: 'eu', status: 'active' };
  const organization = { id: 'o', name: 'o', regions: ['eu'], notification_email: null };
  add({ type: 'workspace.created', entity: 'w', data: { workspace, organization } });
  const fields = { id: 'a', workspace_id: 'w', name: 'a', enabled: true, destination_id: null, email: null };
  add({ type: 'alert.created', entity: 'a', data: { ...fields, ...rule, created_by: 'a' } });
  return {
    condition: () => state.entity('alert', 'w', 'a')?.condition,
    /** How many of two equal proposals were applied. */
    propose(data: object, seen: number): number {
      const verdicts = ['one', 'two'].map((id) =>
        add({ type: 'alert.turned', entity: 'a', expected_version: seen, data: { id, ...data } }),
      );
      return verdicts.filter(({ applied }) => applied).length;
    },
  };
}

describe('an alert on a random series', () => {
  it('reports each change that a model finds, once, outside of quiet hours, in its pace', async () => {
    let checked = 0;
    let changes = 0;
    await fc.assert(
      fc.asyncProperty(worlds, watches, async (world, watch) => {
        const { zone, evaluateFrom, end, events, quiet, behind } = world;
        const rule: AlertRule = { environment: 'production', watch, time_zone: zone, quiet_hours: quiet };
        const catalog = catalogOf(rule);
        const list: Counted[] = [...events].map(([hour, { received, bad }]) => ({
          at: hour + AT_MINUTE * MINUTE,
          counts: { received, 'rejected/c/x': bad },
        }));
        let now = evaluateFrom;
        let completeUntil = evaluateFrom;
        // Counts that are not complete yet are not visible.
        const read = countsOf(
          list,
          () => now,
          () => completeUntil,
        );
        const reportedAt: number[] = [];
        for (let hour = evaluateFrom; hour < end; hour += HOUR) {
          const late = (behind[(hour / HOUR) % behind.length] ?? 0) * MINUTE;
          for (const minute of AT_MINUTES) {
            now = hour + minute * MINUTE;
            completeUntil = now - late;
            // Single minutes are kept for an hour: nothing is evaluated by counts that are further behind.
            if (late > 4 * MINUTE && 'minutes' in watch && watch.minutes <= 55) continue;
            const before = catalog.condition();
            const reported = before?.state ?? 'ok';
            let model: AlertState | undefined;
            try {
              model = wanted(world, watch, completeUntil, reported);
            } catch (error) {
              if (error instanceof Ambiguous) continue;
              throw error;
            }
            checked++;
            const series = await readAlertSeries(read, {
              workspaceId: 'w',
              ...rule,
              completeUntil,
              isActive: () => true,
            });
            const due = evaluateAlert(rule, series, before, now, EVERY_MS);
            const recent = reportedAt.filter((at) => at > now - EVERY_MS).length;
            const isWanted = model !== undefined && model !== reported && !isQuietIn(zone, quiet, now);
            const about = `${new Date(now).toISOString()} ${JSON.stringify(watch)} ${reported} -> ${model}`;
            if (!isWanted) expect(due, about).toBeUndefined();
            // After an interval without a report it has to be reported now.
            else if (recent === 0) expect(due?.evaluation.state, about).toBe(model);
            if (due === undefined) continue;
            expect(due.evaluation.state, about).toBe(model);
            const { state, value, limit, expected } = due.evaluation;
            const paced_until = new Date(due.pacedUntil).toISOString();
            const change = { state, value, limit, expected, from: '', until: '', paced_until };
            expect(catalog.propose(change, before?.turns ?? 0)).toBe(1);
            reportedAt.push(now);
            changes++;
            // The next evaluation, after a crash or not, has nothing to report.
            expect(
              evaluateAlert(rule, series, catalog.condition(), now, EVERY_MS)?.evaluation.state,
            ).not.toBe(state);
          }
        }
        // Two changes, and one more in each interval since the first.
        reportedAt.forEach((at, n) => {
          const [first = 0] = reportedAt;
          expect(n + 1).toBeLessThanOrEqual(2 + (at - first) / EVERY_MS);
        });
      }),
      { numRuns: RUNS },
    );
    // The property says nothing where nothing happens.
    expect(checked).toBeGreaterThan(3_000);
    expect(changes).toBeGreaterThan(15);
  }, 900_000);
});
