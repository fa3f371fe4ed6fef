import { setTimeout as sleep } from 'node:timers/promises';
import type { RateLimiter } from '@tributary/core';
import { afterEach, describe, expect, it } from 'vitest';

/** Access of the suite to one adapter. */
export interface RateLimiterHarness {
  readonly name: string;
  /**
   * Opens another instance of a limiter with this rate a minute; instances of one `scope` share their count.
   */
  open(perMinute: number, scope: string): Promise<RateLimiter>;
  dispose(scope: string): Promise<void>;
}

/** The contract of the `RateLimiter` port. */
export function rateLimiterConformance(harness: RateLimiterHarness): void {
  describe(`the ${harness.name} rate limiter`, () => {
    const opened: RateLimiter[] = [];
    let scopes = 0;
    let scope = '';
    const open = async (perMinute: number) => {
      scope = `scope-${++scopes}`;
      const limiter = await harness.open(perMinute, scope);
      opened.push(limiter);
      return limiter;
    };
    afterEach(async () => {
      await Promise.all(opened.splice(0).map((limiter) => limiter.close()));
      await harness.dispose(scope);
    });

    it('passes up to the limit at once and then states how long to wait', async () => {
      const limiter = await open(6);
      for (let n = 0; n < 6; n++) expect(await limiter.take('a')).toBe(0);
      const wait = await limiter.take('a');
      expect(wait).toBeGreaterThan(5_000);
      expect(wait).toBeLessThanOrEqual(10_000);
    });

    it('counts each name alone', async () => {
      const limiter = await open(1);
      expect(await limiter.take('a')).toBe(0);
      expect(await limiter.take('b')).toBe(0);
      expect(await limiter.take('a')).toBeGreaterThan(0);
    });

    it('passes again after the stated wait', async () => {
      const limiter = await open(600);
      let wait = 0;
      for (let n = 0; wait === 0 && n < 2_000; n++) wait = await limiter.take('a');
      expect(wait).toBeGreaterThan(0);
      await sleep(wait + 20);
      expect(await limiter.take('a')).toBe(0);
    });

    it('lets at most the limit pass of many at once', async () => {
      const limiter = await open(30);
      const waits = await Promise.all(Array.from({ length: 60 }, () => limiter.take('a')));
      expect(waits.filter((wait) => wait === 0).length).toBe(30);
    });
  });
}
