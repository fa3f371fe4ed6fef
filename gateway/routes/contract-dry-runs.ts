import {
  type CanonicalEvent,
  type CatalogView,
  type Contract,
  ContractDryRun,
  type ContractEvaluator,
  ContractInference,
  contractOfPair,
  type DryRunExample,
  ENFORCEMENT_MODES,
  ENVIRONMENTS,
  type Environment,
  eventName,
  MAX_ENUM,
  organizationOf,
  UNDECLARED_FIELDS,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import { conflict, invalidRequest } from '../errors/api-error.ts';
import { TENANT_TURNS } from '../limits/turns.ts';
import {
  boolean,
  closed,
  conditionalIntegerText,
  integer,
  listOf,
  name,
  nullable,
  oneOf,
  optional,
  parseInteger,
  string,
  time,
  timeText,
} from '../resources/schemas.ts';
import {
  contractEventName,
  eventType,
  nameFaults,
  OUTCOMES,
  schemaDefinition,
  violation,
} from './contract-fields.ts';
import {
  coverage,
  EVENTS,
  presentCoverage,
  type RecentEvents,
  type RecentEventsQuery,
  SINCE,
  sinceOf,
} from './recent-events.ts';

const lookBack = {
  since: Type.Optional(timeText(SINCE)),
  environment: Type.Optional(oneOf(ENVIRONMENTS, 'Default: both.')),
};

/** The query of creation and replacement. The other parameters require `dry_run=true`. */
export const changeQuery = closed({
  ...lookBack,
  dry_run: Type.Optional(
    oneOf(['true', 'false'], 'True: nothing is stored; the response shows the result for recent events.'),
  ),
  events: conditionalIntegerText(EVENTS, 'Events of a dry run at most; requires `dry_run=true`.'),
});

const violationPath = string(
  'JSON pointer below `properties` or `traits`; `*` stands for any item of a list.',
);

export const dryRunResult = Type.Object(
  {
    dry_run: Type.Literal(true),
    events: Type.Integer(),
    outcomes: Type.Object({
      accepted: Type.Integer(),
      warned: Type.Integer(),
      omitted: Type.Integer(),
      rejected: Type.Integer(),
    }),
    violations: listOf(
      Type.Object({
        ...violation.properties,
        path: violationPath,
        events: integer('How many events had it.'),
      }),
      'Those of most events first.',
    ),
    violations_cut: boolean('There were more kinds and paths than are reported separately.'),
    examples: listOf(
      Type.Object({
        message_id: Type.String(),
        environment: oneOf(ENVIRONMENTS),
        event_name: Type.String(),
        received_at: time,
        outcome: oneOf(OUTCOMES),
        violations: listOf(violation),
      }),
      'Some of the events that would not have passed untouched.',
    ),
    coverage,
  },
  { title: 'DryRun' },
);

export const inferenceBody = closed(
  {
    event_type: eventType,
    event_name: optional(contractEventName),
    environment: optional(oneOf(ENVIRONMENTS, 'Default: both.')),
    since: optional(timeText(SINCE)),
    events: optional(
      Type.Integer({
        minimum: EVENTS.min,
        maximum: EVENTS.max,
        description: `At most. Default ${EVENTS.fallback}.`,
      }),
    ),
    required_ratio: optional(
      Type.Number({
        exclusiveMinimum: 0,
        maximum: 1,
        description: 'A field is required that this share of the events has. Default 1.',
      }),
    ),
    enum_max: optional(
      Type.Integer({
        minimum: 0,
        maximum: MAX_ENUM,
        description: 'Members of an enumeration, at most; 0: enumerations are not inferred. Default 10.',
      }),
    ),
  },
  { title: 'InferenceBody', examples: [{ event_type: 'track', event_name: 'Order Placed' }] },
);

const JSON_TYPES = ['null', 'boolean', 'integer', 'number', 'string', 'object', 'array'] as const;

export const inferenceResult = Type.Object(
  {
    contract: nullable(
      Type.Object(
        {
          name,
          event_type: eventType,
          event_name: Type.String(),
          description: Type.String(),
          schema_definition: schemaDefinition,
          enforcement_mode: oneOf(ENFORCEMENT_MODES),
          undeclared_fields: oneOf(UNDECLARED_FIELDS),
        },
        { description: 'What `POST .../event-contracts` takes; null where there was no event.' },
      ),
    ),
    events: Type.Integer(),
    fields: listOf(
      Type.Object({
        path: violationPath,
        seen: integer('How often it was there,'),
        of: integer('of the objects, or items, that could have held it.'),
        required: Type.Boolean(),
        types: Type.Object(
          Object.fromEntries(JSON_TYPES.map((type) => [type, Type.Optional(Type.Integer())])),
        ),
        format: nullable(Type.String()),
        enum: nullable(Type.Array(Type.String())),
        minimum: nullable(Type.Number()),
        maximum: nullable(Type.Number()),
      }),
      'Every path of the events.',
    ),
    coverage,
  },
  { title: 'Inference' },
);

type ChangeQuery = Static<typeof changeQuery>;

/** Whether nothing is to be stored. 400 for parameters that require a dry run. */
export function isDryRun({ dry_run, ...others }: ChangeQuery): boolean {
  if (dry_run === 'true') return true;
  const faults = Object.keys(others).map((path) => ({ path, message: 'requires dry_run=true' }));
  if (faults.length > 0) throw invalidRequest(...faults);
  return false;
}

/** Evaluates a contract on recent events. 409 for an archived contract, and for the second one of a type and name. */
export async function dryRun(
  contract: Contract,
  query: ChangeQuery,
  { state, recent, contracts, now, disconnected }: RecentEventsContext,
): Promise<Static<typeof dryRunResult>> {
  if (contract.status === 'archived') throw conflict('missing');
  const takenBy = contractOfPair(state, contract).filter(({ id }) => id !== contract.id);
  if (takenBy.length > 0) throw conflict('taken', takenBy);
  const search = queryOf(state, contract, {
    limit: parseInteger(query.events, EVENTS),
    since: sinceOf('since', query.since, now),
    environment: query.environment,
  });
  const run = new ContractDryRun();
  const owner = organizationOf(state, contract.workspace_id);
  await TENANT_TURNS.runSteps(owner, contracts.prepare(contract), disconnected);
  const coverage = await recent.scan(
    search,
    (event) => void run.add(event, contracts.evaluate(contract, event)),
    disconnected,
  );
  const { outcomes, violations, isCut, examples } = run.result;
  return {
    dry_run: true,
    events: coverage.events,
    outcomes,
    violations,
    violations_cut: isCut,
    examples: examples.map(presentExample),
    coverage: presentCoverage(search, coverage),
  };
}

function presentExample({ event, verdict }: DryRunExample) {
  return {
    message_id: event.message_id,
    environment: event.environment,
    event_name: eventName(event),
    received_at: event.received_at,
    outcome: verdict.outcome,
    violations: verdict.violations,
  };
}

const DEFAULT_REQUIRED_RATIO = 1;
const DEFAULT_ENUM_MAX = 10;

/** Infers a contract from recent events, with the statistics of their fields. Stores nothing. */
export async function infer(
  workspaceId: string,
  body: Static<typeof inferenceBody>,
  { state, recent, now, disconnected }: RecentEventsContext,
): Promise<Static<typeof inferenceResult>> {
  const pair = { workspace_id: workspaceId, event_type: body.event_type, event_name: body.event_name ?? '' };
  const faults = nameFaults(pair);
  if (faults.length > 0) throw invalidRequest(...faults);
  const search = queryOf(state, pair, {
    limit: body.events ?? EVENTS.fallback,
    since: sinceOf('/since', body.since, now),
    environment: body.environment,
  });
  const inference = new ContractInference(pair.event_type, pair.event_name);
  const coverage = await recent.scan(search, (event) => void inference.add(event), disconnected);
  const { contract, events, fields } = inference.infer({
    requiredRatio: body.required_ratio ?? DEFAULT_REQUIRED_RATIO,
    enumMax: body.enum_max ?? DEFAULT_ENUM_MAX,
  });
  return {
    contract,
    events,
    fields: fields.map((field) => ({ ...field, enum: field.enum === null ? null : [...field.enum] })),
    coverage: presentCoverage(search, coverage),
  };
}

/** The state and ports that a run on recent events needs. */
export interface RecentEventsContext {
  readonly state: CatalogView;
  readonly recent: RecentEvents;
  readonly contracts: ContractEvaluator;
  /** Epoch ms. */
  readonly now: number;
  readonly disconnected: AbortSignal;
}

/** The events that a contract applies to; `id` of an existing contract. */
type Pair = Pick<Contract, 'workspace_id' | 'event_type' | 'event_name'> & { readonly id?: string };

/** The query for the recent events that a contract would apply to if it were the newest. */
function queryOf(
  state: CatalogView,
  pair: Pair,
  {
    environment,
    ...bounds
  }: Pick<RecentEventsQuery, 'since' | 'limit'> & { readonly environment: Environment | null | undefined },
): RecentEventsQuery {
  return {
    workspaceId: pair.workspace_id,
    type: pair.event_type,
    ...bounds,
    ...(environment == null ? {} : { environment }),
    isWanted: (event) => appliesTo(state, pair, event),
  };
}

/** A contract without a name applies to all names without a contract of their own. */
function appliesTo(state: CatalogView, pair: Pair, event: CanonicalEvent): boolean {
  const name = eventName(event);
  if (pair.event_name !== '') return name === pair.event_name;
  const own = state.contractAt(pair.workspace_id, pair.event_type, name, Number.MAX_SAFE_INTEGER);
  return own === undefined || own.event_name === '' || own.id === pair.id;
}
