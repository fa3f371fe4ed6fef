import { type EventLog, type History, type ProfileStore, TOPIC, type VolumeCounters } from '@tributary/core';
import type { Config } from '../config/settings.ts';
import { type EngineHealth, reportingCalls } from '../observability/engine-health.ts';
import { type EngineWatch, watchEngines } from '../observability/engine-watch.ts';

type EngineConfig = Pick<Config, 'kafkaBrokers' | 'redisUrl' | 'elasticsearchUrl'>;

interface EnginePorts {
  readonly log: EventLog;
  readonly counters: VolumeCounters;
  readonly history: History;
}

/** Watches those engines of a process that are not in its data folder. */
export function watchConfiguredEngines(
  { kafkaBrokers, redisUrl, elasticsearchUrl }: EngineConfig,
  { log, counters, history }: EnginePorts,
  health: EngineHealth,
): EngineWatch {
  return watchEngines(
    {
      ...(kafkaBrokers.length === 0 ? {} : { kafka: { read: () => log.end(TOPIC.catalog, 0) } }),
      ...(redisUrl === undefined
        ? {}
        : {
            redis: {
              read: () => counters.lastUsed(['nobody']),
              // A key that does not exist: a server without memory still answers reads.
              write: () => counters.touch({ keyId: 'nobody', at: Date.now() }),
            },
          }),
      ...(elasticsearchUrl === undefined
        ? {}
        : { elasticsearch: { read: () => history.get('audit', 'nobody', 'nothing') } }),
    },
    health,
  );
}

/** The log, with its appends reported where it is on Kafka. */
export function watchedLog(log: EventLog, { kafkaBrokers }: EngineConfig, health: EngineHealth): EventLog {
  if (kafkaBrokers.length === 0) return log;
  return reportingCalls(log, ['append'], (error) => health.wrote('kafka', error));
}

/** The profiles, with their writes reported where they are on Elasticsearch. */
export function watchedProfiles(
  profiles: ProfileStore,
  { elasticsearchUrl }: EngineConfig,
  health: EngineHealth,
): ProfileStore {
  if (elasticsearchUrl === undefined) return profiles;
  const calls = ['upsert', 'delete', 'unlink'] as const;
  return reportingCalls(profiles, calls, (error) => health.wrote('elasticsearch', error));
}

/** The history, the same. */
export function watchedHistory(
  history: History,
  { elasticsearchUrl }: EngineConfig,
  health: EngineHealth,
): History {
  if (elasticsearchUrl === undefined) return history;
  return reportingCalls(history, ['put'], (error) => health.wrote('elasticsearch', error));
}
