import { Fenced, Unavailable } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { eventually } from '../../../helpers/client.ts';
import { engines } from '../../../helpers/engines.ts';
import { ownRedis } from '../../../helpers/own-redis.ts';
import { command } from '../../../helpers/redis.ts';
import { batch, increment, PARTITION } from '../suite/harness.ts';
import { counted, countUpTo, openCounters } from './counting.ts';

const TIMEOUT_MS = 700;

const open = (url: string) => openCounters({ url }, TIMEOUT_MS);

const until = (done: () => Promise<boolean>) => eventually(() => done().catch(() => false), Boolean, 20_000);

describe.skipIf(!engines())('counters whose Redis fails for longer', () => {
  it('looked well to a question without memory: the write that the watch of engines makes is refused', async () => {
    const redis = await ownRedis();
    const counters = await open(redis.url);
    await counters.touch({ keyId: 'nobody', at: 1 });
    await command(redis.url, 'CONFIG', 'SET', 'maxmemory', '1');
    expect(await counters.lastUsed(['nobody'])).toEqual(new Map([['nobody', 1]]));
    await expect(counters.touch({ keyId: 'nobody', at: 2 })).rejects.toThrow(/^Redis: OOM/);
    await command(redis.url, 'CONFIG', 'SET', 'maxmemory', '0');
    await counters.touch({ keyId: 'nobody', at: 3 });
  });

  it('stayed empty after FLUSHALL until a restart: the events are counted again', async () => {
    const redis = await ownRedis();
    const counters = await open(redis.url);
    await countUpTo(counters, 6);
    await command(redis.url, 'FLUSHALL');
    await expect(counters.apply(batch(6, [increment()]))).rejects.toThrow(Fenced);
    expect(await counters.applied(PARTITION)).toBe(0);
    await countUpTo(counters, 9);
    expect(await counted(counters)).toBe(9);
  });

  it('go back with a replica that takes over and lags', async () => {
    const primary = await ownRedis();
    const replica = await ownRedis({ replicaOf: primary.url });
    const counters = await open(primary.url);
    await countUpTo(counters, 50);
    await until(
      async () => String(await command(replica.url, 'GET', '{t.f}applied:funnel.counts/0')) === '50',
    );
    await replica.pause();
    await countUpTo(counters, 70);
    await primary.kill();
    await replica.resume();
    await command(replica.url, 'REPLICAOF', 'NO', 'ONE');
    const after = await open(replica.url);
    const applied = await after.applied(PARTITION);
    expect(applied).toBeGreaterThanOrEqual(50);
    expect(await counted(after)).toBe(applied);
  });

  it('do not count twice a command that is carried out after its caller timed out', async () => {
    const redis = await ownRedis();
    const [slow, quick] = [await open(redis.url), await open(redis.url)];
    await slow.apply(batch(0, [increment()]));
    await redis.pause();
    const late = slow.apply(batch(1, [increment()]));
    await expect(late).rejects.toThrow(Unavailable);
    await redis.resume();
    await until(async () => (await quick.applied(PARTITION)) > 0);
    await countUpTo(quick, 2);
    await countUpTo(slow, 3);
    expect(await counted(quick)).toBe(3);
  });

  it('answer within their deadline that they are unavailable, and count again by themselves', async () => {
    const redis = await ownRedis();
    const counters = await open(redis.url);
    await countUpTo(counters, 3);
    for (const [stop, start] of [
      [() => redis.pause(), () => redis.resume()],
      [() => redis.kill(), () => redis.restart()],
    ] as const) {
      await stop();
      const startedAt = performance.now();
      await expect(counters.applied(PARTITION)).rejects.toThrow(Unavailable);
      await expect(counted(counters)).rejects.toThrow(Unavailable);
      expect(performance.now() - startedAt).toBeLessThan(4 * TIMEOUT_MS);
      await start();
      await until(async () => (await counted(counters)) === 3);
    }
  });
});
