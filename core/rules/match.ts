import type { Destination, Rule } from '../catalog/entities.ts';
import { type CanonicalEvent, ENVIRONMENTS, type Environment, eventName } from '../event/event.ts';
import { filterVerdict } from './filter.ts';
import { FilterBudget } from './filter-evaluator.ts';

/** Why a rule does not take an event, first reason first. */
export const MISMATCHES = [
  'disabled',
  'environment',
  'event_type',
  'event_name',
  'filter',
  'filter_failed',
  'filter_not_evaluated',
  'destination_disabled',
  'destination_environment',
] as const;

/** `message` is only of a filter that failed or was not evaluated. */
export interface Mismatch {
  readonly because: (typeof MISMATCHES)[number];
  readonly message?: string;
}

/** A rule at an event: it takes the event, or the reason why it does not. */
export interface RuleMatch {
  readonly rule: Rule;
  readonly mismatch?: Mismatch;
}

/** Made once: most rules do not take most events. */
const MISMATCH = {
  environment: { because: 'environment' },
  event_type: { because: 'event_type' },
  event_name: { because: 'event_name' },
  filter: { because: 'filter' },
} satisfies Readonly<Record<string, Mismatch>>;

const NOT_EVALUATED: Mismatch = {
  because: 'filter_not_evaluated',
  message: 'not evaluated: the filters of the rules of this workspace take too much work for this event',
};

/**
 * All rules of a workspace that are enabled, in their order, at one event. Their filters share one budget: once it is
 * spent, no further filter is evaluated. The same rules and event always give the same answer.
 */
export function matchRules(
  rules: readonly Rule[],
  event: CanonicalEvent,
  budget = new FilterBudget(),
): readonly RuleMatch[] {
  return rules.map((rule) => {
    const mismatch = mismatchOf(rule, event, budget);
    return mismatch === undefined ? { rule } : { rule, mismatch };
  });
}

/** Whether a filter could not say if its rule takes the event: the event becomes a dead delivery of that rule. */
export function isUndecided({ because }: Mismatch): boolean {
  return because === 'filter_failed' || because === 'filter_not_evaluated';
}

/** Undefined when an enabled rule takes the event; empty lists of types or names take all. */
export function mismatchOf(rule: Rule, event: CanonicalEvent, budget?: FilterBudget): Mismatch | undefined {
  return rule.enabled ? mismatchOfContent(rule, event, budget) : { because: 'disabled' };
}

/** The same whether it is enabled or not. */
export function mismatchOfContent(
  rule: Rule,
  event: CanonicalEvent,
  budget?: FilterBudget,
): Mismatch | undefined {
  const { environments, event_types, event_names, filter } = rule;
  if (!environments.includes(event.environment)) return MISMATCH.environment;
  if (event_types.length > 0 && !event_types.includes(event.type)) return MISMATCH.event_type;
  if (event_names.length > 0 && !event_names.includes(eventName(event))) return MISMATCH.event_name;
  if (filter == null) return undefined;
  const verdict = filterVerdict(filter, event, budget);
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

/** Why a rule's destination gets no events of an environment; undefined when it does. */
export function closedTo(
  destination: Destination | undefined,
  environment: Environment,
): Mismatch | undefined {
  if (destination?.enabled !== true) return { because: 'destination_disabled' };
  const open = destination.environments ?? ENVIRONMENTS;
  return open.includes(environment) ? undefined : { because: 'destination_environment' };
}
