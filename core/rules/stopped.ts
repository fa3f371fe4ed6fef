import type { Rule } from '../catalog/entities.ts';
import type { CatalogView } from '../catalog/state.ts';
import type { Delivery } from '../delivery/delivery.ts';
import { isNotice } from '../delivery/destination-notice.ts';
import { type CanonicalEvent, EVENT_TYPES, eventName } from '../event/event.ts';
import type { Headers } from '../log/event-log.ts';
import { HEADER } from '../log/headers.ts';
import { FilterBudget } from './filter-evaluator.ts';
import { mismatchOfContent } from './match.ts';

/** Work of a filter at a delivery under way: a tenth of what the filters of one event may take. */
const FILTER_WORK = 10_000;

const REASONS = {
  environment: 'the rule does not take events of this environment',
  event_type: 'the rule does not take events of this type',
  event_name: 'the rule does not take events of this name',
  filter: 'the filter of the rule does not take the event',
} as const;

/** What `stoppedByRule` reads of an event before its transformation. */
export function ruleEventText(event: CanonicalEvent): string {
  return `${event.type}:${eventName(event)}`;
}

/**
 * Why a delivery under way is not to be made any more: its rule was deleted, disabled or changed, and would not make it
 * now. Undefined where it would, or where the rule did not change since the delivery was made or redriven (`headers` are
 * those of its entry): a person may redrive or replay what a disabled rule made.
 *
 * Environments, types and names are those of the event that the rule took. The filter is evaluated where no
 * transformation changed the event; one that cannot say stops nothing. What the transformation would make now is not
 * asked.
 */
export function stoppedByRule(
  delivery: Delivery,
  headers: Headers,
  workspaceId: string,
  state: Pick<CatalogView, 'entity'>,
): string | undefined {
  const rule = state.entity('rule', workspaceId, delivery.rule_id);
  if (headers[HEADER.ruleVersion] === String(rule?.version ?? 0)) return undefined;
  if (rule === undefined) return isNotice(delivery) ? undefined : 'the rule is gone';
  if (!rule.enabled) return 'the rule is disabled';
  if (rule.destination_id !== delivery.destination_id) return 'the rule forwards to another destination';
  const { rule: matched, event } = matchable(rule, delivery, headers[HEADER.ruleEvent]);
  const because = mismatchOfContent(matched, event, new FilterBudget(FILTER_WORK))?.because;
  return because !== undefined && because in REASONS ? REASONS[because as keyof typeof REASONS] : undefined;
}

/** What of a rule can be matched with the event of a delivery, and that event as the rule took it. */
function matchable(
  rule: Rule,
  { event, environment }: Delivery,
  ruleEvent: string | undefined,
): { readonly rule: Rule; readonly event: CanonicalEvent } {
  if (ruleEvent === undefined && rule.transformation_id === null) return { rule, event };
  const [, typeText, name] = /^([a-z]+):(.*)$/s.exec(ruleEvent ?? '') ?? [];
  const type = EVENT_TYPES.find((known) => known === typeText);
  // Of what was redriven it is not known what the transformation was given.
  if (type === undefined || name === undefined)
    return {
      rule: { ...rule, event_types: [], event_names: [], filter: null },
      event: { ...event, environment },
    };
  return { rule: { ...rule, filter: null }, event: { ...event, environment, type, event: name, name } };
}
