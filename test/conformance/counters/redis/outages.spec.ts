import { type Counters, Fenced, Unavailable } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { eventually } from '../../../helpers/client.ts';
import { engines } from '../../../helpers/engines.ts';
import { forgetFromNowOn, ownRedis } from '../../../helpers/own-redis.ts';
import { command } from '../../../helpers/redis.ts';
import { batch, increment, PARTITION, thisHour, WORKSPACE_ID } from '../suite/harness.ts';
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

  it('do not count twice a command that is carried out after its caller timed out', async () => {
    const redis = await ownRedis();
    const [slow, quick] = [await openStore(redis.url), await openStore(redis.url)];
    await slow.apply(batch(0, [increment()]));
    await redis.pause();
    const late = slow.apply(batch(1, [increment()]));
    await expect(late).rejects.toThrow(Unavailable);
    await redis.resume();
    await eventually(
      () => quick.applied(PARTITION),
      (applied) => applied > 0,
    );
    await countUpTo(quick, 2);
    await countUpTo(slow, 3);
    expect(await counted(quick)).toBe(3);
  });

  it('stayed empty after FLUSHALL until a restart: the events are counted again', async () => {
    const redis = await ownRedis();
    const counters = await openStore(redis.url);
    await countUpTo(counters, 6);
    await command(redis.url, 'FLUSHALL');
    await expect(counters.apply(batch(6, [increment()]))).rejects.toThrow(Fenced);
    expect(await counters.applied(PARTITION)).toBe(0);
    await countUpTo(counters, 9);
    expect(await counted(counters)).toBe(9);
  });

  it('looked well to a question without memory: the write that the watch of engines makes is refused', async () => {
    const redis = await ownRedis();
    const counters = await openStore(redis.url);
    await counters.touch({ keyId: 'nobody', at: 1 });
    await command(redis.url, 'CONFIG', 'SET', 'maxmemory', '1');
    expect(await counters.lastUsed(['nobody'])).toEqual(new Map([['nobody', 1]]));
    await expect(counters.touch({ keyId: 'nobody', at: 2 })).rejects.toThrow(/^Redis: OOM/);
    await command(redis.url, 'CONFIG', 'SET', 'maxmemory', '0');
    await counters.touch({ keyId: 'nobody', at: 3 });
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
});
