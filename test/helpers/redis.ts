import { describeMachine, enginesOf, type RedisOptions, type RunningEngine } from '@tributary/infra';
import { Redis } from 'ioredis';
import { onTestFinished } from 'vitest';

/** Removes every key whose name begins with the prefix, braces of a hash tag aside. */
export async function removeKeys(url: string, prefix: string): Promise<void> {
  const client = new Redis(url);
  try {
    for (const match of [`${prefix}*`, `{${prefix}*`]) {
      for await (const keys of client.scanStream({ match, count: 1_000 })) {
        if (keys.length > 0) await client.unlink(...(keys as string[]));
      }
    }
  } finally {
    client.disconnect();
  }
}

/** A Redis of the test's own, to kill, pause and restart; ends with the test. */
export async function ownRedis(options: RedisOptions = {}): Promise<RunningEngine> {
  const redis = await enginesOf(describeMachine(process.env)).redis.start(options);
  onTestFinished(() => redis.stop());
  return redis;
}

/** One command from a client of its own. */
export async function command(url: string, name: string, ...args: string[]): Promise<unknown> {
  const client = new Redis(url);
  try {
    return await client.call(name, ...args);
  } finally {
    client.disconnect();
  }
}

/** What is written from now on is gone after the next `kill`, as the last second is after a failover. */
export async function forgetFromNowOn({ url }: RunningEngine): Promise<void> {
  await command(url, 'CONFIG', 'SET', 'appendonly', 'no');
}
