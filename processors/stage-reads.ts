import { retryLabels, retryTopic, type StageReads, TOPIC } from '@tributary/core';
import type { StageName } from './options.ts';

/** The settings that determine the topics that stages read. */
export interface ReadTopics {
  readonly receivedTopics: readonly string[];
  readonly retrySteps: readonly string[];
}

/** The topics that each stage of `createPipeline` reads, for programs that run no stage. */
export function stageReads({ receivedTopics, retrySteps }: ReadTopics): readonly StageReads[] {
  const { accepted, rejected } = TOPIC;
  const topics: Readonly<Record<StageName, readonly string[]>> = {
    validate: receivedTopics,
    'validate.slow': [TOPIC.receivedSlow],
    count: [accepted, rejected],
    funnel: [TOPIC.funnelCounts],
    live: [accepted, rejected],
    profile: [accepted, TOPIC.profilesSlow],
    history: [
      TOPIC.violations,
      TOPIC.deliveriesDead,
      TOPIC.outcomes,
      ...retryLabels(retrySteps).map(retryTopic),
      TOPIC.replays,
      TOPIC.profileOperations,
    ],
    audit: [TOPIC.catalog],
    mail: [TOPIC.mail, TOPIC.mailRetry],
    route: [accepted],
    'route.slow': [TOPIC.eventsSlow],
    replay: [TOPIC.catalog, TOPIC.replays, TOPIC.replaysWaiting],
    notice: [TOPIC.catalog],
    deliver: [TOPIC.deliveries],
    'deliver.slow': [TOPIC.deliveriesSlow],
    'deliver.retry': retryLabels(retrySteps).map(retryTopic),
  };
  return Object.entries(topics).map(([stage, reads]) => ({ stage, topics: reads }));
}
