import { type CatalogView, organizationOf } from '../catalog/catalog.ts';
import type { Destination, Rule } from '../catalog/entities.ts';
import { type Delivery, type DeliveryEnvelope, hasEvent } from '../delivery/delivery.ts';
import {
  type CanonicalEvent,
  ENVIRONMENTS,
  type Environment,
  EVENT_TYPES,
  type EventType,
  eventName,
  type JsonObject,
} from '../event/event.ts';
import type { Headers } from '../log/event-log.ts';
import { HEADER } from '../log/topics.ts';
import { isNotice } from '../notices/notices.ts';
import { evaluateFilter } from './filter.ts';
import { FilterBudget } from './filter-evaluator.ts';
import { excludes } from './integrations.ts';

/** Why a rule does not match an event, in the order of the checks. */
const RULE_MISMATCHES = [
  'disabled',
  'environment',
  'event_type',
  'event_name',
  'filter',
  'filter_failed',
  'filter_not_evaluated',
] as const;

/** Why the destination of a rule takes no delivery of an event, in the order of the checks. */
const DESTINATION_MISMATCHES = [
  'destination_disabled',
  'destination_environment',
  'integrations',
  'warehouse',
] as const;

export const MISMATCHES = [...RULE_MISMATCHES, ...DESTINATION_MISMATCHES] as const;

/** `message` only for a filter that failed or was not evaluated. */
export interface Mismatch<Because extends string = (typeof MISMATCHES)[number]> {
  readonly because: Because;
  readonly message?: string;
}

export type RuleMismatch = Mismatch<(typeof RULE_MISMATCHES)[number]>;
export type DestinationMismatch = Mismatch<(typeof DESTINATION_MISMATCHES)[number]>;

/** What of a rule decides a mismatch. */
const DECIDED_BY: Readonly<
  Record<RuleMismatch['because'], 'status' | 'lists' | 'filter' | 'undecided filter'>
> = {
  disabled: 'status',
  environment: 'lists',
  event_type: 'lists',
  event_name: 'lists',
  filter: 'filter',
  filter_failed: 'undecided filter',
  filter_not_evaluated: 'undecided filter',
};

/** Created once: most rules do not match most events. */
const MISMATCH = {
  disabled: { because: 'disabled' },
  environment: { because: 'environment' },
  event_type: { because: 'event_type' },
  event_name: { because: 'event_name' },
  filter: { because: 'filter' },
  warehouse: { because: 'warehouse' },
} satisfies Readonly<Record<string, Mismatch>>;

const NOT_EVALUATED: RuleMismatch = {
  because: 'filter_not_evaluated',
  message: 'not evaluated: the filters of the rules of this workspace take too much work for this event',
};

/** Whether the filter failed or was not evaluated: the event becomes a dead delivery of that rule. */
export function isUndecided({ because }: RuleMismatch): boolean {
  return DECIDED_BY[because] === 'undecided filter';
}

/** Whether the lists of a rule leave an event out, whatever its fields. */
export function isLeftOut({ because }: RuleMismatch): boolean {
  return DECIDED_BY[because] === 'lists';
}

/** An event as rules match it. What route keeps by kind of event is kept by all fields but `event`. */
export interface RuleSubject {
  readonly environment: Environment;
  readonly type: EventType;
  /** As `eventName`. */
  readonly name: string;
  /** The whole, which is read for a filter alone: where it is a getter, other rules need not have it parsed. */
  readonly event: CanonicalEvent;
}

export function subjectOfRules(event: CanonicalEvent): RuleSubject {
  return { environment: event.environment, type: event.type, name: eventName(event), event };
}

/**
 * Why a rule does not match an event; undefined where it does. Empty lists of types or names match all. The rules of a
 * workspace are matched in order with one budget for their filters: once it is exhausted, no further filter is evaluated. The
 * same rules and event always give the same result.
 */
export function mismatchOf(
  rule: Rule,
  subject: RuleSubject,
  budget = new FilterBudget(),
): RuleMismatch | undefined {
  if (!rule.enabled) return MISMATCH.disabled;
  const { environments, event_types, event_names, filter } = rule;
  if (!environments.includes(subject.environment)) return MISMATCH.environment;
  if (event_types.length > 0 && !event_types.includes(subject.type)) return MISMATCH.event_type;
  if (event_names.length > 0 && !event_names.includes(subject.name)) return MISMATCH.event_name;
  if (filter == null) return undefined;
  const verdict = evaluateFilter(filter, subject.event, budget);
  switch (verdict) {
    case 'matched':
      return undefined;
    case 'not matched':
      return MISMATCH.filter;
    case 'not evaluated':
      return NOT_EVALUATED;
    default:
      return { because: 'filter_failed', message: verdict.failed };
  }
}

type DestinedEvent = Pick<CanonicalEvent, 'environment'> & { readonly integrations?: JsonObject | undefined };

/** Why a rule's destination gets no delivery of an event; undefined when it does. A warehouse gets none: it is loaded. */
export function destinationMismatch(
  destination: Destination | undefined,
  event: DestinedEvent,
): DestinationMismatch | undefined {
  const closed = closedTo(destination, event);
  return closed ?? (destination?.warehouse === true ? MISMATCH.warehouse : undefined);
}

/** Why a destination takes an event neither by a delivery nor by a load; undefined when it does. */
export function closedTo(
  destination: Destination | undefined,
  event: DestinedEvent,
): DestinationMismatch | undefined {
  if (destination?.enabled !== true) return { because: 'destination_disabled' };
  const open = destination.environments ?? ENVIRONMENTS;
  if (!open.includes(event.environment)) return { because: 'destination_environment' };
  return excludes(event.integrations, destination) ? { because: 'integrations' } : undefined;
}

/** Bound on the filter's work for a delivery in flight: a tenth of the bound for all filters of an event. */
const FILTER_WORK = 10_000;

/** What of a changed rule cancels its deliveries; undefined for a filter that does not decide. */
const CANCELLED: Readonly<Record<RuleMismatch['because'], string | undefined>> = {
  disabled: 'the rule is disabled',
  environment: 'the rule does not take events of this environment',
  event_type: 'the rule does not take events of this type',
  event_name: 'the rule does not take events of this name',
  filter: 'the filter of the rule does not take the event',
  filter_failed: undefined,
  filter_not_evaluated: undefined,
};

/**
 * The text of `HEADER.ruleEvent`, from which `cancelledByRule` reads type and name of an event before its
 * transformation.
 */
export function ruleEventText({ type, name }: Pick<RuleSubject, 'type' | 'name'>): string {
  return `${type}:${name}`;
}

/**
 * Why a delivery in flight is cancelled: its rule was deleted, disabled or changed, and would not create it now.
 * Undefined where it would, or where the rule did not change since the delivery was created or redriven (`headers`
 * are those of its entry): a user may redrive or replay deliveries of a disabled rule.
 *
 * Environment, type and name are those of the event that the rule matched. The filter is evaluated where no
 * transformation changed the event; one that fails cancels nothing. The transformation is not run again.
 */
export function cancelledByRule(
  delivery: DeliveryEnvelope,
  headers: Headers,
  workspaceId: string,
  state: Pick<CatalogView, 'entity' | 'workspace'>,
): string | undefined {
  const rule = state.entity('rule', workspaceId, delivery.rule_id);
  if (headers[HEADER.ruleVersion] === String(rule?.version ?? 0)) return undefined;
  if (rule === undefined)
    return hasEvent(delivery) && isNotice(delivery) ? undefined : 'the rule was deleted';
  if (!rule.enabled) return CANCELLED.disabled;
  if (rule.destination_id !== delivery.destination_id) return 'the rule forwards to another destination';
  // Evaluated once the event was read, see `needsEventToMatch`.
  if (!hasEvent(delivery)) return undefined;
  const { rule: matched, event } = matchable(rule, delivery, headers[HEADER.ruleEvent]);
  const budget = new FilterBudget(organizationOf(state, workspaceId), FILTER_WORK);
  const because = mismatchOf(matched, subjectOfRules(event), budget)?.because;
  return because && CANCELLED[because];
}

/** Whether `cancelledByRule` decides about the delivery only with its event, which is elsewhere. */
export function needsEventToMatch(
  delivery: DeliveryEnvelope,
  headers: Headers,
  workspaceId: string,
  state: Pick<CatalogView, 'entity'>,
): boolean {
  if (hasEvent(delivery)) return false;
  const rule = state.entity('rule', workspaceId, delivery.rule_id);
  return headers[HEADER.ruleVersion] !== String(rule?.version ?? 0);
}

/** The parts of a rule that can be matched with a delivery, and the event as the rule matched it. */
function matchable(
  rule: Rule,
  { event, environment }: Delivery,
  ruleEvent: string | undefined,
): { readonly rule: Rule; readonly event: CanonicalEvent } {
  if (ruleEvent === undefined && rule.transformation_id === null) return { rule, event };
  const [, typeText, name] = /^([a-z]+):(.*)$/s.exec(ruleEvent ?? '') ?? [];
  const type = EVENT_TYPES.find((known) => known === typeText);
  // The input of the transformation of a redriven delivery is unknown.
  if (type === undefined || name === undefined)
    return {
      rule: { ...rule, event_types: [], event_names: [], filter: null },
      event: { ...event, environment },
    };
  return { rule: { ...rule, filter: null }, event: { ...event, environment, type, event: name, name } };
}
