import { type LiveTail, NO_LOGGER, Unavailable } from '@tributary/core';
import { openRedisLiveTail } from '@tributary/infra';
import { describe, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../../helpers/client.ts';
import { engines } from '../../../helpers/engines.ts';
import { ownRedis } from '../../../helpers/own-redis.ts';
import { command } from '../../../helpers/redis.ts';
import { batch, events, follow, LIMITS, said, WORKSPACE_ID } from '../suite/harness.ts';

const TIMEOUT_MS = 700;

async function openTail(url: string, limits = LIMITS): Promise<LiveTail> {
  const tail = await openRedisLiveTail({
    url,
    prefix: 't.',
    logger: NO_LOGGER,
    timeoutMs: TIMEOUT_MS,
    limits,
  });
  onTestFinished(() => tail.close());
  return tail;
}

/** Appends as the stage does: retries until it succeeds. */
async function appendInTheEnd(tail: LiveTail, from: number, to: number): Promise<void> {
  for (;;) {
    try {
      await tail.append(batch(events(from, to)));
      return;
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

describe.skipIf(!engines())('a live tail whose Redis fails', () => {
  it('waits, notifies followers, and continues without a gap or duplicate once Redis answers again', async () => {
    const redis = await ownRedis();
    const [writer, reader] = [await openTail(redis.url), await openTail(redis.url)];
    await writer.append(batch(events(0, 5)));
    const following = await follow(reader);
    await redis.pause();
    await expect(writer.append(batch(events(5, 8)))).rejects.toThrow(Unavailable);
    await eventually(
      () => following.items.at(-1),
      (item) => item?.kind === 'interrupted',
    );
    const startedAt = performance.now();
    await expect(follow(reader)).rejects.toThrow(Unavailable);
    expect(performance.now() - startedAt).toBeLessThan(4 * TIMEOUT_MS);
    await redis.resume();
    await appendInTheEnd(writer, 5, 8);
    await eventually(following.data, (data) => data.length >= 8);
    expect(following.data()).toEqual(said(0, 8));
    expect(following.items.filter(({ kind }) => kind !== 'event')).toEqual([
      { kind: 'interrupted' },
      { kind: 'resumed' },
    ]);
  });

  it('reports an unknown number of missing events when Redis restarts empty', async () => {
    const redis = await ownRedis();
    const [writer, reader] = [await openTail(redis.url), await openTail(redis.url)];
    await writer.append(batch(events(0, 50)));
    const following = await follow(reader);
    const lastId = following.lastId() ?? '';
    await command(redis.url, 'FLUSHALL');
    await redis.kill();
    await redis.restart();
    await command(redis.url, 'FLUSHALL');
    await appendInTheEnd(writer, 50, 53);
    await eventually(following.data, (data) => data.length >= 53);
    expect(following.data()).toEqual(said(0, 53));
    const told = following.items.filter(({ kind }) => kind === 'missed');
    expect(told).toEqual([{ kind: 'missed' }]);
    const late = await follow(await openTail(redis.url), { after: lastId });
    expect(late.items[0]).toEqual({ kind: 'missed' });
    expect(late.data()).toEqual(said(50, 53));
  });

  it('delivers every event by polling if notifications are lost', async () => {
    const redis = await ownRedis();
    const [writer, reader] = [await openTail(redis.url), await openTail(redis.url)];
    const following = await follow(reader);
    await command(redis.url, 'CLIENT', 'KILL', 'TYPE', 'pubsub');
    await writer.append(batch(events(0, 3)));
    await eventually(following.data, (data) => data.length === 3);
    await command(redis.url, 'CLIENT', 'KILL', 'TYPE', 'pubsub');
    await writer.append(batch(events(3, 6)));
    await eventually(following.data, (data) => data.length === 6);
    expect(following.data()).toEqual(said(0, 6));
  });

  it('waits for memory, and leaves no part of a batch that did not fit', async () => {
    const redis = await ownRedis();
    const tail = await openTail(redis.url);
    await tail.append(batch(events(0, 3)));
    await command(redis.url, 'CONFIG', 'SET', 'maxmemory', '1');
    await expect(tail.append(batch(events(3, 6)))).rejects.toThrow(Unavailable);
    await command(redis.url, 'CONFIG', 'SET', 'maxmemory', '0');
    expect(await tail.append(batch(events(3, 6)))).toBe(0);
    expect((await follow(tail)).data()).toEqual(said(0, 6));
  });

  it('opens two connections in a process for any number of tails', async () => {
    const redis = await ownRedis();
    const reader = await openTail(redis.url);
    const many = Array.from({ length: 60 }, (_, n) => follow(reader, { workspaceId: `w${n % 20}` }));
    const following = await Promise.all(many);
    const clients = async () =>
      String(await command(redis.url, 'CLIENT', 'LIST'))
        .split('\n')
        .filter((line) => /cmd=(?!client)/.test(line));
    await eventually(clients, (all) => all.some((line) => /\bsub=20\b/.test(line)));
    expect(await clients()).toHaveLength(2);
    for (const one of following) one.close();
    await eventually(clients, (all) => all.length === 1);
  });

  it('bounds the memory of a tail in Redis, and lets it expire', async () => {
    const redis = await ownRedis();
    const tail = await openTail(redis.url, { ...LIMITS, events: 500, characters: 512 * 1024 });
    const memory = async () =>
      Number(/used_memory:(\d+)/.exec(String(await command(redis.url, 'INFO', 'memory')))?.[1]);
    const before = await memory();
    const data = JSON.stringify({ x: 'x'.repeat(2_000) });
    for (let n = 0; n < 20_000; n += 500) await tail.append(batch(events(n, n + 500, { data })));
    for (let n = 20_000; n < 21_000; n++) await tail.append(batch(events(n, n + 1, { data: '{}' })));
    expect((await memory()) - before).toBeLessThan(2 * 1024 * 1024);
    for (const key of ['state', 'blocks']) {
      const ttl = Number(await command(redis.url, 'PTTL', `{t.l:${WORKSPACE_ID}}${key}`));
      expect(ttl).toBeGreaterThan(LIMITS.retentionMs - 60_000);
      expect(ttl).toBeLessThanOrEqual(LIMITS.retentionMs);
    }
    expect((await follow(tail, { after: 'nonsense' })).data()).toHaveLength(500);
  });
});
