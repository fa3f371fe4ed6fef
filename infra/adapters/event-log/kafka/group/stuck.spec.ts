import { describe, expect, it } from 'vitest';
import { isStuck } from './stuck.ts';

const LONG_MS = 30_000;

describe('a partition is stuck', () => {
  it('when it waits for long for what is there', () => {
    expect(isStuck({ at: 9, ms: LONG_MS }, 10)).toBe(true);
  });

  it('not while it waits for a moment', () => {
    expect(isStuck({ at: 9, ms: LONG_MS - 1 }, 10)).toBe(false);
  });

  it('not while its stage is busy', () => {
    expect(isStuck(undefined, 10)).toBe(false);
  });

  // Judged by its lag it was begun anew every half minute, and the slow entry handed over again and again.
  it('not at the end, although a slow entry holds the position back', () => {
    expect(isStuck({ at: 10, ms: 10 * LONG_MS }, 10)).toBe(false);
  });
});
