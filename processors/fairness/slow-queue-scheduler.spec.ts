import { describe, expect, it } from 'vitest';
import { SlowQueueScheduler } from './slow-queue-scheduler.ts';

describe('SlowQueueScheduler', () => {
  it('a workspace with a thousand queued tasks does not delay one with two', async () => {
    const scheduler = new SlowQueueScheduler(
      () => 0,
      () => false,
    );
    const done: string[] = [];
    const many = Array.from({ length: 1_000 }, (_, n) => scheduler.run('many', () => done.push(`many ${n}`)));
    const few = [1, 2].map((n) => scheduler.run('few', () => done.push(`few ${n}`)));
    await Promise.all([...many, ...few]);
    expect(done.slice(0, 4)).toEqual(['many 0', 'few 1', 'many 1', 'few 2']);
    expect(done).toHaveLength(1_002);
    expect(done.at(-1)).toBe('many 999');
  });

  it('pauses three times as long as it works while others are busy, otherwise as long', async () => {
    for (const [busy, least] of [
      [true, 3],
      [false, 1],
    ] as const) {
      let worked = 0;
      const scheduler = new SlowQueueScheduler(
        () => performance.now(),
        () => busy,
      );
      const began = performance.now();
      const work = () => {
        const at = performance.now();
        while (performance.now() - at < 4);
        worked += performance.now() - at;
      };
      await Promise.all(Array.from({ length: 10 }, () => scheduler.run('w', work)));
      await scheduler.run('w', () => {});
      expect(performance.now() - began).toBeGreaterThan(worked * (1 + least) * 0.9);
    }
  });

  it('rejects with the error of a task, and continues', async () => {
    const scheduler = new SlowQueueScheduler(
      () => 0,
      () => false,
    );
    const failed = scheduler.run('w', () => {
      throw new Error('no');
    });
    const next = scheduler.run('w', () => 7);
    await expect(failed).rejects.toThrow('no');
    expect(await next).toBe(7);
    expect(await scheduler.run('w', () => 8)).toBe(8);
  });
});
