import { NO_LOGGER } from '@tributary/core';
import { openRedisLiveTail } from '@tributary/infra';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../../helpers/client.ts';
import { engines } from '../../../helpers/engines.ts';
import { type RedisCluster, startRedisCluster } from '../../../helpers/redis-cluster.ts';
import { batch, events, follow, LIMITS, said } from '../suite/harness.ts';
import { liveTailConformance } from '../suite/live-tail.conformance.ts';
import { redisHarness } from './harness.ts';

describe.skipIf(!engines())('on a real cluster', () => {
  let cluster: RedisCluster | undefined;
  beforeAll(async () => {
    cluster = await startRedisCluster();
  });
  afterAll(() => cluster?.stop());
  const url = () => cluster?.url ?? '';

  it('keeps each tail in one slot, and is heard from every node at any', async () => {
    const open = async (at: string) => {
      const tail = await openRedisLiveTail({ url: at, prefix: 't.', logger: NO_LOGGER, limits: LIMITS });
      onTestFinished(() => tail.close());
      return tail;
    };
    const writer = await open(url());
    const readers = await Promise.all((cluster?.nodes ?? []).map((node) => open(node.url)));
    const workspaces = Array.from({ length: 12 }, (_, n) => `w${n}`);
    const following = await Promise.all(
      readers.flatMap((reader) => workspaces.map((workspaceId) => follow(reader, { workspaceId }))),
    );
    await new Promise((resolve) => setTimeout(resolve, 1_000)); // until all listen
    const startedAt = performance.now();
    for (const [n, workspaceId] of workspaces.entries()) {
      await writer.append(batch(events(n, n + 1, { workspaceId })));
    }
    await eventually(
      () => following.every(({ data }) => data().length === 1),
      (all) => all,
    );
    // Faster than by polling, which happens once a second.
    expect(performance.now() - startedAt).toBeLessThan(900);
    expect(following.slice(0, 12).flatMap(({ data }) => data())).toEqual(said(0, 12));
  });

  if (process.env.TRIBUTARY_TEST_LONG) {
    liveTailConformance(
      redisHarness('Redis Cluster', url, () => cluster?.nodes.map((node) => node.url) ?? []),
    );
  }
});
