import { describe, expect, it } from 'vitest';
import { backoffMs } from './backoff.ts';

describe('backoff', () => {
  it('doubles up to its cap, however often', () => {
    const options = { firstMs: 50, capMs: 5_000 };
    expect([0, 1, 2, 6, 7, 10_000].map((n) => backoffMs(n, options))).toEqual([
      50, 100, 200, 3_200, 5_000, 5_000,
    ]);
  });
});
