import { type Deduplicator, NO_LOGGER, Unavailable } from '@tributary/core';
import { openRedisDeduplicator } from '@tributary/infra';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { engines, freshPrefix } from '../../../helpers/engines.ts';
import { command, withDocumentedRights } from '../../../helpers/redis.ts';
import type { RedisCluster } from '../../../helpers/redis-cluster.ts';
import { deduplicatorConformance } from '../suite/deduplicator.conformance.ts';
import { dedupeClaim } from '../suite/harness.ts';
import { harness, start } from './cluster-harness.ts';

describe.skipIf(!engines())('on a real cluster', () => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await start();
  });
  afterAll(() => cluster.stop());

  const open = async (url: string, prefix: string): Promise<Deduplicator> => {
    const options = { url, prefix, windowMs: 60_000, logger: NO_LOGGER, timeoutMs: 1_000 };
    const deduplicator = await openRedisDeduplicator(options);
    onTestFinished(() => deduplicator.close());
    return deduplicator;
  };
  const claims = (by: number) => Array.from({ length: 1_000 }, (_, n) => dedupeClaim(`m${n}`, by + n));

  it('spreads claims over every node, found from one of them', async () => {
    const deduplicator = await open(cluster.nodes[1]?.url ?? '', 'spread.');
    expect((await deduplicator.claim(claims(0))).every(Boolean)).toBe(true);
    expect((await deduplicator.claim(claims(5_000))).some(Boolean)).toBe(false);
    const sizes = await Promise.all(cluster.nodes.map(({ url }) => command(url, 'DBSIZE')));
    for (const size of sizes) expect(Number(size)).toBeGreaterThan(100);
  });

  it('waits for a lost node, and continues when it is back', async () => {
    const deduplicator = await open(cluster.url, freshPrefix());
    expect((await deduplicator.claim(claims(0))).every(Boolean)).toBe(true);
    await cluster.nodes[2]?.kill();
    await expect(deduplicator.claim(claims(0))).rejects.toThrow(Unavailable);
    await cluster.nodes[2]?.restart();
    // A server does not persist its users.
    await withDocumentedRights(cluster.nodes[2]?.url ?? '');
    for (const deadline = Date.now() + 20_000; ; ) {
      const won = await deduplicator.claim(claims(5_000)).catch((error) => {
        if (!(error instanceof Unavailable) || Date.now() > deadline) throw error;
      });
      if (won === undefined) continue;
      expect(won.some(Boolean)).toBe(false);
      break;
    }
  });

  if (process.env.TRIBUTARY_TEST_LONG) deduplicatorConformance(harness);
});
