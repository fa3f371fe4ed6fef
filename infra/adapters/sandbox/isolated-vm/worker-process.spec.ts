import { describe, expect, it } from 'vitest';
import { DEFAULT_LIMITS, limitsFor } from './limits.ts';
import { hasUsedItsTime } from './worker-process.ts';

describe('A silent worker', () => {
  it('is not blamed for the processor time of an isolate made on a busy machine', () => {
    expect(hasUsedItsTime(DEFAULT_LIMITS.eventMs + 30, DEFAULT_LIMITS)).toBe(false);
    const shortest = limitsFor({ eventMs: 10, isolateMib: 16 });
    expect(hasUsedItsTime(shortest.eventMs + 20, shortest)).toBe(false);
  });

  it('is stuck once it has used the time of the watchdog', () => {
    expect(hasUsedItsTime(DEFAULT_LIMITS.watchdogMs - 1, DEFAULT_LIMITS)).toBe(false);
    expect(hasUsedItsTime(DEFAULT_LIMITS.watchdogMs, DEFAULT_LIMITS)).toBe(true);
  });
});
