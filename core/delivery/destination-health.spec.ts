import { describe, expect, it } from 'vitest';
import {
  addLatencies,
  type HealthReport,
  latencyBucket,
  latencyPercentile,
  mergeHealth,
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
