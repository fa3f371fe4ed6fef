import { type CatalogView, type EventType, faultOfFilter, type Rule } from '@tributary/core';
import type { Static } from 'typebox';
import { type ErrorDetail, invalidRequest } from '../../errors/api-error.ts';
import type { ruleBody } from './schemas.ts';

/** Types of events that `event_names` can speak of. */
const HAS_NAME: ReadonlySet<EventType> = new Set(['track', 'page']);

/** What a body says of a rule, defaults filled in. */
export type RuleFields = Omit<
  Rule,
  'id' | 'workspace_id' | 'created_by' | 'version' | 'created_at' | 'updated_at'
>;

export function ruleFields(body: Static<typeof ruleBody>): RuleFields {
  return {
    name: body.name,
    destination_id: body.destination_id.toLowerCase(),
    event_types: body.event_types ?? [],
    event_names: body.event_names ?? [],
    environments: body.environments ?? ['production'],
    transformation_id: body.transformation_id?.toLowerCase() ?? null,
    filter: body.filter ?? null,
    enabled: body.enabled ?? true,
  };
}

/**
 * 400 when the rule names what its workspace does not have, is enabled with a transformation that is not active, asks
 * for names of events that have none, or has a filter that is none.
 */
export function checkReferences(rule: RuleFields, workspaceId: string, state: CatalogView): void {
  const faults: ErrorDetail[] = [];
  if (state.entity('destination', workspaceId, rule.destination_id) === undefined)
    faults.push({ path: '/destination_id', message: 'is no destination of this workspace' });
  if (rule.transformation_id !== null) {
    const transformation = state.entity('transformation', workspaceId, rule.transformation_id);
    if (transformation === undefined) {
      faults.push({ path: '/transformation_id', message: 'is no transformation of this workspace' });
    } else if (rule.enabled && transformation.status !== 'active') {
      const message = `is in status ${transformation.status}; an enabled rule needs an active one`;
      faults.push({ path: '/transformation_id', message });
    }
  }
  const nameless =
    rule.event_names.length === 0 ? [] : rule.event_types.filter((type) => !HAS_NAME.has(type));
  if (nameless.length > 0) {
    const message = `can match no ${nameless.join(' and no ')} event: these have no name; leave event_names empty, or make a rule of their own for them`;
    faults.push({ path: '/event_names', message });
  }
  const fault = rule.filter == null ? undefined : faultOfFilter(rule.filter);
  if (fault !== undefined) faults.push({ path: '/filter', message: fault });
  if (faults.length > 0) throw invalidRequest(...faults);
}
