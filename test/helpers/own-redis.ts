import { onTestFinished } from 'vitest';
import type { RedisOptions, RunningEngine } from '../engines/index.ts';
import { ownEngines } from './own-engines.ts';
import { command } from './redis.ts';

/** A Redis of the test's own, to kill, pause and restart; ends with the test. */
export async function ownRedis(options: RedisOptions = {}): Promise<RunningEngine> {
  const redis = await ownEngines().redis.start(options);
  onTestFinished(() => redis.stop());
  return redis;
}

/** What is written from now on is gone after the next `kill`, as the last second is after a failover. */
export async function forgetFromNowOn({ url }: RunningEngine): Promise<void> {
  await command(url, 'CONFIG', 'SET', 'appendonly', 'no');
}
