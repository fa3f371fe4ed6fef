import { onTestFinished } from 'vitest';
import type { RedisOptions, RunningEngine } from '../engines/index.ts';
import { ownEngines } from './own-engines.ts';
import { command } from './redis.ts';

/** A Redis for one test, to kill, pause and restart; ends with the test. */
export async function ownRedis(options: RedisOptions = {}): Promise<RunningEngine> {
  const redis = await ownEngines().redis.start(options);
  onTestFinished(() => redis.stop());
  return redis;
}

/** Writes from now on are lost at the next `kill`, as those of the last second are after a failover. */
export async function forgetFromNowOn({ url }: RunningEngine): Promise<void> {
  await command(url, 'CONFIG', 'SET', 'appendonly', 'no');
}
