import { Fenced, NO_LOGGER } from '@tributary/core';
import { openRedisVolumeCounters } from '@tributary/infra';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import type { RedisCluster } from '../../../helpers/redis-cluster.ts';
import { batch, DAY_MS, increment, thisHour, WORKSPACE_ID } from '../suite/harness.ts';
import { volumeCountersConformance } from '../suite/volume-counters.conformance.ts';
import { harness, start } from './cluster-harness.ts';

describe.skipIf(!engines())('on a real cluster', () => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await start();
  });
  afterAll(() => cluster.stop());

  it('moves every partition as one, and sums those of all nodes', async () => {
    const counters = await openRedisVolumeCounters({ url: cluster.url, prefix: 't.', logger: NO_LOGGER });
    onTestFinished(() => counters.close());
    const increments = [
      increment('a', 1),
      increment('a', 1, { workspaceId: 'another' }),
      increment('a', 1, { hour: thisHour() - DAY_MS }),
    ];
    for (let partition = 0; partition < 12; partition++) {
      const keyUses = [{ keyId: 'k', at: partition }];
      await counters.apply(batch(0, increments, { partition, keyUses }));
      await expect(counters.apply(batch(0, increments, { partition, keyUses }))).rejects.toThrow(Fenced);
    }
    await counters.touch({ keyId: 'other', at: 3 });
    const hours = { fromHour: thisHour() - DAY_MS, toHour: thisHour() };
    const rows = await counters.read({ workspaceId: WORKSPACE_ID, ...hours });
    expect(rows.map(({ count }) => count)).toEqual([12, 12]);
    const used = await counters.lastUsed(['k', 'other', 'never']);
    expect(used).toEqual(new Map(Object.entries({ k: 11, other: 3 })));
  });

  if (process.env.TRIBUTARY_TEST_LONG) volumeCountersConformance(harness);
});
