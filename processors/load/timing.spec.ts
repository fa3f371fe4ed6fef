import { describe, expect, it } from 'vitest';
import { loadWaitMs, type Timing } from './loader.ts';

const timing = (fields: Partial<Timing>): Timing => ({
  everyMs: 60_000,
  beganAt: 1_000,
  isRequested: false,
  hasMore: false,
  isBackfilling: false,
  failures: 0,
  failedAt: 0,
  ...fields,
});

describe('the next load', () => {
  it.each<[string, Partial<Timing>, number]>([
    ['is an interval after the last one began', {}, 51_000],
    ['is due at once on taking over', { beganAt: undefined }, 0],
    ['is due at once when it was asked for, also while loads fail', { isRequested: true, failures: 9 }, 0],
    ['is due at once after a batch that was full', { hasMore: true }, 0],
    ['comes soon while a backfill goes on', { beganAt: 9_900, isBackfilling: true }, 900],
    ['comes soon after the first failure', { failures: 1, failedAt: 9_000 }, 1_000],
    ['waits longer after each further failure', { failures: 3, failedAt: 9_000, hasMore: true }, 7_000],
    ['waits an interval at most', { failures: 30, failedAt: 10_000 }, 60_000],
  ])('%s', (_text, fields, waitMs) => {
    expect(loadWaitMs(timing(fields), 10_000)).toBe(waitMs);
  });
});
