import type { Violation } from '../contracts/violation.ts';
import type { DeliveryAttempt, DeliveryOutcome } from '../delivery/delivery.ts';
import type { CanonicalEvent } from '../event/event.ts';
import type { Position } from '../log/position.ts';
import type { Mismatch } from '../rules/match.ts';

/** Where something stands in the log, and when the log took it, epoch ms. */
export interface Placed {
  readonly position: Position;
  readonly at: number;
}

/** Stages that an event passes one after the other until it has left. */
export type WayStage =
  | 'validate'
  | 'validate.slow'
  | 'route'
  | 'route.slow'
  | 'deliver'
  | 'deliver.slow'
  | 'deliver.retry';

/** What the contract of an event said. Both of a contract are absent where none speaks of it. */
export interface ContractWay {
  readonly outcome: 'accepted' | 'warned' | 'omitted' | 'rejected';
  readonly contract_id?: string;
  readonly contract_version?: number;
  readonly violations: readonly Pick<Violation, 'kind' | 'path' | 'message' | 'action'>[];
  /** Set where it was rejected, and a replay of rejected events lets it pass. */
  readonly reevaluated?: Reevaluated;
}

/** What a contract said of a rejected event when it was evaluated once more. */
export interface Reevaluated extends Omit<ContractWay, 'reevaluated' | 'violations'> {
  readonly replay_id: string;
  /** When the replay sent it to be evaluated, epoch ms. */
  readonly at: number;
}

/**
 * One delivery of an event. `pending`: no attempt has ended, it waits for `stage`. A first attempt that succeeded leaves
 * no record beyond that, so its `attempts` are empty and `first_try` is true. `unknown`: not all was looked at that
 * would tell, or a stage gave it up.
 */
export interface DeliveryWay {
  readonly id: string;
  readonly index: number;
  readonly destination_id: string;
  readonly status: 'pending' | DeliveryOutcome['status'] | 'unknown';
  readonly stage?: WayStage;
  readonly first_try: boolean;
  readonly attempts: readonly DeliveryAttempt[];
  readonly reason?: string;
  readonly cause?: DeliveryOutcome['cause'];
  readonly created_at: string;
  readonly next_attempt_at?: string;
}

/**
 * What a rule's transformation made of an event: `none` where it has none; `outputs`, one delivery each; `dropped`; or
 * `failed`, which its dead delivery tells about. `unknown` while the rule was not looked at by route, or where the
 * time to look was over first.
 */
export type TransformationResult = 'none' | 'outputs' | 'dropped' | 'failed' | 'unknown';

/** What became of an event at one rule, as the rule is now. */
export interface RuleWay {
  readonly rule_id: string;
  readonly name: string;
  readonly version: number;
  readonly destination_id: string;
  readonly transformation_id: string | null;
  /**
   * Why it did not match, by the rule as it is now; absent where it did. `not_at_the_time`: it would by now, but was
   * changed since, and nothing of the event went its way.
   */
  readonly mismatch?: Mismatch | { readonly because: 'not_at_the_time' };
  /** It was changed after the event was accepted: then only the deliveries say whether it matched at the time. */
  readonly changed_since: boolean;
  /** The event waits here for its transformation. */
  readonly stage?: WayStage;
  readonly transformation: TransformationResult;
  readonly deliveries: readonly DeliveryWay[];
}

/** How far a look went. */
export interface Looked {
  /** False when the time was over, or an engine did not answer, before everything was looked at. */
  readonly complete: boolean;
  readonly entries: number;
  readonly duration_ms: number;
  /** Engines that did not answer. */
  readonly unanswered: readonly string[];
}

/** The way of one event through the pipeline, as far as it can be told. */
export interface Whereabouts {
  readonly event: CanonicalEvent;
  readonly received: Placed;
  readonly key_id?: string;
  /** Absent while it waits for validate. */
  readonly contract?: ContractWay;
  /** Its entry on `events.accepted`. */
  readonly accepted?: Placed;
  /** Set while it waits for a stage as a whole: none of its rules is decided. */
  readonly stage?: WayStage;
  /** A stage gave it up: it is on `stages.dead`. */
  readonly poisoned?: { readonly stage: string; readonly error: string };
  readonly rules: readonly RuleWay[];
  readonly looked: Looked;
}

/**
 * `under_way`: a stage, an attempt or a retry is still to come. `delivered`: everything that was to be is. `dead`: a
 * delivery was given up, and nothing is under way. `discarded`: so, and a person let it be. `not_forwarded`: there is
 * nothing to deliver. `failed`: a stage gave the event up. `unknown`: the look was not complete.
 */
export type WhereaboutsStatus =
  | 'under_way'
  | 'delivered'
  | 'dead'
  | 'discarded'
  | 'not_forwarded'
  | 'rejected'
  | 'failed'
  | 'unknown';

/** The one word for where an event is. */
export function statusOf({
  contract,
  accepted,
  stage,
  poisoned,
  rules,
  looked,
}: Whereabouts): WhereaboutsStatus {
  if (poisoned !== undefined) return 'failed';
  if (contract?.outcome === 'rejected' && contract.reevaluated === undefined) return 'rejected';
  if (stage !== undefined || rules.some((rule) => rule.stage !== undefined)) return 'under_way';
  const deliveries = rules.flatMap((rule) => rule.deliveries);
  const is = (...statuses: readonly DeliveryWay['status'][]) =>
    deliveries.some(({ status }) => statuses.includes(status));
  if (is('pending', 'retrying')) return 'under_way';
  const undecided = rules.some((rule) => rule.mismatch === undefined && rule.transformation === 'unknown');
  if (accepted === undefined || undecided || (!looked.complete && deliveries.length === 0)) return 'unknown';
  if (is('unknown')) return 'unknown';
  if (is('dead')) return 'dead';
  if (is('discarded')) return 'discarded';
  return deliveries.length > 0 ? 'delivered' : 'not_forwarded';
}

/** The stage an event waits for, the first of them; undefined when none. */
export function stageOf({ stage, rules }: Pick<Whereabouts, 'stage' | 'rules'>): WayStage | undefined {
  if (stage !== undefined) return stage;
  for (const rule of rules) {
    const waiting = rule.stage ?? rule.deliveries.find((delivery) => delivery.stage !== undefined)?.stage;
    if (waiting !== undefined) return waiting;
  }
  return undefined;
}
