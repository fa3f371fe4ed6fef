import { describe, expect, it } from 'vitest';
import { DEFAULT_LIMITS, limitsFor } from './limits.ts';

describe('limitsFor', () => {
  it('returns the default limits for the default settings', () => {
    expect(limitsFor({ eventMs: 100, isolateMb: 64 })).toEqual(DEFAULT_LIMITS);
  });

  it.each([
    [10, 16],
    [1_000, 512],
  ])(
    'stops what is stuck later than what is slow, and keeps an isolate below its process: %s ms, %s MB',
    (eventMs, isolateMb) => {
      const limits = limitsFor({ eventMs, isolateMb });
      expect(limits.watchdogMs).toBeGreaterThan(2 * limits.eventMs);
      expect(limits.recycleAboveMb).toBeLessThan(limits.isolateMb);
      expect(limits.maxIsolatesMb + limits.isolateMb).toBeLessThan(limits.processMb);
      expect(limits.processMb).toBeGreaterThan(256);
    },
  );
});
