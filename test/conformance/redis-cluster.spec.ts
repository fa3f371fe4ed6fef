import { NO_LOGGER, Unavailable } from '@tributary/core';
import { openRedisDeduplicator, openRedisLiveTail } from '@tributary/infra';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { eventually } from '../helpers/client.ts';
import { engines } from '../helpers/engines.ts';
import { command, withDocumentedRights } from '../helpers/redis.ts';
import { type RedisCluster, startRedisCluster } from '../helpers/redis-cluster.ts';
import { counted, countUpTo, openCounters } from './counters/redis/counting.ts';
import { dedupeClaim } from './deduplicator/suite/harness.ts';
import { batch, events, follow, LIMITS, said } from './live-tail/suite/harness.ts';

describe.skipIf(!engines())('on a Redis Cluster', () => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await startRedisCluster();
  });
  afterAll(() => cluster?.stop());

  const openDeduplicator = async (url: string) => {
    const options = { url, prefix: 't.', windowMs: 60_000, logger: NO_LOGGER, timeoutMs: 1_000 };
    const deduplicator = await openRedisDeduplicator(options);
    onTestFinished(() => deduplicator.close());
    return deduplicator;
  };
  const claims = (name: string, by: number) =>
    Array.from({ length: 1_000 }, (_, n) => dedupeClaim(`${name}${n}`, by + n));

  it('a live tail is in one slot, and is heard from every node at any', async () => {
    // Without the polling that makes up for lost notifications.
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const open = async (at: string) => {
      const tail = await openRedisLiveTail({ url: at, prefix: 't.', logger: NO_LOGGER, limits: LIMITS });
      onTestFinished(() => tail.close());
      return tail;
    };
    const writer = await open(cluster.url);
    const readers = await Promise.all(cluster.nodes.map((node) => open(node.url)));
    const workspaces = Array.from({ length: 12 }, (_, n) => `w${n}`);
    const following = await Promise.all(
      readers.flatMap((reader) => workspaces.map((workspaceId) => follow(reader, { workspaceId }))),
    );
    await new Promise((resolve) => setTimeout(resolve, 1_000)); // until all listen
    for (const [n, workspaceId] of workspaces.entries())
      await writer.append(batch(events(n, n + 1, { workspaceId })));
    await eventually(
      () => following.every(({ data }) => data().length === 1),
      (all) => all,
    );
    expect(following.slice(0, 12).flatMap(({ data }) => data())).toEqual(said(0, 12));
  });

  it('a live tail stayed with the node that refused to subscribe it', async () => {
    const who = 'refused';
    const grant = (url: string, ...rights: string[]) => command(url, 'ACL', 'SETUSER', who, ...rights);
    const urls = cluster.nodes.map(({ url }) => url);
    await Promise.all(urls.map((url) => grant(url, 'on', '>secret', '~*', '+@all', 'resetchannels')));
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const said: string[] = [];
    const say = (_fields: object, message: string) => void said.push(message);
    const tail = await openRedisLiveTail({
      url: urls.map((url) => url.replace('//', `//${who}:secret@`)).join(','),
      prefix: 't.',
      logger: { debug() {}, info: say, warn: say, error: say },
    });
    onTestFinished(() => tail.close());
    await tail.follow('w', { wake() {} });
    await eventually(
      () => said.at(-1),
      (last) => last === 'Redis subscriptions failed; they are tried again',
    );
    const lists = await Promise.all(urls.map((url) => command(url, 'CLIENT', 'LIST')));
    const at = lists.findIndex((list) => String(list).includes('(subscriber)'));
    await grant(urls[(at + 1) % urls.length] ?? '', '&*');
    await eventually(
      () => {
        vi.advanceTimersByTime(5_000);
        return said.at(-1);
      },
      (last) => last === 'Redis subscriptions work again',
    );
  });

  it('counters are in one slot', async () => {
    const counters = await openCounters({ url: cluster.url }, 1_000);
    await countUpTo(counters, 9);
    expect(await counted(counters)).toBe(9);
  });

  it('dedupe claims are spread over every node, found from one of them, those of rejected events too', async () => {
    const deduplicator = await openDeduplicator(cluster.nodes[1]?.url ?? '');
    const rejected = claims('spread', 9_000).map((claim) => ({ ...claim, rejected: true }));
    expect((await deduplicator.claim(rejected)).every(Boolean)).toBe(true);
    expect((await deduplicator.claim(claims('spread', 0))).every(Boolean)).toBe(true);
    expect((await deduplicator.claim(claims('spread', 5_000))).some(Boolean)).toBe(false);
    const sizes = await Promise.all(cluster.nodes.map(({ url }) => command(url, 'DBSIZE')));
    for (const size of sizes) expect(Number(size)).toBeGreaterThan(100);
  });

  it('dedupe claims wait for a lost node, and continue when it is back', async () => {
    const deduplicator = await openDeduplicator(cluster.url);
    expect((await deduplicator.claim(claims('kept', 0))).every(Boolean)).toBe(true);
    const node = cluster.nodes[2];
    await node?.kill();
    await expect(deduplicator.claim(claims('kept', 0))).rejects.toThrow(Unavailable);
    await node?.restart();
    await withDocumentedRights(node?.url ?? ''); // a server does not persist its users
    const again = () =>
      deduplicator.claim(claims('kept', 5_000)).catch((error: unknown) => {
        if (!(error instanceof Unavailable)) throw error;
        return undefined;
      });
    const won = await eventually(again, (answer) => answer !== undefined, 20_000);
    expect(won?.some(Boolean)).toBe(false);
  });
});
