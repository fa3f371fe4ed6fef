import type { Rule } from '../catalog/entities.ts';
import type { Environment, EventType } from '../event/event.ts';

export interface RuleSubject {
  readonly type: EventType;
  readonly name: string;
  readonly environment: Environment;
}

/** True when an enabled rule takes the event; empty lists of types or names take all. */
export function ruleMatches(rule: Rule, event: RuleSubject): boolean {
  return (
    rule.enabled &&
    rule.environments.includes(event.environment) &&
    (rule.event_types.length === 0 || rule.event_types.includes(event.type)) &&
    (rule.event_names.length === 0 || rule.event_names.includes(event.name))
  );
}
