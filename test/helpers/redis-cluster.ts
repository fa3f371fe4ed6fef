import type { RunningEngine } from '../engines/index.ts';
import { ownEngines } from './own-engines.ts';
import { command, withDocumentedRights } from './redis.ts';

const SLOTS = 16_384;

export interface RedisCluster {
  /** All primaries. */
  readonly nodes: readonly RunningEngine[];
  /** With the documented rights. */
  readonly url: string;
  stop(): Promise<void>;
}

/** A cluster of three primaries without replicas. */
export async function startRedisCluster(): Promise<RedisCluster> {
  const { redis } = ownEngines();
  const nodes = await Promise.all([0, 1, 2].map(() => redis.start({ clusterNode: true })));
  const stop = async () => void (await Promise.all(nodes.map((node) => node.stop())));
  try {
    await join(nodes.map(({ url }) => url));
    const urls = await Promise.all(nodes.map(({ url }) => withDocumentedRights(url)));
    return { nodes, url: urls.join(','), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function join(urls: readonly string[]): Promise<void> {
  const [first = ''] = urls;
  for (const [n, url] of urls.entries()) {
    const slot = (node: number) => Math.floor((node * SLOTS) / urls.length);
    await command(url, 'CLUSTER', 'ADDSLOTSRANGE', String(slot(n)), String(slot(n + 1) - 1));
    await command(url, 'CLUSTER', 'SET-CONFIG-EPOCH', String(n + 1));
    const [, port = '', bus = ''] = /:(\d+)@(\d+)/.exec(String(await command(url, 'CLUSTER', 'NODES'))) ?? [];
    if (url !== first) await command(first, 'CLUSTER', 'MEET', '127.0.0.1', port, bus);
  }
  for (const deadline = Date.now() + 20_000; !(await Promise.all(urls.map(isWhole))).every(Boolean); ) {
    if (Date.now() > deadline) throw new Error('the nodes found no cluster');
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function isWhole(url: string): Promise<boolean> {
  const info = String(await command(url, 'CLUSTER', 'INFO'));
  return info.includes('cluster_state:ok') && info.includes('cluster_known_nodes:3');
}
