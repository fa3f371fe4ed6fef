import { type EventLog, type History, TOPIC, type VolumeCounters } from '@tributary/core';
import type { Config } from '../config/settings.ts';
import { type EngineWatch, watchEngines } from '../observability/engine-watch.ts';

/** Watches those engines of a process that are not in its data folder. */
export function watchConfiguredEngines(
  config: Pick<Config, 'kafkaBrokers' | 'redisUrl' | 'elasticsearchUrl'>,
  {
    log,
    counters,
    history,
  }: { readonly log: EventLog; readonly counters: VolumeCounters; readonly history: History },
): EngineWatch {
  return watchEngines({
    ...(config.kafkaBrokers.length === 0 ? {} : { kafka: () => log.end(TOPIC.catalog, 0) }),
    ...(config.redisUrl === undefined ? {} : { redis: () => counters.lastUsed(['nobody']) }),
    ...(config.elasticsearchUrl === undefined
      ? {}
      : { elasticsearch: () => history.get('audit', 'nobody', 'nothing') }),
  });
}
