import {
  type HealthBoard,
  type HealthReport,
  type HealthSample,
  type Labels,
  NO_LOGGER,
  NO_METRICS,
  Unavailable,
} from '@tributary/core';
import { expect, it, onTestFinished, vi } from 'vitest';
import { quietReport } from '../deliveries.fixture.ts';
import { requestLimits } from '../policy/admission.ts';
import { type DestinationReport, HealthReporter } from './reporter.ts';
import type { HealthIncrement } from './tally.ts';

const NOW = 1_000_000;

const reportOf = (id: string, fields: Partial<DestinationReport> = {}) =>
  quietReport(id, { at: NOW, delivered: 5, waiting: 1, oldest_waiting_at: NOW - 2_000, ...fields });

function setUp(shared: Map<string, HealthReport> = new Map()) {
  const gauges = new Map<string, number>();
  const warned: string[] = [];
  const state = { down: false, now: NOW };
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
    new HealthReporter(
      {
        healthBoard: board,
        process,
        clock: () => state.now,
        metrics: {
          ...NO_METRICS,
          gauge: (name: string, value: number, labels: Labels = {}) =>
            void gauges.set([name, ...Object.values(labels)].join(' '), value),
          removeGauge: (name: string, labels: Labels) =>
            void gauges.delete([name, ...Object.values(labels)].join(' ')),
        },
        logger: { ...NO_LOGGER, warn: (_about: object, message: string) => void warned.push(message) },
        workspaceOf: (id) => (id === 'gone' ? undefined : 'w1'),
        isShared: () => true,
        takeCounts: () => {
          const taken = new Map(counted);
          counted.clear();
          return taken;
        },
      },
      reports,
    );
  return { gauges, shared, state, warned, recorded, counted, reporterOf };
}

it('processes that deliver to one destination share its limits, and leave them to the others when they end', async () => {
  const { shared, reporterOf } = setUp();
  const [one, other] = [reporterOf('p1'), reporterOf('p2')];
  expect(one.processesOf('a')).toBe(1);
  await one.report([reportOf('a')]);
  await other.report([reportOf('a')]);
  await one.report([reportOf('a')]);
  expect([one.processesOf('a'), other.processesOf('a')]).toEqual([2, 2]);
  const limits = { max_concurrency: 3, rate_limit_per_second: 5 };
  expect(requestLimits(limits, { maxConcurrency: 16, perSecond: undefined }, 2)).toEqual({
    maxConcurrency: 1,
    perSecond: 2.5,
  });
  const last = shared.get('a p2');
  if (last !== undefined) shared.set('a p2', { ...last, at: NOW - 16_000 });
  await one.report([reportOf('a')]);
  expect(one.processesOf('a')).toBe(1);
});

it('has figures of the first hundred destinations under their own names, and of the others together', async () => {
  const { gauges, reporterOf } = setUp();
  await reporterOf('p1').report(Array.from({ length: 150 }, (_, n) => reportOf(`d${n}`)));
  expect(gauges.get('tributary_destination_deliveries_pending d99')).toBe(1);
  expect(gauges.get('tributary_destination_deliveries_pending other')).toBe(50);
  expect(gauges.get('tributary_destination_oldest_pending_seconds other')).toBe(2);
  const names = [...gauges.keys()].filter((key) =>
    key.startsWith('tributary_destination_deliveries_pending '),
  );
  expect(names).toHaveLength(101);
});

it('the metrics of a forgotten destination stayed for good: they end, and its name is free', async () => {
  const { gauges, reporterOf } = setUp();
  const reporter = reporterOf('p1');
  await reporter.report([
    reportOf('down', { circuit: 'open' }),
    ...Array.from({ length: 100 }, (_, n) => reportOf(`d${n}`)),
  ]);
  expect(gauges.get('tributary_destination_circuits_open down')).toBe(1);
  expect(gauges.get('tributary_destination_deliveries_pending other')).toBe(1);
  await reporter.report([reportOf('d99')]);
  expect(gauges.get('tributary_destination_deliveries_pending d99')).toBe(1);
  expect(new Set([...gauges.keys()].map((key) => key.split(' ')[1]))).toEqual(new Set(['d99']));
  await reporter.report([]);
  expect([...gauges.keys()]).toEqual([]);
});

it('logs once that a board is down, and publishes nothing about deleted destinations', async () => {
  const { state, warned, shared, reporterOf } = setUp();
  state.down = true;
  const reporter = reporterOf('p1');
  await reporter.report([reportOf('a')]);
  await reporter.report([reportOf('a')]);
  expect(warned).toHaveLength(1);
  state.down = false;
  await reporter.report([reportOf('a'), reportOf('gone')]);
  expect([...shared.keys()]).toEqual(['a p1']);
});

it('the failures of the current minute were missing in the history: each report adds what was counted since the last', async () => {
  const { state, recorded, counted, reporterOf } = setUp();
  const reporter = reporterOf('p1');
  const minute = Math.floor(NOW / 60_000) * 60_000;
  const round = async (at: number, counts: Partial<HealthIncrement>, fields: Partial<DestinationReport>) => {
    state.now = at;
    counted.set('a', { delivered: 0, retry: 0, dead: 0, put_off: 0, latency: [], ...counts });
    await reporter.report([reportOf('a', { at, waiting: 0, oldest_waiting_at: null, ...fields })]);
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
  const { shared, reporterOf } = setUp();
  const known: DestinationReport[] = [];
  const reporter = reporterOf('p1', () => [...known]);
  reporter.begin();
  vi.advanceTimersToNextTimer();
  known.push(reportOf('late'));
  reporter.begin(); // nothing is reported now, and no timer is set
  await vi.advanceTimersByTimeAsync(60_000);
  expect([...shared.keys()]).toEqual(['late p1']);
});
