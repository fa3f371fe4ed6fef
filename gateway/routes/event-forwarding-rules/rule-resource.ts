import {
  type CatalogView,
  ENVIRONMENTS,
  EVENT_TYPES,
  filterFault,
  hasName,
  MAX_FILTER_LENGTH,
  MISMATCHES,
  type Rule,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import { type ErrorDetail, invalidRequest } from '../../errors/api-error.ts';
import {
  closed,
  freeObject,
  listOf,
  name,
  nullable,
  oneOf,
  optional,
  resourceFields,
  time,
  times,
  uuid,
  version,
} from '../../resources/schemas.ts';
import { patternFault, timeText } from '../../resources/values.ts';
import { coverage, EVENTS, SINCE } from '../event-contracts/contract-resource.ts';

const MAX_EVENT_NAMES = 1_000;

export const ruleBody = closed(
  {
    name,
    destination_id: Type.String({ format: 'uuid', description: 'Where matching events go.' }),
    event_types: optional(
      Type.Array(oneOf(EVENT_TYPES), { uniqueItems: true, description: 'Empty: all types. Default empty.' }),
    ),
    event_names: optional(
      Type.Array(Type.String({ minLength: 1 }), {
        uniqueItems: true,
        maxItems: MAX_EVENT_NAMES,
        description:
          'Names of track events, pages and screens; `event_types` may then name no other type. Empty: all names. Default empty.',
      }),
    ),
    environments: optional(
      Type.Array(oneOf(ENVIRONMENTS), {
        uniqueItems: true,
        minItems: 1,
        description:
          'Default `["production"]`: events of development keys are forwarded only by rules that name `development`.',
      }),
    ),
    transformation_id: optional(
      Type.String({ format: 'uuid', description: 'An enabled rule can name an active one only.' }),
    ),
    filter: optional(
      Type.String({
        minLength: 1,
        maxLength: MAX_FILTER_LENGTH,
        description:
          'A CEL expression over `event` that it has to pass, such as `event.properties.total > 100`.',
      }),
    ),
    enabled: optional(Type.Boolean({ description: 'Default true.' })),
  },
  {
    title: 'RuleBody',
    examples: [
      {
        name: 'Orders to the CRM',
        destination_id: '0198c5a2-7c1e-7b3a-9f60-2d1c5e8a4b70',
        event_types: ['track'],
        event_names: ['Order Placed'],
        filter: 'event.properties.total > 100',
      },
    ],
  },
);

export const ruleResource = Type.Object(
  {
    ...resourceFields,
    destination_id: uuid,
    event_types: listOf(oneOf(EVENT_TYPES)),
    event_names: listOf(Type.String()),
    environments: listOf(oneOf(ENVIRONMENTS)),
    transformation_id: nullable(uuid),
    filter: nullable(Type.String()),
    enabled: Type.Boolean(),
    version,
    created_by: uuid,
    ...times,
  },
  { title: 'Rule' },
);

export const ruleList = listOf(ruleResource);

export const ruleTestBody = closed(
  {
    event: freeObject('An event as producers send it, with its `type`.'),
    environment: optional(oneOf(ENVIRONMENTS, 'Default: the first of the rule.')),
  },
  {
    title: 'RuleTrialBody',
    examples: [
      { event: { type: 'track', event: 'Order Placed', user_id: 'ada', properties: { total: 120 } } },
    ],
  },
);

/** The part of a rule that selects events. */
export const ruleDryRunBody = closed(
  {
    event_types: ruleBody.properties.event_types,
    event_names: ruleBody.properties.event_names,
    environments: ruleBody.properties.environments,
    filter: ruleBody.properties.filter,
    since: optional(timeText(SINCE)),
    events: optional(
      Type.Integer({
        minimum: EVENTS.min,
        maximum: EVENTS.max,
        description: `Events of these types, names and environments that are read, at most. Default ${EVENTS.fallback}.`,
      }),
    ),
  },
  {
    title: 'RuleDryRunBody',
    examples: [{ event_names: ['Order Placed'], filter: 'event.properties.quantity * 2 > 5' }],
  },
);

const VERDICTS = ['matched', 'not matched', 'failed', 'not evaluated'] as const;

export const ruleDryRunResult = Type.Object(
  {
    events: Type.Integer({
      description: 'Accepted events of these types, names and environments that were read.',
    }),
    matched: Type.Integer(),
    not_matched: Type.Integer({ description: 'Events for which the filter is false.' }),
    failed: Type.Integer({
      description: 'Events that would be dead deliveries, as the filter fails for them.',
    }),
    not_evaluated: Type.Integer({
      description:
        'Events for which the filter takes too much work, or that came when the dry run had used up its own.',
    }),
    failures: listOf(
      Type.Object({ message: Type.String(), events: Type.Integer() }),
      'How the filter fails; the first 20 ways.',
    ),
    examples: listOf(
      Type.Object({
        message_id: Type.String(),
        event_type: oneOf(EVENT_TYPES),
        event_name: Type.String(),
        environment: oneOf(ENVIRONMENTS),
        received_at: time,
        verdict: oneOf(VERDICTS),
        message: nullable(Type.String()),
      }),
      'The first events of each verdict, five at most.',
    ),
    coverage,
  },
  { title: 'RuleDryRun' },
);

/** Why a rule does not match an event. */
const mismatch = {
  because: nullable(oneOf(MISMATCHES, 'Why it is not; null when it is.')),
  message: nullable(Type.String({ description: 'How the filter failed.' })),
};

export const ruleTestResult = Type.Object(
  {
    matched: Type.Boolean({ description: 'Whether such an event would be forwarded now.' }),
    ...mismatch,
  },
  { title: 'RuleTrial' },
);

/** All rules of a workspace, tried with one event. */
export const rulesTestResult = Type.Object(
  {
    matched: Type.Integer({ description: 'Rules that would forward such an event now.' }),
    rules: listOf(
      Type.Object(
        {
          rule_id: uuid,
          name,
          destination_id: uuid,
          matched: Type.Boolean(),
          ...mismatch,
        },
        { title: 'RuleVerdict' },
      ),
      'Every rule, enabled ones first, oldest first.',
    ),
  },
  { title: 'RulesTrial' },
);

/** The fields of a rule in a body, with defaults. */
type RuleFields = Omit<Rule, 'id' | 'workspace_id' | 'created_by' | 'version' | 'created_at' | 'updated_at'>;

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
 * 400 when the rule refers to entities that its workspace does not have, is enabled with a transformation that is not
 * active, has names for types whose events have none, or has an invalid filter or name that `stored` does not have.
 */
export function checkReferences(
  rule: RuleFields,
  workspaceId: string,
  state: CatalogView,
  stored?: Pick<Rule, 'filter' | 'event_names'>,
): void {
  const faults: ErrorDetail[] = [];
  if (state.entity('destination', workspaceId, rule.destination_id) === undefined)
    faults.push({ path: '/destination_id', message: 'is not a destination of this workspace' });
  if (rule.transformation_id !== null) {
    const transformation = state.entity('transformation', workspaceId, rule.transformation_id);
    if (transformation === undefined) {
      faults.push({ path: '/transformation_id', message: 'is not a transformation of this workspace' });
    } else if (rule.enabled && transformation.status !== 'active') {
      const message = `is in status ${transformation.status}; an enabled rule needs an active one`;
      faults.push({ path: '/transformation_id', message });
    }
  }
  const nameless = rule.event_names.length === 0 ? [] : rule.event_types.filter((type) => !hasName(type));
  if (nameless.length > 0) {
    const message = `can match no ${nameless.join(' and no ')} event: these have no name; leave event_names empty, or make a rule of their own for them`;
    faults.push({ path: '/event_names', message });
  }
  faults.push(...selectionFaults(rule, stored));
  if (faults.length > 0) throw invalidRequest(...faults);
}

/**
 * The faults of the filter and the names of a rule, but for those that the stored rule has already: one that an earlier
 * release took can still be renamed and disabled.
 */
export function selectionFaults(
  { filter, event_names }: Pick<RuleFields, 'filter' | 'event_names'>,
  stored?: Pick<Rule, 'filter' | 'event_names'>,
): readonly ErrorDetail[] {
  const faults: ErrorDetail[] = [];
  for (const [at, name] of event_names.entries()) {
    const message = patternFault(name, 'a filter such as event.event.startsWith("Order") selects by a part');
    if (message !== undefined && stored?.event_names.includes(name) !== true)
      faults.push({ path: `/event_names/${at}`, message });
  }
  const message = filter == null || filter === stored?.filter ? undefined : filterFault(filter);
  if (message !== undefined) faults.push({ path: '/filter', message });
  return faults;
}

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
