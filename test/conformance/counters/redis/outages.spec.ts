import { type Counters, Fenced, Unavailable } from '@tributary/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../../helpers/client.ts';
import { engines } from '../../../helpers/engines.ts';
import { forgetFromNowOn, ownRedis } from '../../../helpers/own-redis.ts';
import { command } from '../../../helpers/redis.ts';
import { startRedisCluster } from '../../../helpers/redis-cluster.ts';
import { batch, HOUR_MS, increment, PARTITION, thisHour, WORKSPACE_ID } from '../suite/harness.ts';
import { counted, countUpTo, openCounters } from './counting.ts';

const openStore = (url: string) => openCounters({ url }, 700);

const isApplied = (store: Counters, offset: number) =>
  eventually(
    () => store.applied(PARTITION).catch(() => -1),
    (applied) => applied === offset,
  );

describe.skipIf(!engines())('counters whose Redis fails', () => {
  it('counts each event once while it is killed and started again', async () => {
    const redis = await ownRedis();
    const store = await openStore(redis.url);
    const counting = countUpTo(store, 600);
    for (const share of [100, 400]) {
      await eventually(
        () => store.applied(PARTITION).catch(() => 0),
        (applied) => applied > share,
      );
      await redis.kill();
      await redis.restart();
    }
    await counting;
    expect(await counted(store)).toBe(600);
  });

  it('loses counts and offset together when the last writes are lost', async () => {
    const redis = await ownRedis();
    const store = await openStore(redis.url);
    await countUpTo(store, 50);
    await forgetFromNowOn(redis);
    await countUpTo(store, 80);
    await redis.kill();
    await redis.restart();
    await isApplied(store, 50);
    expect(await counted(store)).toBe(50);
    await expect(store.apply(batch(80, [increment()]))).rejects.toThrow(Fenced);
    await countUpTo(store, 100);
    expect(await counted(store)).toBe(100);
  });

  it('waits for memory, and leaves nothing of a batch that found none', async () => {
    const redis = await ownRedis();
    const store = await openStore(redis.url);
    await countUpTo(store, 3);
    await command(redis.url, 'CONFIG', 'SET', 'maxmemory', '1');
    await expect(store.apply(batch(3, [increment()]))).rejects.toThrow(Unavailable);
    expect(await store.applied(PARTITION)).toBe(3);
    expect(await counted(store)).toBe(3);
    await command(redis.url, 'CONFIG', 'SET', 'maxmemory', '0');
    await countUpTo(store, 4);
    expect(await counted(store)).toBe(4);
  });

  it('lets its documents expire', async () => {
    const redis = await ownRedis();
    const store = await openStore(redis.url);
    await countUpTo(store, 1);
    const hoursLeft = async (kind: string, start: number) =>
      Number(await command(redis.url, 'TTL', `{t.f}${kind}:${start}:${WORKSPACE_ID}`)) / 3_600;
    expect(await hoursLeft('hour', thisHour())).toBeGreaterThan(31 * 24);
    expect(await hoursLeft('hour', thisHour())).toBeLessThan(33 * 24);
    expect(await hoursLeft('samples', thisHour())).toBeGreaterThan(7 * 24);
  });

  it('is one slot of a cluster', async () => {
    const cluster = await startRedisCluster();
    onTestFinished(() => cluster.stop());
    const store = await openStore(cluster.url);
    await store.apply(batch(0, [increment(), increment({ minute: thisHour() - 24 * HOUR_MS })]));
    await expect(store.apply(batch(0, [increment()]))).rejects.toThrow(Fenced);
    expect(await counted(store)).toBe(1);
  });
});
