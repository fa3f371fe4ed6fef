import {
  applyFact,
  CatalogState,
  type DestinationHealth,
  type Fact,
  type HealthBoard,
  type HealthReport,
  type HealthSample,
  type Labels,
  NO_LOGGER,
  NO_METRICS,
  type ReportedCondition,
  Unavailable,
  type Verdict,
} from '@tributary/core';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { requestLimits } from './admission.ts';
import { DESTINATION, quietReport } from './deliveries.fixture.ts';
import {
  type AlertLimits,
  changeDue,
  type DestinationReport,
  evaluateHealth,
  HealthCounts,
  type HealthIncrement,
  HealthRounds,
  HealthTally,
  type Streak,
  streakAfter,
} from './health.ts';

const HOUR = 3_600_000;
const LIMITS: AlertLimits = {
  badAfterMs: 120_000,
  wellAfterMs: 30_000,
  everyMs: HOUR,
  waitingMs: 60_000,
};

const NOW = Date.parse('2026-01-01T00:01:00Z');
const DOWN = { outcome: 'retry', reason: 'HTTP 503', status: 503 } as const;

describe('HealthTally', () => {
  it('counts the last minute, and keeps the last errors and the last success for longer', () => {
    const tally = new HealthTally(0, new HealthCounts());
    tally.attempted({ outcome: 'delivered' }, 5, NOW, 1_000);
    tally.noteNotAttempted(2_000);
    for (let n = 0; n < 8; n++) tally.attempted({ ...DOWN, reason: `no ${n}` }, 5, NOW + n, 30_000);
    expect(tally.tallied(40_000)).toMatchObject({ window_ms: 40_000, delivered: 1, retry: 8, put_off: 1 });
    const later = tally.tallied(70_000);
    expect(later).toMatchObject({ window_ms: 60_000, delivered: 0, put_off: 0, retry: 8 });
    expect(later.last_delivered_at).toBe(NOW);
    expect(later.last_errors.map(({ reason }) => reason)).toEqual(['no 7', 'no 6', 'no 5', 'no 4', 'no 3']);
    expect(tally.tallied(200_000)).toMatchObject({
      retry: 0,
      latency: [],
      recent: { delivered: 1, failed: 8, throttled: 0 },
    });
    expect(tally.tallied(400_000).recent).toEqual({ delivered: 0, failed: 0, throttled: 0 });
  });

  it('counts refusals for the rate apart from failures, and over time as deliveries that were put off', () => {
    const counts = new HealthCounts();
    const tally = new HealthTally(0, counts);
    tally.attempted({ outcome: 'retry', reason: 'HTTP 429', throttled: true }, 5, NOW, 1_000, 3);
    expect(tally.tallied(2_000)).toMatchObject({ retry: 0, throttled: 3, put_off: 0, latency: [] });
    expect(counts.take()).toMatchObject({ retry: 0, put_off: 3, latency: [] });
  });

  it('divides by no time at all', () => {
    expect(new HealthTally(5, new HealthCounts()).tallied(5).window_ms).toBe(1);
  });
});

const REPORTED_AT = 1_000_000;

const reportOf = (id: string, fields: Partial<DestinationReport> = {}) =>
  quietReport(id, {
    at: REPORTED_AT,
    delivered: 5,
    waiting: 1,
    oldest_waiting_at: REPORTED_AT - 2_000,
    ...fields,
  });

function setUpReports(shared: Map<string, HealthReport> = new Map()) {
  const gauges = new Map<string, number>();
  const warned: string[] = [];
  const state = { down: false, now: REPORTED_AT };
  const recorded: HealthSample[] = [];
  const counted = new Map<string, HealthIncrement>();
  const board: HealthBoard = {
    async report(reports) {
      if (state.down) throw new Unavailable('down');
      for (const report of reports) shared.set(`${report.destination_id} ${report.process}`, report);
    },
    read: async (_workspace, ids) => [...shared.values()].filter((one) => ids?.includes(one.destination_id)),
    async record(samples) {
      if (state.down) throw new Unavailable('down');
      recorded.push(...samples);
    },
    history: async () => [],
    async close() {},
  };
  const reporterOf = (process: string, reports: () => readonly DestinationReport[] = () => []) =>
    new HealthRounds(
      {
        healthBoard: board,
        catalog: {
          state: {
            // Its limits are shared by all processes.
            destination: (id) => (id === 'gone' ? undefined : { ...DESTINATION, max_concurrency: 3 }),
          },
          propose: () => Promise.reject(new Error('nothing changes')),
        },
        condition: LIMITS,
        elapsed: () => state.now,
        clock: () => state.now,
        metrics: {
          ...NO_METRICS,
          gauge: (name: string, value: number, labels: Labels = {}) =>
            void gauges.set([name, ...Object.values(labels)].join(' '), value),
          removeGauge: (name: string, labels: Labels) =>
            void gauges.delete([name, ...Object.values(labels)].join(' ')),
        },
        logger: { ...NO_LOGGER, warn: (_about: object, message: string) => void warned.push(message) },
      },
      {
        health: reports,
        takeCounts: () => {
          const taken = new Map(counted);
          counted.clear();
          return taken;
        },
      },
      process,
    );
  return { gauges, shared, state, warned, recorded, counted, reporterOf };
}

it('processes that deliver to one destination share its limits, and leave them to the others when they end', async () => {
  const { shared, reporterOf } = setUpReports();
  const [one, other] = [reporterOf('p1'), reporterOf('p2')];
  expect(one.processesOf('a')).toBe(1);
  await one.round([reportOf('a')]);
  await other.round([reportOf('a')]);
  await one.round([reportOf('a')]);
  expect([one.processesOf('a'), other.processesOf('a')]).toEqual([2, 2]);
  const limits = { max_concurrency: 3, rate_limit_per_second: 5 };
  expect(requestLimits(limits, { maxConcurrency: 16, perSecond: undefined }, 2)).toEqual({
    maxConcurrency: 1,
    perSecond: 2.5,
  });
  const last = shared.get('a p2');
  if (last !== undefined) shared.set('a p2', { ...last, at: REPORTED_AT - 16_000 });
  await one.round([reportOf('a')]);
  expect(one.processesOf('a')).toBe(1);
});

it('has figures of the first hundred destinations under their own names, and of the others together', async () => {
  const { gauges, reporterOf } = setUpReports();
  await reporterOf('p1').round(Array.from({ length: 150 }, (_, n) => reportOf(`d${n}`)));
  expect(gauges.get('tributary_destination_deliveries_pending d99')).toBe(1);
  expect(gauges.get('tributary_destination_deliveries_pending other')).toBe(50);
  expect(gauges.get('tributary_destination_oldest_pending_seconds other')).toBe(2);
  const names = [...gauges.keys()].filter((key) =>
    key.startsWith('tributary_destination_deliveries_pending '),
  );
  expect(names).toHaveLength(101);
});

it('the metrics of a forgotten destination stayed for good: they end, and its name is free', async () => {
  const { gauges, reporterOf } = setUpReports();
  const reporter = reporterOf('p1');
  await reporter.round([
    reportOf('down', { circuit: 'open' }),
    ...Array.from({ length: 100 }, (_, n) => reportOf(`d${n}`)),
  ]);
  expect(gauges.get('tributary_destination_circuits_open down')).toBe(1);
  expect(gauges.get('tributary_destination_deliveries_pending other')).toBe(1);
  await reporter.round([reportOf('d99')]);
  expect(gauges.get('tributary_destination_deliveries_pending d99')).toBe(1);
  expect(new Set([...gauges.keys()].map((key) => key.split(' ')[1]))).toEqual(new Set(['d99']));
  await reporter.round([]);
  expect([...gauges.keys()]).toEqual([]);
});

it('logs once that a board is down, and publishes nothing about deleted destinations', async () => {
  const { state, warned, shared, reporterOf } = setUpReports();
  state.down = true;
  const reporter = reporterOf('p1');
  await reporter.round([reportOf('a')]);
  await reporter.round([reportOf('a')]);
  expect(warned).toHaveLength(1);
  state.down = false;
  await reporter.round([reportOf('a'), reportOf('gone')]);
  expect([...shared.keys()]).toEqual(['a p1']);
});

it('the failures of the current minute were missing in the history: each report adds what was counted since the last', async () => {
  const { state, recorded, counted, reporterOf } = setUpReports();
  const reporter = reporterOf('p1');
  const minute = Math.floor(REPORTED_AT / 60_000) * 60_000;
  const round = async (at: number, counts: Partial<HealthIncrement>, fields: Partial<DestinationReport>) => {
    state.now = at;
    counted.set('a', { delivered: 0, retry: 0, dead: 0, put_off: 0, latency: [], ...counts });
    await reporter.round([reportOf('a', { at, waiting: 0, oldest_waiting_at: null, ...fields })]);
  };
  await round(minute + 5_000, { delivered: 3, latency: [[4, 3]] }, { waiting: 9, oldest_waiting_at: minute });
  await round(minute + 10_000, { dead: 2, latency: [[9, 2]] }, { circuit: 'open' });
  const about = { workspace_id: 'w1', destination_id: 'a' };
  const none = { delivered: 0, retry: 0, dead: 0, put_off: 0, waiting: 0, oldest_waiting_ms: 0 };
  const first = { delivered: 3, latency: [[4, 3]], waiting: 9, oldest_waiting_ms: 5_000, circuit: 'closed' };
  expect(recorded).toEqual([
    { ...about, ...none, ...first, at: minute },
    { ...about, ...none, dead: 2, latency: [[9, 2]], circuit: 'open', at: minute },
  ]);
  state.down = true;
  await round(minute + 15_000, { delivered: 1 }, {});
  state.down = false;
  await round(minute + 65_000, {}, {});
  // What the board did not take is not recorded again, and a quiet round is not recorded at all.
  expect(recorded).toHaveLength(2);
});

it('a destination added between reports was never reported', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const { shared, reporterOf } = setUpReports();
  const known: DestinationReport[] = [];
  const reporter = reporterOf('p1', () => [...known]);
  reporter.begin();
  vi.advanceTimersToNextTimer();
  known.push(reportOf('late'));
  reporter.begin(); // nothing is reported now, and no timer is set
  await vi.advanceTimersByTimeAsync(60_000);
  expect([...shared.keys()]).toEqual(['late p1']);
});

const SHORT_LIMITS = { badAfterMs: 10_000, wellAfterMs: 3_000, everyMs: 3_600_000, waitingMs: 60_000 };
const from = { address: '', request_id: '' };
const at = '2026-01-01T00:00:00.000Z';

/** Processes that deliver to the destination `d`, with one catalog and one board. */
function setUpAlerts(fields: { readonly enabled?: boolean; readonly paused?: boolean } = {}) {
  const time = { now: 1_000_000 };
  const state = new CatalogState();
  const facts: Fact[] = [];
  const away = { catalog: false, board: false, 'writes of the board': false };
  const board = new Map<string, HealthReport>();
  const warned: string[] = [];
  const add = (fact: Fact): Verdict => {
    facts.push(fact);
    return applyFact(state, fact, facts.length - 1);
  };
  const workspace = { id: 'w', name: 'w', organization_id: 'o', region: 'eu', status: 'active' } as const;
  const organization = { id: 'o', name: 'o', regions: ['eu'], notification_email: null };
  add({ v: 1, type: 'workspace.created', entity: 'w', data: { workspace, organization }, by: 'a', from, at });
  const settled = { enabled: true, paused: false, ...fields };
  const destination = { id: 'd', workspace_id: 'w', name: 'd', type: 't', settings: {}, created_by: 'a' };
  add({
    v: 1,
    type: 'destination.created',
    entity: 'd',
    data: { ...destination, ...settled },
    by: 'a',
    from,
    at,
  });

  const processOf = (process: string) => {
    const watch = new HealthRounds(
      {
        catalog: {
          state,
          async propose(fact) {
            if (away.catalog) throw new Unavailable('away');
            return add(fact);
          },
        },
        healthBoard: {
          async report(reports) {
            if (away.board || away['writes of the board']) throw new Unavailable('away');
            for (const report of reports) board.set(process, report);
          },
          record: async () => {},
          async read() {
            if (away.board) throw new Unavailable('away');
            return [...board.values()];
          },
        },
        condition: SHORT_LIMITS,
        clock: () => time.now,
        elapsed: () => time.now,
        logger: { ...NO_LOGGER, warn: (_fields, message) => void warned.push(message) },
        metrics: NO_METRICS,
      },
      { health: () => [], takeCounts: () => new Map() },
      process,
    );
    return {
      evaluate(report: Partial<DestinationReport>) {
        return watch.round([reportAt(time.now, report)]);
      },
    };
  };
  return {
    processOf,
    away,
    warned,
    pass: (ms: number) => {
      time.now += ms;
    },
    turns: () => facts.flatMap((fact) => (fact.type === 'destination.turned' ? [fact.data.state] : [])),
    lastTurn: () => facts.findLast((fact) => fact.type === 'destination.turned'),
    condition: () => state.destination('d')?.condition,
  };
}

const reportAt = (now: number, fields: Partial<DestinationReport>) =>
  quietReport('d', { at: now, ...fields });

const FAILING = {
  retry: 5,
  last_errors: [{ at: 0, outcome: 'retry', reason: 'answered 503', status: 503 }],
} as const;
const FINE = { delivered: 5 };

describe('a destination', () => {
  it('turns bad when it did badly for long enough, and well likewise, each once', async () => {
    const { processOf, pass, turns, lastTurn } = setUpAlerts();
    const { evaluate } = processOf('one');
    await evaluate(FAILING);
    pass(9_999);
    await evaluate(FAILING);
    expect(turns()).toEqual([]);
    pass(1);
    await evaluate(FAILING);
    expect(lastTurn()?.data).toMatchObject({
      state: 'bad',
      because: 'failing',
      since: new Date(1_000_000).toISOString(),
      failed_per_second: 5,
      last_errors: [{ reason: 'answered 503', status: 503 }],
    });
    pass(60_000);
    await evaluate(FAILING);
    await evaluate(FINE);
    pass(3_000);
    await evaluate(FINE);
    await evaluate(FINE);
    expect(turns()).toEqual(['bad', 'well']);
  });

  it('that succeeded in between starts again', async () => {
    const { processOf, pass, turns } = setUpAlerts();
    const { evaluate } = processOf('one');
    await evaluate(FAILING);
    pass(9_000);
    await evaluate(FINE);
    await evaluate(FAILING);
    pass(9_000);
    await evaluate(FAILING);
    expect(turns()).toEqual([]);
  });

  it('that two processes report as bad at the same time changes its health once', async () => {
    const { processOf, pass, turns, condition } = setUpAlerts();
    const [one, two] = [processOf('one'), processOf('two')];
    await Promise.all([one.evaluate(FAILING), two.evaluate(FAILING)]);
    pass(10_000);
    await Promise.all([one.evaluate(FAILING), two.evaluate(FAILING)]);
    expect(condition()?.turns).toBe(1);
    pass(1_000);
    await Promise.all([one.evaluate(FAILING), two.evaluate(FAILING)]);
    expect(condition()?.turns).toBe(1);
    expect(new Set(turns())).toEqual(new Set(['bad']));
  });

  it('that most processes deliver to is not bad because one of them cannot', async () => {
    const { processOf, pass, turns } = setUpAlerts();
    const [one, two] = [processOf('one'), processOf('two')];
    for (const _ of [1, 2, 3]) {
      await two.evaluate({ delivered: 50 });
      await one.evaluate(FAILING);
      pass(6_000);
    }
    expect(turns()).toEqual([]);
  });

  it('stays bad while another live process reports failures; reports of a stopped process do not count', async () => {
    const { processOf, pass, turns } = setUpAlerts();
    const [one, two] = [processOf('one'), processOf('two')];
    await one.evaluate(FAILING);
    pass(10_000);
    await one.evaluate(FAILING);
    await one.evaluate({ retry: 50 });
    for (const _ of [1, 2]) {
      await two.evaluate(FINE);
      pass(4_000);
    }
    expect(turns()).toEqual(['bad']);
    pass(20_000);
    await two.evaluate(FINE);
    pass(3_000);
    await two.evaluate(FINE);
    expect(turns()).toEqual(['bad', 'well']);
  });

  it.each([[{ enabled: false }], [{ paused: true }]])(
    'that gets nothing is not judged: %j',
    async (fields) => {
      const { processOf, pass, turns } = setUpAlerts(fields);
      const { evaluate } = processOf('one');
      await evaluate(FAILING);
      pass(20_000);
      await evaluate(FAILING);
      expect(turns()).toEqual([]);
    },
  );
});

describe('an engine that is away', () => {
  it.each(['catalog', 'board'] as const)(
    '%s: logged once, and the findings are proposed later',
    async (engine) => {
      const { processOf, pass, turns, away, warned } = setUpAlerts();
      const { evaluate } = processOf('one');
      await evaluate(FAILING);
      away[engine] = true;
      pass(10_000);
      await evaluate(FAILING);
      await evaluate(FAILING);
      expect(turns()).toEqual([]);
      expect(warned).toEqual(['the health of destinations cannot be reported or evaluated']);
      away[engine] = false;
      pass(1_000);
      await evaluate(FAILING);
      expect(turns()).toEqual(['bad']);
    },
  );

  it('board that takes no writes: the findings are proposed all the same', async () => {
    const { processOf, pass, turns, away, warned } = setUpAlerts();
    const { evaluate } = processOf('one');
    away['writes of the board'] = true;
    await evaluate(FAILING);
    pass(10_000);
    await evaluate(FAILING);
    expect(turns()).toEqual(['bad']);
    expect(warned).toHaveLength(2);
  });
});

const health = (fields: Partial<DestinationHealth> = {}): DestinationHealth => ({
  at: 0,
  processes: 1,
  delivered_per_second: 1,
  failed_per_second: 0,
  throttled_per_second: 0,
  put_off_per_second: 0,
  pace_per_second: null,
  p50_ms: null,
  p99_ms: null,
  waiting: 0,
  under_way: 0,
  oldest_waiting_ms: null,
  circuit: 'closed',
  circuit_since: 0,
  last_delivered_at: null,
  last_errors: [],
  recent: { delivered: 60, failed: 0, throttled: 0 },
  loaded_until: null,
  ...fields,
});
const evaluated = (fields: Partial<DestinationHealth>) => evaluateHealth(health(fields), LIMITS);

describe('an evaluation of a destination', () => {
  it.each([
    ['circuit_open', { circuit: 'open' }],
    ['failing', { failed_per_second: 1.01 }],
    ['failing', { delivered_per_second: 0, failed_per_second: 0.02 }],
    ['rate_limited', { throttled_per_second: 1.01 }],
    ['rate_limited', { delivered_per_second: 0, throttled_per_second: 0.02 }],
    ['waiting', { oldest_waiting_ms: 60_001 }],
    ['behind', { put_off_per_second: 1.5 }],
  ] as const)('finds it bad: %s', (because, fields) => {
    expect(evaluated(fields)).toEqual({ kind: 'bad', because });
  });

  it.each([
    ['it delivers', {}],
    ['some fail, most arrive', { failed_per_second: 0.9 }],
    ['something waits, not for long', { oldest_waiting_ms: 60_000 }],
  ] as const)('finds it well: %s', (_why, fields) => {
    expect(evaluated(fields)).toEqual({ kind: 'well' });
  });

  it.each([
    ['it rests', { delivered_per_second: 0 }],
    ['half of it fails', { failed_per_second: 1 }],
    ['a probe is under way', { circuit: 'half-open' }],
  ] as const)('reports nothing: %s', (_why, fields) => {
    expect(evaluated(fields)).toEqual({ kind: 'unknown' });
  });
});

const BAD = { kind: 'bad', because: 'failing' } as const;
const WELL = { kind: 'well' } as const;
const UNKNOWN = { kind: 'unknown' } as const;

describe('evaluations with the same result', () => {
  it('are one streak, which an unknown result neither ends nor extends', () => {
    const first = streakAfter(undefined, BAD, 10);
    expect(streakAfter(first, UNKNOWN, 500)).toBe(first);
    const later = streakAfter(first, { kind: 'bad', because: 'circuit_open' }, 900);
    expect(later).toEqual({ state: 'bad', because: 'circuit_open', since: 10, lastAt: 900 });
    expect(streakAfter(later, WELL, 1_000)).toEqual({
      state: 'well',
      because: null,
      since: 1_000,
      lastAt: 1_000,
    });
    expect(streakAfter(undefined, UNKNOWN, 1)).toBeUndefined();
  });
});

describe('a change of health', () => {
  const bad = (forMs: number): Streak => ({ state: 'bad', because: 'failing', since: 0, lastAt: forMs });
  const well = (forMs: number): Streak => ({ state: 'well', because: null, since: 0, lastAt: forMs });

  it('is due when the result was the same for long enough', () => {
    expect(changeDue(undefined, bad(119_999), 0, LIMITS)).toBeUndefined();
    expect(changeDue(undefined, bad(120_000), 5, LIMITS)).toEqual({ pacedUntil: 5 + HOUR });
    const reported: ReportedCondition = { state: 'bad', pacedUntil: HOUR };
    expect(changeDue(reported, well(29_999), 0, LIMITS)).toBeUndefined();
    expect(changeDue(reported, well(30_000), 0, LIMITS)).toEqual({ pacedUntil: 2 * HOUR });
  });

  it('is not due if it was already reported', () => {
    expect(changeDue(undefined, well(HOUR), 0, LIMITS)).toBeUndefined();
    expect(changeDue({ state: 'bad', pacedUntil: 0 }, bad(HOUR), 0, LIMITS)).toBeUndefined();
  });

  it('is delayed after two reports within the interval of one, and is due again after it', () => {
    const reported: ReportedCondition = { state: 'well', pacedUntil: 2 * HOUR };
    expect(changeDue(reported, bad(HOUR), HOUR - 1, LIMITS)).toBeUndefined();
    expect(changeDue(reported, bad(HOUR), HOUR, LIMITS)).toEqual({ pacedUntil: 3 * HOUR });
  });

  it('is reported at most once an hour, and one more time, if the destination flaps', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: 1_000, max: HOUR }), fc.constantFrom(BAD, WELL, UNKNOWN)), {
          maxLength: 200,
        }),
        (evaluations) => {
          let now = 0;
          let streak: Streak | undefined;
          let reported: ReportedCondition | undefined;
          const at: number[] = [];
          for (const [passed, evaluation] of evaluations) {
            now += passed;
            streak = streakAfter(streak, evaluation, now);
            const due = streak && changeDue(reported, streak, now, LIMITS);
            if (streak === undefined || due === undefined) continue;
            expect(streak.state).not.toBe(reported?.state ?? 'well');
            reported = { state: streak.state, ...due };
            at.push(now);
          }
          for (const [index, time] of at.entries()) {
            const within = at.filter((other) => other >= time && other < time + 10 * HOUR).length;
            expect(within, `from turn ${index} on`).toBeLessThanOrEqual(11);
          }
        },
      ),
    );
  });
});
