import { describe, expect, it } from 'vitest';
import { HealthCounts, HealthTally } from './tally.ts';

const NOW = Date.parse('2026-01-01T00:01:00Z');
const DOWN = { outcome: 'retry', reason: 'HTTP 503', status: 503 } as const;

describe('HealthTally', () => {
  it('counts the last minute, and keeps the last errors and the last success for longer', () => {
    const tally = new HealthTally(0);
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
    expect(new HealthTally(5).tallied(5).window_ms).toBe(1);
  });
});
