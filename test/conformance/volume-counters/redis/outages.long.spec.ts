import { Fenced, NO_LOGGER, Unavailable, type VolumeCounters } from '@tributary/core';
import { openRedisVolumeCounters } from '@tributary/infra';
import { describe, expect, it, onTestFinished } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import { forgetFromNowOn, ownRedis } from '../../../helpers/own-redis.ts';
import { command } from '../../../helpers/redis.ts';
import { batch, HOUR_MS, increment, PARTITION, thisHour, WORKSPACE_ID } from '../suite/harness.ts';

const TIMEOUT_MS = 700;
const PARTITIONS = [0, 1, 2];

async function openCounters(url: string): Promise<VolumeCounters> {
  const counters = await openRedisVolumeCounters({
    url,
    prefix: 't.',
    logger: NO_LOGGER,
    timeoutMs: TIMEOUT_MS,
  });
  onTestFinished(() => counters.close());
  return counters;
}

async function counted(counters: VolumeCounters): Promise<number> {
  const hours = { fromHour: thisHour() - HOUR_MS, toHour: thisHour() };
  const rows = await counters.read({ workspaceId: WORKSPACE_ID, ...hours });
  return rows.reduce((sum, { count }) => sum + count, 0);
}

/**
 * Counts one event an offset, as the stage does: after any failure it asks for the offset to continue from.
 */
async function countUpTo(counters: VolumeCounters, partition: number, end: number): Promise<void> {
  while (true) {
    try {
      const from = await counters.applied({ ...PARTITION, partition });
      if (from >= end) return;
      await counters.apply(batch(from, [increment(`n${from % 7}`, 1)], { partition, to: from + 1 }));
    } catch (error) {
      if (!(error instanceof Unavailable || error instanceof Fenced)) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

async function until(done: () => Promise<boolean>): Promise<void> {
  for (const deadline = Date.now() + 20_000; !(await done().catch(() => false)); ) {
    if (Date.now() > deadline) throw new Error('it never happened');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

describe.skipIf(!engines())('volume counters whose Redis fails', () => {
  it('count each event once while it is killed and started again', async () => {
    const redis = await ownRedis();
    const counters = await openCounters(redis.url);
    const counting = PARTITIONS.map((partition) => countUpTo(counters, partition, 3_000));
    for (const share of [500, 1_500, 2_500]) {
      await until(async () => (await counters.applied(PARTITION)) > share);
      await redis.kill();
      await redis.restart();
    }
    await Promise.all(counting);
    expect(await counted(counters)).toBe(9_000);
  });

  it('lose counts and offsets together when the last writes are lost', async () => {
    const redis = await ownRedis();
    const counters = await openCounters(redis.url);
    await Promise.all(PARTITIONS.map((partition) => countUpTo(counters, partition, 100)));
    await forgetFromNowOn(redis);
    await Promise.all(PARTITIONS.map((partition) => countUpTo(counters, partition, 160 + partition)));
    expect(await counted(counters)).toBe(483);
    await redis.kill();
    await redis.restart();
    await until(async () => (await counters.applied(PARTITION)) === 100);
    expect(await counted(counters)).toBe(300);
    await expect(counters.apply(batch(160, [increment('a', 1)]))).rejects.toThrow(Fenced);
    await Promise.all(PARTITIONS.map((partition) => countUpTo(counters, partition, 200)));
    expect(await counted(counters)).toBe(600);
  });

  it('are read in full after the list of partitions was lost with the rest', async () => {
    const redis = await ownRedis();
    const counters = await openCounters(redis.url);
    await forgetFromNowOn(redis);
    await countUpTo(counters, 0, 5);
    await redis.kill();
    await redis.restart();
    await countUpTo(counters, 0, 8);
    expect(await counted(counters)).toBe(8);
  });

  it('looked well to a question without memory: the write that the watch of engines makes is refused', async () => {
    const redis = await ownRedis();
    const counters = await openCounters(redis.url);
    await counters.touch({ keyId: 'nobody', at: 1 });
    await command(redis.url, 'CONFIG', 'SET', 'maxmemory', '1');
    expect(await counters.lastUsed(['nobody'])).toEqual(new Map([['nobody', 1]]));
    await expect(counters.touch({ keyId: 'nobody', at: 2 })).rejects.toThrow(/^Redis: OOM/);
    await command(redis.url, 'CONFIG', 'SET', 'maxmemory', '0');
    await counters.touch({ keyId: 'nobody', at: 3 });
  });

  it('stayed empty after FLUSHALL until a restart: the events are counted again', async () => {
    const redis = await ownRedis();
    const counters = await openCounters(redis.url);
    await countUpTo(counters, 0, 6);
    await command(redis.url, 'FLUSHALL');
    await expect(counters.apply(batch(6, [increment('a', 1)]))).rejects.toThrow(Fenced);
    expect(await counters.applied(PARTITION)).toBe(0);
    await countUpTo(counters, 0, 9);
    expect(await counted(counters)).toBe(9);
  });

  it('go back with a replica that takes over and lags', async () => {
    const primary = await ownRedis();
    const replica = await ownRedis({ replicaOf: primary.url });
    const counters = await openCounters(primary.url);
    await countUpTo(counters, 0, 50);
    await until(
      async () => String(await command(replica.url, 'GET', '{t.v:events.accepted/0}applied')) === '50',
    );
    await replica.pause();
    await countUpTo(counters, 0, 70);
    await primary.kill();
    await replica.resume();
    await command(replica.url, 'REPLICAOF', 'NO', 'ONE');
    const after = await openCounters(replica.url);
    const applied = await after.applied(PARTITION);
    expect(applied).toBeGreaterThanOrEqual(50);
    expect(await counted(after)).toBe(applied);
  });

  it('do not count twice a command that is carried out after its caller timed out', async () => {
    const redis = await ownRedis();
    const [slow, quick] = [await openCounters(redis.url), await openCounters(redis.url)];
    await slow.apply(batch(0, [increment('a', 1)]));
    await redis.pause();
    const late = slow.apply(batch(1, [increment('a', 1)]));
    await expect(late).rejects.toThrow(Unavailable);
    await redis.resume();
    await until(async () => (await quick.applied(PARTITION)) > 0);
    await countUpTo(quick, 0, 2);
    await countUpTo(slow, 0, 3);
    expect(await counted(quick)).toBe(3);
  });

  it('answer within their deadline that they are unavailable, and count again by themselves', async () => {
    const redis = await ownRedis();
    const counters = await openCounters(redis.url);
    await countUpTo(counters, 0, 3);
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

  it('wait for memory, and leave nothing of a batch that found none', async () => {
    const redis = await ownRedis();
    const counters = await openCounters(redis.url);
    await countUpTo(counters, 0, 3);
    await command(redis.url, 'CONFIG', 'SET', 'maxmemory', '1');
    const full = batch(3, [increment('a', 1), increment('b', 1)], { keyUses: [{ keyId: 'k', at: 5 }] });
    await expect(counters.apply(full)).rejects.toThrow(Unavailable);
    expect(await counters.applied(PARTITION)).toBe(3);
    expect(await counted(counters)).toBe(3);
    expect(await counters.lastUsed(['k'])).toEqual(new Map());
    await command(redis.url, 'CONFIG', 'SET', 'maxmemory', '0');
    await counters.apply(full);
    expect(await counted(counters)).toBe(5);
  });

  it('let a day expire with the names beside it', async () => {
    const redis = await ownRedis();
    const counters = await openCounters(redis.url);
    const many = Array.from({ length: 10_001 }, (_, n) => increment(`n${n}`, 1));
    await counters.apply(batch(0, many));
    const day = `{t.v:events.accepted/0}c:${Math.floor(thisHour() / (24 * HOUR_MS))}:${WORKSPACE_ID}`;
    for (const key of [day, `${day}:names`]) {
      const hours = Number(await command(redis.url, 'TTL', key)) / 3_600;
      expect(hours).toBeGreaterThan(31 * 24);
      expect(hours).toBeLessThan(34 * 24);
    }
  });
});
