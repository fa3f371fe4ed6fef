import type { Violation } from '../contracts/violation.ts';
import type { DeliveryAttempt, DeliveryOutcome } from '../delivery/delivery.ts';
import type { Position } from '../log/event-log.ts';
import type { Mismatch } from '../rules/match.ts';
import type { DiscardPlace } from '../warehouse/loads.ts';
import type { CanonicalEvent } from './event.ts';

/** The position of an entry in the log and the time at which it was appended, epoch ms. */
export interface EntryLocation {
  readonly position: Position;
  readonly at: number;
}

/** The stages of the pipeline that an event passes, in order. */
export const TRACE_STAGES = [
  'validate',
  'validate.slow',
  'route',
  'route.slow',
  'deliver',
  'deliver.slow',
  'deliver.retry',
] as const;
export type TraceStage = (typeof TRACE_STAGES)[number];

/** The verdict of the event's contract. `contract_id` and `contract_version` are absent when no contract applies. */
export interface ContractStep {
  readonly outcome: 'accepted' | 'warned' | 'omitted' | 'rejected';
  readonly contract_id?: string;
  readonly contract_version?: number;
  readonly violations: readonly Pick<Violation, 'kind' | 'path' | 'message' | 'action'>[];
  /** Set when the event was rejected and a replay of rejected events accepted it. */
  readonly reevaluated?: Reevaluated;
}

/** The verdict on a rejected event when a replay had it re-evaluated. */
export interface Reevaluated extends Omit<ContractStep, 'reevaluated' | 'violations'> {
  readonly replay_id: string;
  /** When the replay requested the re-evaluation, epoch ms. */
  readonly at: number;
}

/**
 * One delivery of an event.
 *
 * - `pending`: no attempt has ended; the delivery waits for `stage`.
 * - `delivered` with `first_try`: a first attempt that succeeds leaves no record, so `attempts` is empty, unless its answer
 *   is recorded.
 * - `unknown`: the log was not read completely, or a stage dead-lettered the delivery.
 */
export interface DeliveryTrace {
  readonly id: string;
  readonly index: number;
  readonly destination_id: string;
  readonly status: 'pending' | DeliveryOutcome['status'] | 'unknown';
  readonly stage?: TraceStage;
  readonly first_try: boolean;
  readonly attempts: readonly DeliveryAttempt[];
  readonly reason?: string;
  readonly cause?: DeliveryOutcome['cause'];
  readonly created_at: string;
  readonly next_attempt_at?: string;
}

/**
 * The result of a rule's transformation: `none` when the rule has no transformation; `outputs`, with one delivery each;
 * `dropped`; `failed`, with a dead delivery. `unknown` until route has applied the rule, and when the log was not read
 * completely.
 */
export type TransformationResult = 'none' | 'outputs' | 'dropped' | 'failed' | 'unknown';

/** The path of an event at one rule, evaluated with the rule's current version. */
export interface RuleTrace {
  readonly rule_id: string;
  readonly name: string;
  readonly version: number;
  readonly destination_id: string;
  readonly transformation_id: string | null;
  /**
   * Why the current version of the rule does not match; absent when it does. `not_at_the_time`: it matches now, but was
   * changed since and has no deliveries of the event. `over_budget`: no rule was applied, as the workspace was over a budget;
   * one of them has the dead delivery.
   */
  readonly mismatch?: Mismatch | { readonly because: 'not_at_the_time' | 'over_budget' };
  /**
   * The rule or its destination was made or changed after the event was accepted: only deliveries show whether the rule
   * matched at the time.
   */
  readonly changed_since: boolean;
  /** The stage in which the event waits for the rule's transformation. */
  readonly stage?: TraceStage;
  readonly transformation: TransformationResult;
  readonly deliveries: readonly DeliveryTrace[];
}

/** An event at a warehouse that takes it. Only live loading is looked at, no backfill. */
export interface LoadTrace {
  readonly destination_id: string;
  /**
   * - `waiting`: its loader has not loaded the event yet;
   * - `loaded`: it has. A transformation of its rule may have dropped the event;
   * - `before`: the event was accepted before the warehouse was made, so that only a replay loads it;
   * - `unknown`: history did not answer.
   */
  readonly status: 'waiting' | 'loaded' | 'before' | 'unknown';
  /** The load that has it, where it was found. */
  readonly load?: { readonly id: string /** ISO 8601 */; readonly at: string };
  /** What of it is in `discards`; absent while that is not known. */
  readonly discards?: readonly DiscardPlace[];
}

/** How much of the log and of the engines a trace read. */
export interface ScanCoverage {
  /** False when the time was up, or an engine did not answer, before everything was read. */
  readonly complete: boolean;
  readonly entries: number;
  readonly duration_ms: number;
  /** Engines that did not answer. */
  readonly unanswered: readonly string[];
}

/** The path of one event through the pipeline, as far as it is known. */
export interface EventTrace {
  readonly event: CanonicalEvent;
  readonly received: EntryLocation;
  readonly key_id?: string;
  /** Absent while the event waits for validate. */
  readonly contract?: ContractStep;
  /** The entry on `events.accepted`. */
  readonly accepted?: EntryLocation;
  /** Set while the event as a whole waits for a stage: no rule is applied yet. */
  readonly stage?: TraceStage;
  /** The stage that dead-lettered the event, on `stages.dead`. */
  readonly poisoned?: { readonly stage: string; readonly error: string };
  readonly rules: readonly RuleTrace[];
  readonly loads: readonly LoadTrace[];
  readonly scan: ScanCoverage;
}

/**
 * - `under_way`: a stage, an attempt or a retry is still to come; or a load, where there is nothing to deliver.
 * - `delivered`: all deliveries that were wanted were delivered.
 * - `dead`: a delivery is dead, and nothing is under way.
 * - `discarded`: a dead delivery was discarded, and nothing is under way.
 * - `loaded`: there is nothing to deliver, and a warehouse has it.
 * - `not_forwarded`: there is nothing to deliver, or nothing of it was wanted; no warehouse takes it.
 * - `rejected`: the contract rejected the event.
 * - `failed`: a stage dead-lettered the event.
 * - `unknown`: the log was not read completely.
 */
type EventTraceStatus =
  | 'under_way'
  | 'delivered'
  | 'dead'
  | 'discarded'
  | 'loaded'
  | 'not_forwarded'
  | 'rejected'
  | 'failed'
  | 'unknown';

/** The status of an event as a whole. */
export function statusOf(trace: EventTrace): EventTraceStatus {
  const { contract, accepted, stage, poisoned, rules, loads, scan } = trace;
  if (poisoned !== undefined) return 'failed';
  if (contract?.outcome === 'rejected' && contract.reevaluated === undefined) return 'rejected';
  if (stage !== undefined || rules.some((rule) => rule.stage !== undefined)) return 'under_way';
  const deliveries = rules.flatMap((rule) => rule.deliveries);
  const is = (...statuses: readonly DeliveryTrace['status'][]) =>
    deliveries.some(({ status }) => statuses.includes(status));
  if (is('pending', 'retrying')) return 'under_way';
  const undecided = rules.some((rule) => rule.mismatch === undefined && rule.transformation === 'unknown');
  if (accepted === undefined || undecided || (!scan.complete && deliveries.length === 0)) return 'unknown';
  if (is('unknown')) return 'unknown';
  if (is('dead')) return 'dead';
  if (is('discarded')) return 'discarded';
  if (is('delivered')) return 'delivered';
  if (loads.some(({ status }) => status === 'waiting')) return 'under_way';
  return loads.some(({ status }) => status === 'loaded') ? 'loaded' : 'not_forwarded';
}

/** The first stage that an event waits for; undefined when it waits for none. */
export function stageOf({ stage, rules }: Pick<EventTrace, 'stage' | 'rules'>): TraceStage | undefined {
  if (stage !== undefined) return stage;
  for (const rule of rules) {
    const waiting = rule.stage ?? rule.deliveries.find((delivery) => delivery.stage !== undefined)?.stage;
    if (waiting !== undefined) return waiting;
  }
  return undefined;
}
