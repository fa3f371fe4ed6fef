import type { Rule } from '@tributary/core';
import type { Static } from 'typebox';
import type { ruleResource } from './schemas.ts';

export function presentRule(rule: Rule): Static<typeof ruleResource> {
  return {
    id: rule.id,
    workspace_id: rule.workspace_id,
    name: rule.name,
    destination_id: rule.destination_id,
    event_types: rule.event_types,
    event_names: rule.event_names,
    environments: rule.environments,
    transformation_id: rule.transformation_id,
    filter: rule.filter ?? null,
    enabled: rule.enabled,
    version: rule.version,
    created_by: rule.created_by,
    created_at: rule.created_at,
    updated_at: rule.updated_at,
  };
}
