import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../engines/engine-process.ts';
import type { RunningEngine } from '../engines/index.ts';
import { redisAnswer } from '../engines/redis.ts';
import { ownEngines } from './own-engines.ts';

/** The name under which the sentinels watch the primary. */
export const PRIMARY = 'tributary';
const SENTINELS = 3;
/** After this long a silent primary is down, ms. */
const DOWN_AFTER_MS = 1_000;

export interface RedisUnderSentinels {
  readonly primary: RunningEngine;
  readonly replica: RunningEngine;
  /** The sentinels. */
  readonly url: string;
  stop(): Promise<void>;
}

/** A primary and a replica, watched by three sentinels of which two decide on a failover. */
export async function startRedisUnderSentinels(): Promise<RedisUnderSentinels> {
  const { redis } = ownEngines();
  const closing: (() => Promise<unknown>)[] = [];
  const stop = async () => {
    for (const close of closing.splice(0).reverse()) await close();
  };
  try {
    const primary = await redis.start();
    closing.push(() => primary.stop());
    const replica = await redis.start({ replicaOf: primary.url });
    closing.push(() => replica.stop());
    const urls: string[] = [];
    for (let n = 0; n < SENTINELS; n++) {
      const sentinel = await startSentinel(primary.url);
      closing.push(sentinel.stop);
      urls.push(sentinel.url);
    }
    for (const url of urls)
      await until(async () => {
        const known = await redisAnswer(url, `SENTINEL CKQUORUM ${PRIMARY}`);
        return known.startsWith(`+OK ${SENTINELS}`);
      });
    for (const url of urls) await until(async () => (await replicasKnownTo(url)) === 1);
    return { primary, replica, url: urls.join(','), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function replicasKnownTo(url: string): Promise<number> {
  const [, count] = /:(\d+)/.exec(await redisAnswer(url, `SENTINEL REPLICAS ${PRIMARY}`, 1_000)) ?? [];
  if (count !== undefined) return Number(count);
  return (await redisAnswer(url, `SENTINEL REPLICAS ${PRIMARY}`)).startsWith('*1') ? 1 : 0;
}

async function startSentinel(primaryUrl: string) {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-sentinel-'));
  const port = await freePort();
  const { hostname, port: primaryPort } = new URL(primaryUrl);
  const config = join(folder, 'sentinel.conf');
  await writeFile(
    config,
    [
      `port ${port}`,
      'bind 127.0.0.1',
      `dir ${folder}`,
      `sentinel monitor ${PRIMARY} ${hostname} ${primaryPort} 2`,
      `sentinel down-after-milliseconds ${PRIMARY} ${DOWN_AFTER_MS}`,
      `sentinel failover-timeout ${PRIMARY} 5000`,
      '',
    ].join('\n'),
  );
  const child = spawn('redis-server', [config, '--sentinel'], { stdio: 'ignore' });
  const ended = once(child, 'exit');
  const stop = async () => {
    child.kill('SIGKILL');
    await ended;
    await rm(folder, { recursive: true, force: true });
  };
  const url = `redis://127.0.0.1:${port}`;
  await until(async () => (await redisAnswer(url, 'PING', 500)) === '+PONG');
  return { url, stop };
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  for (const deadline = Date.now() + 30_000; !(await holds().catch(() => false)); ) {
    if (Date.now() > deadline) throw new Error('the sentinels are not ready');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
