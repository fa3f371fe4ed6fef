import {
  type BreakerOptions,
  type ConditionLimits,
  DEFAULT_BREAKER,
  DEFAULT_CONDITION,
  DEFAULT_EXPIRY_MS,
  DEFAULT_LADDER_LABELS,
  type NullMeaning,
} from '@tributary/core';
import { DEFAULT_FAILURE_LIMITS, type FailureLimits } from './route/failure-rate.ts';

/** Every size and time of the stages. Bytes, ms. */
export interface PipelineOptions {
  /** How long a stage waits for its catalog before it counts as unavailable. */
  readonly catalogWaitMs: number;
  /** Entries in a batch of validate and count. */
  readonly batchEntries: number;
  /** Entries in a batch of history and audit; each may hold an event and all its attempts, or a fact. */
  readonly historyEntries: number;
  /** Subjects of a partition whose profiles are written at a time. */
  readonly profileWriters: number;
  /** Whether a trait of `null` takes the attribute away. */
  readonly profileNulls: NullMeaning;
  /** After how long a mail is tried again that the mail server did not take. */
  readonly mailRetryMs: number;
  /** How long the topics are declared to keep records: mails are given up before that. */
  readonly retentionMs: number;
  /** How long a `message_id` is remembered at least, ms. */
  readonly dedupeWindowMs: number;
  /** Window of a partition of a flow stage. What it holds weighs about five times as much in memory. */
  readonly windowBytes: number;
  /** Share of that window one transformation or destination may fill before it waits for its own earlier work... */
  readonly laneShare: number;
  /** ...and how long a transformation may take before it goes to the slow lane, which holds up the deliveries behind it... */
  readonly slowTransformationMs: number;
  /** ...or a call of a destination, which holds up positions only. */
  readonly slowCallMs: number;
  /** Events and bytes of one sandbox call. */
  readonly transformEvents: number;
  readonly transformBytes: number;
  readonly failures: FailureLimits;
  /** Calls to one destination at a time, and such that begin in a second, where the destination says nothing else. */
  readonly maxCalls: number;
  readonly callsPerSecond: number | undefined;
  /** Attempts a delivery remembers. */
  readonly keptAttempts: number;
  readonly breaker: BreakerOptions;
  /** When a destination is told bad, or well again. */
  readonly condition: ConditionLimits;
  /** Waits of the retry topics, shortest first; the topics must be declared with the same. */
  readonly retryLabels: readonly string[];
  readonly expiryMs: number;
}

export const DEFAULT_PIPELINE: PipelineOptions = {
  catalogWaitMs: 5_000,
  batchEntries: 1_000,
  historyEntries: 200,
  profileWriters: 64,
  profileNulls: 'unset',
  mailRetryMs: 10 * 60_000,
  retentionMs: 7 * 24 * 3_600_000,
  dedupeWindowMs: 24 * 3_600_000,
  windowBytes: 4 * 1024 * 1024,
  laneShare: 1 / 8,
  slowTransformationMs: 200,
  slowCallMs: 500,
  transformEvents: 200,
  transformBytes: 256 * 1024,
  failures: DEFAULT_FAILURE_LIMITS,
  maxCalls: 16,
  callsPerSecond: undefined,
  keptAttempts: 50,
  breaker: DEFAULT_BREAKER,
  condition: DEFAULT_CONDITION,
  retryLabels: DEFAULT_LADDER_LABELS,
  expiryMs: DEFAULT_EXPIRY_MS,
};
