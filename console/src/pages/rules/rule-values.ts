import type { Schemas } from '../../api/client.ts';
import { type Environment, type EventType, hasName } from '../../shared/event-fields.ts';
import type { Rule } from './rule-selection.ts';

/** The values of a rule's form, named as in the body. */
export interface RuleValues {
  name: string;
  destination_id: string;
  event_types: string[];
  event_names: string[];
  environments: string[];
  filter: string;
  transformation_id: string;
  enabled: boolean;
}

interface Start {
  readonly destination?: string;
  readonly type?: EventType;
  readonly name?: string;
  readonly environment?: Environment;
}

/** A rule that begins at a cell of the matrix has its event, destination and environment. */
export function newRuleValues({ destination, type, name, environment }: Start): RuleValues {
  return {
    name: name ?? '',
    destination_id: destination ?? '',
    event_types: type === undefined ? [] : [type],
    event_names: name === undefined ? [] : [name],
    environments: [environment ?? 'production'],
    filter: '',
    transformation_id: '',
    enabled: true,
  };
}

export function ruleValuesOf(rule: Rule): RuleValues {
  return {
    name: rule.name,
    destination_id: rule.destination_id,
    event_types: [...rule.event_types],
    event_names: [...rule.event_names],
    environments: [...rule.environments],
    filter: rule.filter ?? '',
    transformation_id: rule.transformation_id ?? '',
    enabled: rule.enabled,
  };
}

export function ruleBodyOf(values: RuleValues): Schemas['RuleBody'] {
  return {
    name: values.name.trim(),
    destination_id: values.destination_id,
    ...selectionBodyOf(values),
    transformation_id: values.transformation_id === '' ? null : values.transformation_id,
    enabled: values.enabled,
  };
}

/** The part that selects events; a dry run takes it alone. */
export function selectionBodyOf({ event_types, event_names, environments, filter }: RuleValues) {
  return {
    event_types: event_types as EventType[],
    event_names,
    environments: environments as Environment[],
    filter: filter.trim() === '' ? null : filter.trim(),
  };
}

export function ruleErrorsOf(values: RuleValues): Record<string, string> {
  const nameless = values.event_types.filter((type) => !hasName(type));
  return {
    ...(values.name.trim() === '' ? { name: 'is required' } : {}),
    ...(values.destination_id === '' ? { destination_id: 'is required' } : {}),
    ...(values.environments.length === 0 ? { environments: 'needs one at least' } : {}),
    ...(values.event_names.length > 0 && nameless.length > 0
      ? { event_names: `${nameless.join(' and ')} events have no name: remove the names, or the type` }
      : {}),
  };
}
