import { type Deduplicator, InvalidInput, type Logger, NO_LOGGER, Unavailable } from '@tributary/core';
import { openRedisDeduplicator } from '@tributary/infra';
import { describe, expect, it, onTestFinished } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import { forgetFromNowOn, ownRedis } from '../../../helpers/own-redis.ts';
import { Told } from '../../../helpers/recording-logger.ts';
import { command } from '../../../helpers/redis.ts';
import { dedupeClaim } from '../suite/harness.ts';

const TIMEOUT_MS = 700;

async function openDeduplicator(
  url: string,
  logger: Logger = NO_LOGGER,
  timeoutMs = TIMEOUT_MS,
): Promise<Deduplicator> {
  const options = { url, prefix: 't.', windowMs: 60_000, logger, timeoutMs };
  const deduplicator = await openRedisDeduplicator(options);
  onTestFinished(() => deduplicator.close());
  return deduplicator;
}

/** Makes a dedupe claim as the stage does: retries until it is answered. */
async function claim(
  deduplicator: Deduplicator,
  ids: readonly string[],
  by: number,
): Promise<readonly boolean[]> {
  for (const deadline = Date.now() + 20_000; ; ) {
    try {
      return await deduplicator.claim(ids.map((id, n) => dedupeClaim(id, by + n)));
    } catch (error) {
      if (!(error instanceof Unavailable) || Date.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

const ids = (name: string, count: number) => Array.from({ length: count }, (_, n) => `${name}${n}`);
const all = (answer: boolean, count: number) => new Array<boolean>(count).fill(answer);

describe.skipIf(!engines())('a deduplicator whose Redis fails', () => {
  it('keeps one winner of each id while it is killed and started again', async () => {
    const redis = await ownRedis();
    const deduplicators = [await openDeduplicator(redis.url), await openDeduplicator(redis.url)];
    let stopped = false;
    const outages = (async () => {
      for (let outage = 0; outage < 3; outage++) {
        await redis.kill();
        await redis.restart();
      }
      stopped = true;
    })();
    for (let round = 0; !stopped; round++) {
      const names = ids(`r${round}-`, 200);
      const [one = [], other = []] = await Promise.all(
        deduplicators.map((deduplicator, n) => claim(deduplicator, names, n * 1_000)),
      );
      expect(one.map((won, i) => won !== other[i])).toEqual(all(true, 200));
    }
    await outages;
  });

  it('claimed the last second’s lost ids again only after a repetition had won them', async () => {
    const redis = await ownRedis();
    const deduplicator = await openDeduplicator(redis.url);
    const names = ids('m', 2_500);
    await forgetFromNowOn(redis);
    expect(await claim(deduplicator, names, 0)).toEqual(all(true, 2_500));
    await redis.kill();
    await redis.restart();
    expect(await command(redis.url, 'DBSIZE')).toBe(0);
    expect(await claim(deduplicator, names, 10_000)).toEqual(all(false, 2_500));
    expect(await claim(deduplicator, names, 0)).toEqual(all(true, 2_500));
  });

  it('states when a lost claim was won by another before it could be claimed again', async () => {
    const redis = await ownRedis();
    const { lines, logger } = new Told();
    const first = await openDeduplicator(redis.url, logger);
    await forgetFromNowOn(redis);
    await claim(first, ['a'], 1);
    await redis.kill();
    await redis.restart();
    expect(await claim(await openDeduplicator(redis.url), ['a'], 2)).toEqual([true]);
    expect(await claim(first, ['a'], 1)).toEqual([false]);
    expect(lines.some((line) => line.includes('processed twice'))).toBe(true);
  });

  it('decides for the same position although its first claim is carried out late', async () => {
    const redis = await ownRedis();
    const deduplicator = await openDeduplicator(redis.url);
    await redis.pause();
    await expect(deduplicator.claim([dedupeClaim('a', 1)])).rejects.toThrow(Unavailable);
    await redis.resume();
    expect(await claim(deduplicator, ['a'], 1)).toEqual([true]);
    expect(await claim(deduplicator, ['a'], 2)).toEqual([false]);
  });

  it('waits for memory, and claims no part of a call that found none', async () => {
    const redis = await ownRedis();
    const deduplicator = await openDeduplicator(redis.url);
    await claim(deduplicator, ['before'], 1);
    await command(redis.url, 'CONFIG', 'SET', 'maxmemory', '1');
    await expect(deduplicator.claim([dedupeClaim('a', 1)])).rejects.toThrow(Unavailable);
    await command(redis.url, 'CONFIG', 'SET', 'maxmemory', '0');
    expect(await claim(deduplicator, ['before', 'a'], 2)).toEqual([false, true]);
  });

  it('is not opened on a server that evicts, and waits where one begins to', async () => {
    const evicting = await ownRedis({ maxmemoryPolicy: 'allkeys-lru' });
    await expect(openDeduplicator(evicting.url)).rejects.toThrow(InvalidInput);
    await expect(openDeduplicator(evicting.url)).rejects.toThrow('set maxmemory-policy to noeviction');
    await command(evicting.url, 'CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
    const deduplicator = await openDeduplicator(evicting.url);
    // It restarts with its original configuration.
    await evicting.restart();
    await expect(deduplicator.claim([dedupeClaim('a', 1)])).rejects.toThrow(Unavailable);
    await command(evicting.url, 'CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
    expect(await claim(deduplicator, ['a'], 1)).toEqual([true]);
  });

  it('is not opened with a password that is wrong', async () => {
    const redis = await ownRedis();
    await command(redis.url, 'CONFIG', 'SET', 'requirepass', 'right');
    const wrong = [redis.url.replace('//', '//:wrong@'), redis.url];
    for (const url of wrong) await expect(openDeduplicator(url)).rejects.toThrow(InvalidInput);
    const deduplicator = await openDeduplicator(redis.url.replace('//', '//:right@'));
    expect(await claim(deduplicator, ['a'], 1)).toEqual([true]);
  });

  it('is opened while Redis is away, and claims once it is there', async () => {
    const redis = await ownRedis();
    await redis.kill();
    const { lines, logger } = new Told();
    const deduplicator = await openDeduplicator(redis.url, logger);
    await expect(deduplicator.claim([dedupeClaim('a', 1)])).rejects.toThrow(Unavailable);
    await redis.restart();
    expect(await claim(deduplicator, ['a'], 1)).toEqual([true]);
    expect(lines.at(0)).toContain('does not answer');
    expect(lines.at(-1)).toContain('answers again');
    expect(lines).toHaveLength(2);
  });

  it('closes at once, also when Redis does not answer, and is Unavailable then', async () => {
    const redis = await ownRedis();
    const timeoutMs = 30_000;
    const deduplicator = await openDeduplicator(redis.url, NO_LOGGER, timeoutMs);
    await redis.pause();
    const waiting = expect(deduplicator.claim([dedupeClaim('a', 1)])).rejects.toThrow(Unavailable);
    const startedAt = performance.now();
    await deduplicator.close();
    expect(performance.now() - startedAt).toBeLessThan(5_000);
    await waiting;
    await expect(deduplicator.claim([dedupeClaim('a', 1)])).rejects.toThrow(Unavailable);
    await redis.resume();
  });

  it('warns where nothing makes claims durable', async () => {
    const redis = await ownRedis();
    await forgetFromNowOn(redis);
    const { lines, logger } = new Told();
    await openDeduplicator(redis.url, logger);
    expect(lines.some((line) => line.includes('neither appendonly nor a replica'))).toBe(true);
  });
});
