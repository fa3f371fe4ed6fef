import type { Clock, EventLog, Metrics, TopicSpec } from '@tributary/core';
import { declareTopics, TOPIC } from '@tributary/core';
import type { InFlightTable } from '@tributary/infra/adapters/event-log/stage-runner';

/** The location of a log's data, as JSON, so that a child process can open the same. */
export type Medium = Readonly<Record<string, string>>;

export interface OpenOverrides {
  readonly clock?: Clock;
  readonly metrics?: Metrics;
  readonly maxUnconfirmedBytes?: number;
  readonly maxUncommitted?: number;
  readonly stopGraceMs?: number;
  readonly inFlight?: InFlightTable;
}

/** The part of the suite that an adapter provides. Child processes load its module too. */
export interface EventLogHarness {
  /** The module that exports this harness as `harness`, for child processes. */
  readonly module: string;
  /** Kills of a process in the short form: fewer where each costs a session timeout. Default 4. */
  readonly kills?: number;
  /** A fresh medium with the topics of `TOPICS` created. */
  create(): Promise<Medium>;
  open(medium: Medium, overrides?: OpenOverrides): Promise<EventLog>;
  /** Makes the engine stop answering writes until the returned function is called. */
  outage(medium: Medium): Promise<() => Promise<void>>;
  destroy(medium: Medium): Promise<void>;
}

export const PARTITIONS = 4;

/** A packed topic, three plain ones, and a delayed one. */
export const RECEIVED = 'events.production';
export const SOURCE = 'events.accepted';
export const TARGET = 'deliveries';
export const OTHER_TARGET = 'violations';
export const DELAYED = 'deliveries.retry.10s';

const USED = [
  ...[RECEIVED, SOURCE, TARGET, OTHER_TARGET, DELAYED],
  ...[TOPIC.poison, TOPIC.crashes, TOPIC.funnelCounts, TOPIC.catalog],
];
const declared = declareTopics({
  partitions: PARTITIONS,
  retentionMs: 3_600_000,
  retrySteps: ['10s'],
  dedicated: [],
});
/** Of the declared topics those that the suite uses: each test creates them anew, on an engine that takes its time for each. */
export const TOPICS: ReadonlyMap<string, TopicSpec> = new Map(
  [...declared].filter(([name]) => USED.includes(name)),
);
