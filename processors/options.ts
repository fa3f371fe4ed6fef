import { DEFAULT_EXPIRY_MS, DEFAULT_RETRY_LABELS, type NullHandling } from '@tributary/core';
import { type AlertLimits, DEFAULT_ALERT_LIMITS } from './deliver/health/evaluation.ts';
import { type BreakerOptions, DEFAULT_BREAKER } from './deliver/policy/circuit-breaker.ts';
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
  readonly profileNulls: NullHandling;
  /** After how long a mail is tried again that the mail server did not take. */
  readonly mailRetryMs: number;
  /** How long the topics are declared to keep records: mails are given up before that. */
  readonly retentionMs: number;
  /** How long a `message_id` is remembered at least, ms. */
  readonly dedupeWindowMs: number;
  /** Window of a partition of a flow stage. What it holds weighs about five times as much in memory. */
  readonly windowBytes: number;
  /** Share of that window that one transformation or destination may fill before it waits for its earlier work... */
  readonly laneShare: number;
  /** ...and how long a transformation may take before it goes to the slow queue; it delays the deliveries behind it... */
  readonly slowTransformationMs: number;
  /** ...or a request to a destination, which delays positions only. */
  readonly slowCallMs: number;
  /** Events and bytes of one sandbox call. */
  readonly transformEvents: number;
  readonly transformBytes: number;
  readonly failures: FailureLimits;
  /** Requests to a destination at a time, and requests that begin in a second, where it has no limits of its own. */
  readonly maxCalls: number;
  readonly callsPerSecond: number | undefined;
  /** Attempts that a delivery keeps. */
  readonly keptAttempts: number;
  readonly breaker: BreakerOptions;
  /** When a destination is reported bad, or well again. */
  readonly condition: AlertLimits;
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
  condition: DEFAULT_ALERT_LIMITS,
  retryLabels: DEFAULT_RETRY_LABELS,
  expiryMs: DEFAULT_EXPIRY_MS,
};
