import { type EventLog, TOPIC, type VolumeCounters } from '@tributary/core';
import type { Config } from '../config/settings.ts';
import { type EngineWatch, watchEngines } from '../observability/engine-watch.ts';

/** Watches those engines of a process that are not in its data folder. */
export function watchConfiguredEngines(
  config: Pick<Config, 'kafkaBrokers' | 'redisUrl'>,
  { log, counters }: { readonly log: EventLog; readonly counters: VolumeCounters },
): EngineWatch {
  return watchEngines({
    ...(config.kafkaBrokers.length === 0 ? {} : { kafka: () => log.end(TOPIC.catalog, 0) }),
    ...(config.redisUrl === undefined ? {} : { redis: () => counters.lastUsed(['nobody']) }),
  });
}
