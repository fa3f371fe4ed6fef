import { describe, expect, it, vi } from 'vitest';
import { FairShare, WorkspaceSlots } from './fair-share.ts';

function setUp() {
  const time = { now: 10_000 };
  const share = new FairShare(() => time.now, { available: () => time.now });
  share.goesToSlowQueue('quiet');
  share.goesToSlowQueue('noisy');
  return { time, share };
}

describe('FairShare', () => {
  it('a workspace with slow events is sent through the slow queue, and no other one', () => {
    const { share } = setUp();
    for (let n = 0; n < 100; n++) share.charge('noisy', 4);
    expect(share.goesToSlowQueue('noisy')).toBe(true);
    expect(share.goesToSlowQueue('quiet')).toBe(false);
  });

  it('any number of ordinary events is no more than a share', () => {
    const { share } = setUp();
    for (let n = 0; n < 100_000; n++) share.charge('noisy', 0.15);
    expect(share.goesToSlowQueue('noisy')).toBe(false);
  });

  it('an expensive event now and then is no more than a share', () => {
    const { share, time } = setUp();
    for (let n = 0; n < 1_000; n++) {
      time.now += 60;
      share.charge('noisy', 5);
      expect(share.goesToSlowQueue('noisy')).toBe(false);
    }
  });

  it('while the thread hardly runs, a share of the elapsed time would be all that it has', () => {
    const time = { now: 0, available: 0 };
    const share = new FairShare(() => time.now, { available: () => time.available });
    share.goesToSlowQueue('quiet');
    share.goesToSlowQueue('noisy');
    for (let n = 0; n < 20; n++) {
      time.now += 60;
      time.available += 6;
      share.charge('noisy', 5);
    }
    expect(share.goesToSlowQueue('noisy')).toBe(true);
  });

  it('the time in the slow queue doubles up to 30 s while it continues, and starts again after a pause', () => {
    const { share, time } = setUp();
    const slowFor = () => {
      while (!share.goesToSlowQueue('noisy')) share.charge('noisy', 10);
      const since = time.now;
      while (share.goesToSlowQueue('noisy')) time.now += 100;
      share.goesToSlowQueue('quiet');
      return time.now - since;
    };
    expect(Array.from({ length: 7 }, slowFor)).toEqual([1, 2, 4, 8, 16, 30, 30].map((s) => s * 1_000));
    time.now += 120_000;
    expect(slowFor()).toBe(1_000);
  });

  it('each return from the slow queue gave a whole burst again: one expensive event sends it back', () => {
    const { share, time } = setUp();
    for (let n = 0; n < 3; n++) share.charge('noisy', 4.9);
    expect(share.goesToSlowQueue('noisy')).toBe(false);
    share.charge('noisy', 4.9);
    expect(share.goesToSlowQueue('noisy')).toBe(true);
    time.now += 1_001;
    share.goesToSlowQueue('quiet');
    expect(share.goesToSlowQueue('noisy')).toBe(false);
    share.charge('noisy', 4.9);
    expect(share.goesToSlowQueue('noisy')).toBe(true);
  });

  it('a workspace that is alone for an hour delays no other', () => {
    const share = new FairShare(() => 5, { available: () => 5 });
    for (let n = 0; n < 100; n++) {
      share.goesToSlowQueue('only');
      share.charge('only', 10);
    }
    expect(share.goesToSlowQueue('only')).toBe(false);
    share.goesToSlowQueue('another');
    share.charge('only', 10);
    expect(share.goesToSlowQueue('only')).toBe(true);
  });

  it('is busy for a second after an event that takes no slow queue', () => {
    const { share, time } = setUp();
    expect(share.isBusy).toBe(true);
    time.now += 1_000;
    expect(share.isBusy).toBe(false);
  });
});

it('an entry waited for ever for slots of entries that waited for it: after a second it begins without one', async () => {
  vi.useFakeTimers();
  try {
    const slots = new WorkspaceSlots(2);
    const first = Promise.withResolvers<void>();
    const held = [1, 2].map(() => slots.run('w', () => first.promise));
    const order: string[] = [];
    const oldest = slots.run('w', async () => {
      order.push('oldest');
      first.resolve();
    });
    await slots.run('another', async () => {
      order.push('another');
    });
    await vi.advanceTimersByTimeAsync(900);
    expect(order).toEqual(['another']);
    await vi.advanceTimersByTimeAsync(200);
    expect(order).toEqual(['another', 'oldest']);
    await Promise.all([oldest, ...held]);
    // All slots are free again, and none too many.
    const running = new Set<number>();
    const gate = Promise.withResolvers<void>();
    const later = [1, 2, 3].map((n) =>
      slots.run('w', async () => {
        running.add(n);
        await gate.promise;
      }),
    );
    await vi.advanceTimersByTimeAsync(0);
    expect([...running]).toEqual([1, 2]);
    gate.resolve();
    await Promise.all(later);
  } finally {
    vi.useRealTimers();
  }
});
