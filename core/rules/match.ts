import type { Destination, Rule } from '../catalog/entities.ts';
import { type CanonicalEvent, ENVIRONMENTS, type Environment, eventName } from '../event/event.ts';
import { filterVerdict } from './filter.ts';

/** Why a rule does not take an event, first reason first. */
export const MISMATCHES = [
  'disabled',
  'environment',
  'event_type',
  'event_name',
  'filter',
  'filter_failed',
  'destination_disabled',
  'destination_environment',
] as const;

/** `message` is only of a filter that failed. */
export interface Mismatch {
  readonly because: (typeof MISMATCHES)[number];
  readonly message?: string;
}

/** Undefined when an enabled rule takes the event; empty lists of types or names take all. */
export function mismatchOf(rule: Rule, event: CanonicalEvent): Mismatch | undefined {
  return rule.enabled ? mismatchOfContent(rule, event) : { because: 'disabled' };
}

/** The same whether it is enabled or not. */
export function mismatchOfContent(rule: Rule, event: CanonicalEvent): Mismatch | undefined {
  const { environments, event_types, event_names, filter } = rule;
  if (!environments.includes(event.environment)) return { because: 'environment' };
  if (event_types.length > 0 && !event_types.includes(event.type)) return { because: 'event_type' };
  if (event_names.length > 0 && !event_names.includes(eventName(event))) return { because: 'event_name' };
  if (filter == null) return undefined;
  const verdict = filterVerdict(filter, event);
  if (verdict === 'matched') return undefined;
  return verdict === 'not matched'
    ? { because: 'filter' }
    : { because: 'filter_failed', message: verdict.failed };
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
