import { describe, expect, it } from 'vitest';
import {
  addLatencies,
  failedShare,
  type HealthReport,
  latencyBucket,
  latencyPercentile,
  mergeHealth,
  presentState,
} from './destination-health.ts';

const NOW = Date.parse('2026-01-01T00:01:00Z');

function report(fields: Partial<HealthReport> = {}): HealthReport {
  return {
    workspace_id: 'w1',
    destination_id: 'place',
    process: 'p1',
    at: NOW,
    window_ms: 60_000,
    delivered: 0,
    retry: 0,
    dead: 0,
    put_off: 0,
    latency: [],
    waiting: 0,
    under_way: 0,
    oldest_waiting_at: null,
    circuit: 'closed',
    circuit_since: NOW - 1_000,
    last_delivered_at: null,
    last_errors: [],
    ...fields,
  };
}

describe('latencies', () => {
  it.each([1, 7, 80, 450, 2_000, 10_000, 300_000])(
    'a percentile of %d ms is off by an eighth at most',
    (ms) => {
      const found = latencyPercentile([[latencyBucket(ms), 10]], 0.99) ?? 0;
      expect(Math.abs(found - ms) / ms).toBeLessThanOrEqual(0.13);
    },
  );

  it('of several processes are added up', () => {
    const [quick, slow] = [latencyBucket(5), latencyBucket(1_000)];
    const counts = addLatencies([
      [[quick, 50]],
      [
        [quick, 48],
        [slow, 2],
      ],
    ]);
    expect(latencyPercentile(counts, 0.5)).toBeLessThan(10);
    expect(latencyPercentile(counts, 0.99)).toBeGreaterThan(800);
    expect(latencyPercentile([], 0.5)).toBeUndefined();
  });
});

describe('mergeHealth', () => {
  it('is empty where no process reports', () => {
    expect(mergeHealth([])).toBeUndefined();
  });

  it('adds rates up, and reports the worst of values that cannot be added', () => {
    const errors = [1, 2, 3].map((n) => ({ at: NOW - n, outcome: 'retry', reason: `e${n}` }) as const);
    const one = report({
      delivered: 60,
      retry: 30,
      last_errors: errors,
      oldest_waiting_at: NOW - 500,
      waiting: 3,
    });
    const other = report({
      process: 'p2',
      at: NOW + 10,
      window_ms: 10_000,
      delivered: 100,
      dead: 10,
      circuit: 'open',
      circuit_since: NOW - 9_000,
      last_errors: errors,
      last_delivered_at: NOW - 7,
      under_way: 2,
    });
    const merged = mergeHealth([one, other]);
    expect(merged).toEqual(mergeHealth([other, one]));
    expect(merged).toMatchObject({
      at: NOW + 10,
      processes: 2,
      delivered_per_second: 11,
      failed_per_second: 1.5,
      waiting: 3,
      under_way: 2,
      oldest_waiting_ms: 500,
      circuit: 'open',
      circuit_since: NOW - 9_000,
      last_delivered_at: NOW - 7,
      p50_ms: null,
    });
    expect(merged?.last_errors.map(({ reason }) => reason)).toEqual(['e1', 'e1', 'e2', 'e2', 'e3']);
  });
});

describe('the present state', () => {
  const none = { delivered: 0, failed: 0, throttled: 0 };
  const stateOf = (fields: Partial<HealthReport>, retrying = 0) =>
    presentState({ enabled: true }, mergeHealth([report(fields)]), retrying);

  it.each([
    ['a destination that refuses everything was healthy for minutes', 'failing', { dead: 1 }, 0],
    ['every attempt is to be repeated', 'failing', { retry: 4 }, 4],
    ['after a minute without an attempt', 'failing', { recent: { ...none, failed: 4 } }, 4],
    ['some of the attempts fail', 'failing', { delivered: 97, dead: 1, retry: 2 }, 2],
    ['its circuit is open', 'failing', { circuit: 'open', delivered: 5 }, 0],
    ['it refuses one event of a thousand', 'healthy', { delivered: 999, dead: 1 }, 0],
    ['it recovered within the last minute', 'healthy', { delivered: 1, recent: { ...none, failed: 9 } }, 8],
    ['it recovered, and has little traffic', 'healthy', { recent: { ...none, delivered: 3 } }, 0],
    ['all wait for an attempt in an hour', 'retrying', {}, 4],
    ['it asks to wait', 'retrying', { throttled: 1 }, 1],
    ['it refuses most for their rate', 'retrying', { throttled: 9, delivered: 4 }, 0],
    ['it refuses some for their rate', 'healthy', { throttled: 3, delivered: 4 }, 3],
    ['one waits for minutes', 'behind', { delivered: 60, waiting: 1, oldest_waiting_at: NOW - 61_000 }, 0],
    ['it receives less than comes', 'behind', { delivered: 60, put_off: 61 }, 0],
    ['the first request takes long', 'behind', { under_way: 1 }, 0],
    ['at rest', 'no_traffic', {}, 0],
  ] as const)('%s: %s', (_when, state, fields, retrying) => {
    expect(stateOf(fields, retrying)).toBe(state);
  });

  it('without a report, or switched off, no figure counts', () => {
    const failing = mergeHealth([report({ dead: 9 })]);
    expect(presentState({ enabled: true, paused: true }, failing, 9)).toBe('paused');
    expect(presentState({ enabled: false, paused: true }, failing, 9)).toBe('disabled');
    expect(presentState({ enabled: true }, undefined, 0)).toBe('no_traffic');
    expect(presentState({ enabled: true }, undefined, 1)).toBe('retrying');
  });

  it('the share that failed is of all processes, and of none of the attempts without any', () => {
    const merged = mergeHealth([report({ delivered: 6 }), report({ process: 'p2', retry: 1, dead: 1 })]);
    expect(merged && failedShare(merged)).toBe(0.25);
    const quiet = mergeHealth([report({ throttled: 3 })]);
    expect(quiet && failedShare(quiet)).toBeNull();
  });
});
