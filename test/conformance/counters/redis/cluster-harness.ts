import { type RedisCluster, startRedisCluster } from '../../../helpers/redis-cluster.ts';
import { redisHarness } from './harness.ts';

let cluster: RedisCluster | undefined;

/** Starts the cluster of this process's harness; the suite's child processes get its address. */
export async function start(): Promise<RedisCluster> {
  cluster = await startRedisCluster();
  return cluster;
}

export const harness = redisHarness(
  'Redis Cluster',
  import.meta.url,
  () => cluster?.url ?? '',
  () => cluster?.nodes.map(({ url }) => url) ?? [],
);
