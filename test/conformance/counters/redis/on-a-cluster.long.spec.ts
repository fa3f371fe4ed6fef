import { afterAll, beforeAll, describe } from 'vitest';
import { engines } from '../../../helpers/engines.ts';
import type { RedisCluster } from '../../../helpers/redis-cluster.ts';
import { countersConformance } from '../suite/counters.conformance.ts';
import { harness, start } from './cluster-harness.ts';

describe.skipIf(!engines())('on a real cluster', () => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await start();
  });
  afterAll(() => cluster.stop());

  countersConformance(harness);
});
