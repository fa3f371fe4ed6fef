import { describe, expect, it } from 'vitest';
import { DEFAULT_LIMITS, limitsFor } from './limits.ts';

describe('limitsFor', () => {
  it('returns the default limits for the default settings', () => {
    expect(limitsFor({ eventMs: 100, isolateMib: 64 })).toEqual(DEFAULT_LIMITS);
  });

  it.each([
    [10, 16],
    [1_000, 512],
  ])(
    'stops a stuck run later than a slow one, and keeps an isolate below its process: %s ms, %s MB',
    (eventMs, isolateMib) => {
      const limits = limitsFor({ eventMs, isolateMib });
      expect(limits.watchdogMs).toBeGreaterThan(2 * limits.eventMs);
      expect(limits.recycleAboveMib).toBeLessThan(limits.isolateMib);
      expect(limits.maxIsolatesMib + limits.isolateMib).toBeLessThan(limits.processMib);
      expect(limits.processMib).toBeGreaterThan(256);
    },
  );
});
