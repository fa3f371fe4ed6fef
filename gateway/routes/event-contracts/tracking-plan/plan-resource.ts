import {
  ENFORCEMENT_MODES,
  ENVIRONMENTS,
  PLAN_FORMS,
  type PlanChange,
  type PlanRemark,
  UNDECLARED_FIELDS,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import { closed, freeObject, listOf, nullable, oneOf, uuid, version } from '../../../resources/schemas.ts';
import { HOURS, type IntegerRule, integerText, timeText } from '../../../resources/values.ts';
import { coverage, EVENTS, eventType, SINCE } from '../contract-resource.ts';

const label = Type.Optional(
  Type.String({
    maxLength: 500,
    description:
      'Only contracts with this label: a key, or `key:value`. The labels of a contract are `x-labels` of its schema.',
    examples: ['team:checkout'],
  }),
);

export const planQuery = closed({
  format: Type.Optional(oneOf(PLAN_FORMS, 'Default `tributary`. The other forms hold less.')),
  label,
});

/** An object of any content with an example for readers of the description. */
function planObject(title: string, example: object) {
  return Type.Unsafe<Readonly<Record<string, unknown>>>({
    ...freeObject('A tracking plan in the form of Tributary, Segment or RudderStack.'),
    title,
    examples: [example],
  });
}

const EXAMPLE = {
  name: 'Shop',
  version: 3,
  contracts: [
    {
      name: 'Orders',
      event_type: 'track',
      event_name: 'Order Placed',
      description: 'An order was paid.',
      schema_definition: {
        'x-labels': { team: 'checkout' },
        properties: { order_id: { type: 'string', required: true }, total: { type: 'number' } },
      },
      enforcement_mode: 'block',
      undeclared_fields: 'warn',
      version: 3,
    },
  ],
};

export const planDocument = planObject('TrackingPlan', EXAMPLE);
const CSV_EXAMPLE = [
  'Event Type,Event Name,Property Name,Status,Data Type',
  'Track,Order Placed,order_id,Required,String',
  'Track,Order Placed,total,Optional,Number',
  '',
].join('\n');

export const planText = Type.String({
  description: 'A tracking plan as CSV.',
  examples: [CSV_EXAMPLE],
});
/** A document to import. It may leave out what has a default. */
export const planBody = planObject('TrackingPlanBody', EXAMPLE);

export const importQuery = closed({
  dry_run: Type.Optional(
    oneOf(['true', 'false'], 'True: nothing is stored; the response shows what the import would do.'),
  ),
  missing: Type.Optional(
    oneOf(
      ['keep', 'archive'],
      'Whether active contracts that the document does not contain are kept or archived. Default `keep`.',
    ),
  ),
  label,
});

const remark = Type.Object({
  path: Type.String({ description: 'JSON pointer into the document, or the line of a CSV.' }),
  message: Type.String(),
});

const ACTIONS = ['created', 'updated', 'unchanged', 'archived'] as const;
const count = Type.Integer();

export const importResult = Type.Object(
  {
    dry_run: Type.Boolean(),
    created: count,
    updated: count,
    unchanged: count,
    archived: count,
    changes: listOf(
      Type.Object({
        action: oneOf(ACTIONS),
        event_type: eventType,
        event_name: Type.String(),
        contract_id: nullable({ ...uuid, description: 'Null for one that a dry run would create.' }),
        version: nullable(version),
        fields: Type.Array(
          oneOf(['name', 'description', 'schema_definition', 'enforcement_mode', 'undeclared_fields']),
          { description: 'The fields that change.' },
        ),
        path: nullable(Type.String({ description: 'Its place in the document.' })),
      }),
      'In the order of the document; those that are archived last.',
    ),
    notes: listOf(remark, 'What the document says that contracts cannot, and so was left out.'),
    version,
  },
  { title: 'TrackingPlanImport' },
);

/** The change of one contract by an import, or by its dry run. */
export interface ImportedChange {
  readonly change: PlanChange;
  /** Absent for a creation that a dry run shows. */
  readonly contract?: { readonly id: string; readonly version: number };
}

const WORDS = { create: 'created', update: 'updated', leave: 'unchanged', archive: 'archived' } as const;

export function presentImport(
  dryRun: boolean,
  done: readonly ImportedChange[],
  { notes, version: planVersion }: { readonly notes: readonly PlanRemark[]; readonly version: number },
): Static<typeof importResult> {
  const changes = done.map(({ change, contract }) => {
    const { event_type, event_name } = 'fields' in change ? change.fields : change.stored;
    return {
      action: WORDS[change.action],
      event_type,
      event_name,
      contract_id: contract?.id ?? null,
      version: contract?.version ?? null,
      fields: change.action === 'update' ? change.changed.filter(isChangeable) : [],
      path: 'location' in change ? change.location : null,
    };
  });
  const counted = (action: (typeof ACTIONS)[number]) =>
    changes.filter((change) => change.action === action).length;
  return {
    dry_run: dryRun,
    created: counted('created'),
    updated: counted('updated'),
    unchanged: counted('unchanged'),
    archived: counted('archived'),
    changes,
    notes,
    version: planVersion,
  };
}

type ChangeableField = Static<typeof importResult>['changes'][number]['fields'][number];

/** A contract is found by its type and name, so these never change. */
function isChangeable(field: string): field is ChangeableField {
  return field !== 'event_type' && field !== 'event_name';
}

/** The parameter `hours` of a comparison: counts of each name and hour are read for it. */
export const COMPARED_HOURS: IntegerRule = { ...HOURS, max: 168 };

export const comparisonQuery = closed({
  hours: integerText(COMPARED_HOURS, 'The hours that are counted, with the current one.'),
  since: Type.Optional(timeText(SINCE)),
  environment: Type.Optional(oneOf(ENVIRONMENTS, 'Default: both.')),
  events: integerText(EVENTS, 'Recent events whose fields are looked at, at most.'),
});

const STATES = ['undeclared', 'never_seen', 'seen'] as const;

export const comparison = Type.Object(
  {
    events: listOf(
      Type.Object({
        event_type: eventType,
        event_name: Type.String({
          description: 'Empty: a contract for all names without a contract of their own.',
        }),
        state: oneOf(STATES, '`undeclared`: it came, and no contract is for it.'),
        contract_id: nullable(uuid),
        contract_version: nullable(Type.Integer()),
        enforcement_mode: nullable(oneOf(ENFORCEMENT_MODES)),
        undeclared_fields: nullable(oneOf(UNDECLARED_FIELDS)),
        accepted: Type.Integer({ description: 'Accepted events in these hours.' }),
        violations: nullable(
          Type.Integer({ description: 'Violations in these hours; null where they were not counted.' }),
        ),
        sampled: Type.Integer({
          description: 'Recent accepted and rejected events whose fields were looked at.',
        }),
        fields: listOf(
          Type.Object({
            path: Type.String({ description: 'JSON pointer below `properties` or `traits`; `*`: any item.' }),
            state: oneOf(STATES),
            required: Type.Boolean(),
            seen: Type.Integer({ description: 'How often it was there,' }),
            of: Type.Integer({ description: 'of the objects, or items, that could have held it.' }),
            types: Type.Object({}, { additionalProperties: Type.Integer() }),
          }),
          'Those that differ first. Fields of content that the contract leaves free are not listed.',
        ),
        fields_cut: Type.Boolean(),
      }),
      'Names without a contract first, then contracts whose events did not come.',
    ),
    events_cut: Type.Boolean({ description: 'There were more names without a contract than are reported.' }),
    hours: Type.Integer(),
    coverage,
  },
  { title: 'TrackingPlanComparison' },
);
