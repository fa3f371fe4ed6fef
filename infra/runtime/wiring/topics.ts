import { declareTopics, receivedTopic, type TopicSpec } from '@tributary/core';
import type { Config } from '../config/settings.ts';

/** The topics of this installation. Every process of it must be configured the same. */
export function configuredTopics(config: Config): ReadonlyMap<string, TopicSpec> {
  return declareTopics({
    partitions: config.partitions,
    retentionMs: config.retention,
    retryLabels: config.retrySchedule,
    dedicated: config.dedicatedTopics,
  });
}

/** Every topic that holds received events. */
export function receivedTopics(config: Config): readonly string[] {
  return [receivedTopic('production'), receivedTopic('development'), ...config.dedicatedTopics];
}
