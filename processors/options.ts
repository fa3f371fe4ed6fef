import {
  DEFAULT_EXPIRY_MS,
  DEFAULT_PROFILE_BOUNDS,
  DEFAULT_RETRY_STEPS,
  type NullHandling,
  type ProfileBounds,
} from '@tributary/core';
import { type BreakerOptions, DEFAULT_BREAKER } from './deliver/admission.ts';
import { type AlertLimits, DEFAULT_ALERT_LIMITS } from './deliver/health.ts';
import { DEFAULT_FAILURE_LIMITS, type FailureLimits } from './route/transformer.ts';

/** The stages of the pipeline. */
export const STAGE_NAMES = [
  'validate',
  'validate.slow',
  'count',
  'funnel',
  'live',
  'profile',
  'history',
  'audit',
  'mail',
  'route',
  'route.slow',
  'replay',
  'notice',
  'deliver',
  'deliver.slow',
  'deliver.retry',
] as const;

/** Stages that read the catalog's facts: a rewrite of the catalog waits for them. */
export const CATALOG_STAGES: readonly StageName[] = ['audit', 'replay', 'notice'];

export type StageName = (typeof STAGE_NAMES)[number];

/** Every size and time of the stages. Bytes, ms. */
export interface PipelineOptions {
  /** How long a stage waits for its catalog before it pauses. */
  readonly catalogWaitMs: number;
  /** Entries in a batch of a stage that names no other number. */
  readonly batchEntries: number;
  /** Entries in a batch of history, audit and notice; an entry may contain an event and all its attempts, or a fact. */
  readonly historyEntries: number;
  /** Subjects of a partition whose profiles are written concurrently. */
  readonly profileWriters: number;
  /** Whether a trait of `null` removes the attribute. */
  readonly profileNulls: NullHandling;
  /** Bounds on the size of a profile. */
  readonly profileBounds: ProfileBounds;
  /** Delay of the retry of a mail that the mail server refused for now. */
  readonly mailRetryMs: number;
  /** Least time between two mails of an organization to one address; notices in between become one mail. */
  readonly mailEveryMs: number;
  /** Mails of an organization in an hour, in each process; what is beyond waits for the next mail. */
  readonly mailsPerHour: number;
  /** Retention of the topics: mails are dead-lettered before it ends. */
  readonly retentionMs: number;
  /** How long a `message_id` is remembered at least, ms. */
  readonly dedupeWindowMs: number;
  /** Window of a partition of a flow stage. Its records take about five times as much memory. */
  readonly windowBytes: number;
  /** Share of the window that one transformation or destination may fill before it waits for its earlier work. */
  readonly windowShare: number;
  /** How long a transformation may take before its event goes to the slow queue, ms: it delays deliveries. */
  readonly slowTransformationMs: number;
  /** The same for a request to a destination, which delays commits only, ms. */
  readonly slowRequestMs: number;
  /** Events and bytes of one sandbox call. */
  readonly transformEvents: number;
  readonly transformBytes: number;
  readonly failures: FailureLimits;
  /** Default limits of a destination: concurrent requests, and requests that begin in a second. */
  readonly maxRequests: number;
  readonly requestsPerSecond: number | undefined;
  /** Attempts kept in a delivery. */
  readonly keptAttempts: number;
  readonly breaker: BreakerOptions;
  /** When the health of a destination counts as changed. */
  readonly condition: AlertLimits;
  /** Delays of the retry topics, shortest first; the topics must be declared with the same. */
  readonly retrySteps: readonly string[];
  readonly expiryMs: number;
}

export const DEFAULT_PIPELINE: PipelineOptions = {
  catalogWaitMs: 5_000,
  batchEntries: 500,
  historyEntries: 200,
  profileWriters: 64,
  profileNulls: 'unset',
  profileBounds: DEFAULT_PROFILE_BOUNDS,
  mailRetryMs: 10 * 60_000,
  mailEveryMs: 60_000,
  mailsPerHour: 60,
  retentionMs: 7 * 24 * 3_600_000,
  dedupeWindowMs: 24 * 3_600_000,
  windowBytes: 1024 * 1024,
  windowShare: 1 / 8,
  slowTransformationMs: 200,
  slowRequestMs: 500,
  transformEvents: 200,
  transformBytes: 256 * 1024,
  failures: DEFAULT_FAILURE_LIMITS,
  maxRequests: 16,
  requestsPerSecond: undefined,
  keptAttempts: 50,
  breaker: DEFAULT_BREAKER,
  condition: DEFAULT_ALERT_LIMITS,
  retrySteps: DEFAULT_RETRY_STEPS,
  expiryMs: DEFAULT_EXPIRY_MS,
};
