import {
  type Catalog,
  type Clock,
  type Logger,
  type Metrics,
  retryLabels,
  retryTopic,
  type StageReads,
  type StorageBudgets,
  TOPIC,
  type Tracing,
} from '@tributary/core';

/** What most stages are made of. */
export interface StageParts {
  readonly catalog: Catalog;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Epoch ms, for timestamps and expiry only: the clock may be set. */
  readonly clock: Clock;
  /** Ms of a monotonic clock, for durations and waits. */
  readonly elapsed: Clock;
  /** Retention of the topics, ms. */
  readonly retentionMs: number;
  /** Absent: no workspace has a budget of bytes. */
  readonly budgets?: Pick<StorageBudgets, 'verdictOf'> | undefined;
  /** Absent: no spans are recorded. */
  readonly tracing?: Tracing | undefined;
}

/** The settings that determine the topics that stages read. */
export interface ReadTopics {
  readonly receivedTopics: readonly string[];
  readonly retrySteps: readonly string[];
}

const retryTopics = ({ retrySteps }: ReadTopics) => retryLabels(retrySteps).map(retryTopic);

/** The stages of the pipeline, each with the topics that it reads. */
const STAGES = {
  validate: ({ receivedTopics }) => receivedTopics,
  'validate.slow': () => [TOPIC.receivedSlow],
  funnel: () => [TOPIC.funnelCounts],
  live: () => [TOPIC.accepted, TOPIC.rejected],
  profile: () => [TOPIC.accepted, TOPIC.profilesSlow],
  history: (topics) => [
    TOPIC.violations,
    TOPIC.deliveriesDead,
    TOPIC.outcomes,
    ...retryTopics(topics),
    TOPIC.replays,
    TOPIC.loads,
    TOPIC.profileOperations,
  ],
  audit: () => [TOPIC.catalog],
  mail: () => [TOPIC.mail, TOPIC.mailRetry],
  route: () => [TOPIC.accepted],
  'route.slow': () => [TOPIC.eventsSlow],
  replay: () => [TOPIC.catalog, TOPIC.replays, TOPIC.replaysWaiting],
  load: () => [TOPIC.loads],
  notice: () => [TOPIC.catalog],
  deliver: () => [TOPIC.deliveries],
  'deliver.slow': () => [TOPIC.deliveriesSlow],
  'deliver.retry': retryTopics,
} satisfies Record<string, (topics: ReadTopics) => readonly string[]>;

export type StageName = keyof typeof STAGES;

export const STAGE_NAMES = Object.keys(STAGES) as readonly StageName[];

export function topicsOf(stage: StageName, topics: ReadTopics): readonly string[] {
  return STAGES[stage](topics);
}

/** The same of all stages, for programs that run none. */
export function stageReads(topics: ReadTopics): readonly StageReads[] {
  return STAGE_NAMES.map((stage) => ({ stage, topics: topicsOf(stage, topics) }));
}

/** Stages that read the catalog's facts: a rewrite of the catalog waits for them. */
export const CATALOG_STAGES: readonly StageName[] = STAGE_NAMES.filter((stage) =>
  topicsOf(stage, { receivedTopics: [], retrySteps: [] }).includes(TOPIC.catalog),
);
