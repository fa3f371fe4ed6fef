import {
  assemblePlan,
  type CatalogView,
  type ComparedEvent,
  type Contract,
  type Counters,
  checkSchemaInSteps,
  ENFORCEMENT_MODES,
  ENVIRONMENTS,
  type Environment,
  type History,
  hasLabel,
  type ImportedContract,
  type JsonObject,
  mapConcurrently,
  OTHER_NAME,
  organizationOf,
  PLAN_FORMS,
  type PlanChange,
  PlanComparison,
  type PlanForm,
  type PlanImport,
  PlanMatcher,
  type PlannedFields,
  type PlanRemark,
  readPlanInSteps,
  type TrackingPlan,
  trackingPlanOf,
  UNDECLARED_FIELDS,
  writeContract,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { GatewayDependencies, Routes } from '../dependencies.ts';
import { ApiError, type ErrorDetail, invalidRequest } from '../errors/api-error.ts';
import { describeValidation } from '../errors/error-handler.ts';
import { disconnectSignal, READS_AT_ONCE, TENANT_TURNS } from '../limits/turns.ts';
import { MAX_BODY_BYTES, TEXT_TYPE } from '../request-body/request-body.ts';
import {
  checkVersion,
  entityOf,
  type ProposalDependencies,
  propose,
  tagged,
} from '../resources/catalog-entities.ts';
import {
  boolean,
  closed,
  freeObject,
  HOURS,
  type IntegerRule,
  integer,
  integerText,
  listOf,
  lookBack,
  nullable,
  oneOf,
  operation,
  parseInteger,
  string,
  timeText,
  uuid,
  version,
} from '../resources/schemas.ts';
import type { RecentEventsContext } from './contract-dry-runs.ts';
import { contractBody, createContract, eventType, nameFaults, updateContract } from './contract-fields.ts';
import {
  coverage,
  EVENTS,
  presentCoverage,
  RecentEvents,
  type RecentEventsQuery,
  SINCE,
  sinceOf,
} from './recent-events.ts';

const label = Type.Optional(
  Type.String({
    maxLength: 500,
    description:
      'Only contracts with this label: a key, or `key:value`. The labels of a contract are `x-labels` of its schema.',
    examples: ['team:checkout'],
  }),
);

const planQuery = closed({
  format: Type.Optional(oneOf(PLAN_FORMS, 'Default `tributary`. The other forms hold less.')),
  label,
});

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

const planDocument = planObject('TrackingPlan', EXAMPLE);
const CSV_EXAMPLE = [
  'Event Type,Event Name,Property Name,Status,Data Type',
  'Track,Order Placed,order_id,Required,String',
  'Track,Order Placed,total,Optional,Number',
  '',
].join('\n');

const planText = Type.String({
  description: 'A tracking plan as CSV.',
  examples: [CSV_EXAMPLE],
});
/** A document to import. It may leave out what has a default. */
const planBody = planObject('TrackingPlanBody', EXAMPLE);

const importQuery = closed({
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
  path: string('JSON pointer into the document, or the line of a CSV.'),
  message: Type.String(),
});

const ACTIONS = ['created', 'updated', 'unchanged', 'archived'] as const;
const count = Type.Integer();

const importResult = Type.Object(
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
        path: nullable(string('Its place in the document.')),
      }),
      'In the order of the document; those that are archived last.',
    ),
    notes: listOf(remark, 'What the document says that contracts cannot, and so was left out.'),
    version,
  },
  { title: 'TrackingPlanImport' },
);

interface ImportedChange {
  readonly change: PlanChange;
  /** Absent for a creation that a dry run shows. */
  readonly contract?: { readonly id: string; readonly version: number };
}

const WORDS = { create: 'created', update: 'updated', leave: 'unchanged', archive: 'archived' } as const;

function presentImport(
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
const COMPARED_HOURS: IntegerRule = { ...HOURS, max: 168 };

const comparisonQuery = closed({
  hours: integerText(COMPARED_HOURS, 'The hours that are counted, with the current one.'),
  since: Type.Optional(timeText(SINCE)),
  environment: Type.Optional(oneOf(ENVIRONMENTS, 'Default: both.')),
  events: integerText(EVENTS, 'Recent events whose fields are looked at, at most.'),
});

const STATES = ['undeclared', 'never_seen', 'seen'] as const;

const comparison = Type.Object(
  {
    events: listOf(
      Type.Object({
        event_type: eventType,
        event_name: string('Empty: a contract for all names without a contract of their own.'),
        state: oneOf(STATES, '`undeclared`: it came, and no contract is for it.'),
        contract_id: nullable(uuid),
        contract_version: nullable(Type.Integer()),
        enforcement_mode: nullable(oneOf(ENFORCEMENT_MODES)),
        undeclared_fields: nullable(oneOf(UNDECLARED_FIELDS)),
        accepted: integer('Accepted events in these hours.'),
        violations: nullable(integer('Violations in these hours; null where they were not counted.')),
        sampled: integer('Recent accepted and rejected events whose fields were looked at.'),
        fields: listOf(
          Type.Object({
            path: string('JSON pointer below `properties` or `traits`; `*`: any item.'),
            state: oneOf(STATES),
            required: Type.Boolean(),
            seen: integer('How often it was there,'),
            of: integer('of the objects, or items, that could have held it.'),
            types: Type.Object({}, { additionalProperties: Type.Integer() }),
          }),
          'Those that differ first. Fields of content that the contract leaves free are not listed.',
        ),
        fields_cut: Type.Boolean(),
      }),
      'Names without a contract first, then contracts whose events did not come.',
    ),
    events_cut: boolean('There were more names without a contract than are reported.'),
    hours: Type.Integer(),
    coverage,
  },
  { title: 'TrackingPlanComparison' },
);

const path = '/workspaces/:workspaceId/tracking-plan';

/** A table of so many bytes takes as long to read as the largest JSON. */
const MAX_CSV_BYTES = 1024 * 1024;
const CATCH_UP_MS = 5_000;

/** `/workspaces/:workspaceId/tracking-plan`: the active contracts as one document, and compared with what came. */
export const trackingPlanRoutes: Routes = async (app, dependencies) => {
  const { catalog, counters, history, clock } = dependencies;
  const recent = new RecentEvents(dependencies);
  app.addContentTypeParser(TEXT_TYPE, app.parseBody);

  app.get(
    path,
    operation('tracking-plan.read', 'exportTrackingPlan', 'Export the active contracts as one document', {
      querystring: planQuery,
      response: {
        200: {
          description: 'The plan; `format` decides whether it is JSON or CSV.',
          content: {
            'application/json': { schema: planDocument },
            [TEXT_TYPE]: { schema: planText },
          },
        },
      },
    }),
    async (request, reply) => {
      const { format = 'tributary', label } = request.query;
      const { id, name, organization_id } = request.workspace;
      const version = planVersion(catalog.state, id);
      const contracts = activeContracts(catalog.state, id).filter(
        (contract) => label === undefined || hasLabel(contract, label),
      );
      const plan = await TENANT_TURNS.runSteps(
        organization_id,
        written(format, trackingPlanOf(name, version, contracts)),
      );
      tagged(reply, { version });
      const type = typeof plan === 'string' ? TEXT_TYPE : 'application/json';
      return reply
        .code(200)
        .type(`${type}; charset=utf-8`)
        .send(plan as never);
    },
  );

  app.put(
    path,
    operation(
      'tracking-plan.import',
      'importTrackingPlan',
      'Create and replace contracts from one document, or see what that would do',
      {
        querystring: importQuery,
        body: { content: { 'application/json': { schema: planBody }, [TEXT_TYPE]: { schema: planText } } },
        response: { 200: importResult },
      },
      { bodyLimit: MAX_BODY_BYTES },
    ),
    async (request, reply) => {
      const { dry_run, missing = 'keep', label } = request.query;
      const document = request.body as JsonObject | string | null | undefined;
      if (document === undefined || document === null)
        throw invalidRequest({ path: '', message: 'must be a plan' });
      if (typeof document === 'string' && request.bodyBytes > MAX_CSV_BYTES)
        throw invalidRequest({ path: '', message: `must be at most ${MAX_CSV_BYTES / 1024} KiB of CSV` });
      const { id } = request.workspace;
      const options = { missing, ...(label === undefined ? {} : { label }) };
      const isDry = dry_run === 'true';
      // A newer version by another process must not be taken for unchanged.
      await catalog.catchUp(CATCH_UP_MS);
      checkVersion(request, { version: planVersion(catalog.state, id) });
      const { changes, notes } = await checkImport(
        request,
        document,
        options,
        dependencies,
        disconnectSignal(reply),
      );
      const done = isDry
        ? changes.map((change) => ('stored' in change ? { change, contract: change.stored } : { change }))
        : await applyImport(request, dependencies, changes);
      return tagged(reply, presentImport(isDry, done, { notes, version: planVersion(catalog.state, id) }));
    },
  );

  app.get(
    `${path}/comparison`,
    operation('tracking-plan.compare', 'compareTrackingPlan', 'Compare the contracts with what came', {
      querystring: comparisonQuery,
      response: { 200: comparison },
    }),
    async (request, reply) => {
      const context = {
        state: catalog.state,
        recent,
        counters,
        history,
        now: clock(),
        disconnected: disconnectSignal(reply),
      };
      return await comparePlan(request.workspace.id, request.query, context);
    },
  );
};

/** A plan in a form, a contract a step. */
function* written(form: PlanForm, plan: TrackingPlan): Generator<undefined, JsonObject | string> {
  const items: (JsonObject | string)[] = [];
  for (const contract of plan.contracts) {
    items.push(writeContract(form, contract));
    yield;
  }
  return assemblePlan(form, plan, items);
}

const MAX_FAULTS = 100;

/** An import that was checked whole: every change of it is valid by itself. */
interface CheckedImport {
  readonly changes: readonly PlanChange[];
  readonly notes: readonly PlanRemark[];
}

/**
 * Reads a document and finds what its import changes. 400 with the faults by their location, before anything is stored: of
 * the document, of contracts that are not valid, and of schemas.
 */
async function checkImport(
  request: FastifyRequest,
  document: JsonObject | string,
  options: PlanImport,
  { catalog }: Pick<GatewayDependencies, 'catalog'>,
  disconnected: AbortSignal,
): Promise<CheckedImport> {
  const { id: workspaceId, organization_id } = request.workspace;
  const read = await TENANT_TURNS.runSteps(organization_id, readPlanInSteps(document), disconnected);
  refuse(read.faults);
  const matcher = new PlanMatcher(activeContracts(catalog.state, workspaceId), options);
  const changes: PlanChange[] = [];
  const faults: ErrorDetail[] = [];
  const matching = function* () {
    for (const contract of read.contracts) {
      const change = matcher.match(contract);
      if (change !== undefined) {
        changes.push(change);
        faults.push(...faultsOf(request, change));
      }
      yield;
    }
  };
  await TENANT_TURNS.runSteps(organization_id, matching(), disconnected);
  refuse([...matcher.faults, ...faults]);
  changes.push(...matcher.missing());
  const schemaFaults: PlanRemark[] = [];
  for (const change of changes) {
    if (!setsSchema(change)) continue;
    const { location, fields } = change;
    const checking = checkSchemaInSteps(fields.schema_definition);
    const found = await TENANT_TURNS.runSteps(organization_id, checking, disconnected);
    schemaFaults.push(
      ...found.map(({ path, message }) => faultOfSchema(location, read.contracts, path, message)),
    );
    if (schemaFaults.length >= MAX_FAULTS) break;
  }
  refuse(schemaFaults);
  return { changes, notes: read.notes };
}

function refuse(faults: readonly ErrorDetail[]): void {
  if (faults.length > 0) throw invalidRequest(...faults.slice(0, MAX_FAULTS));
}

type SettingChange = Extract<PlanChange, { readonly fields: PlannedFields }>;

function setsSchema(change: PlanChange): change is SettingChange {
  return (
    change.action === 'create' || (change.action === 'update' && change.changed.includes('schema_definition'))
  );
}

/** Faults of a contract by the schema of a request body, and names of event types whose events have none. */
function faultsOf(request: FastifyRequest, change: PlanChange): readonly ErrorDetail[] {
  if (change.action !== 'create' && change.action !== 'update') return [];
  const { location, fields } = change;
  const validate = request.compileValidationSchema(contractBody);
  const found = validate(fields) ? [] : describeValidation(validate.errors ?? [], 'body');
  return [...found, ...nameFaults(fields, change.action === 'update' ? fields : undefined)].map(
    ({ path, message }) => at(location, path, message),
  );
}

/** A fault in a member of a contract: within its location where the document has the same members. */
function at(location: string, path: string, message: string): ErrorDetail {
  if (location.startsWith('/contracts/')) return { path: location + path, message };
  return { path: location, message: `${path.slice(1).replaceAll('/', '.')}: ${message}` };
}

function faultOfSchema(
  location: string,
  contracts: readonly ImportedContract[],
  path: string,
  message: string,
): ErrorDetail {
  const isOwn = contracts.find((contract) => contract.location === location)?.isExact === true;
  if (isOwn) return { path: `${location}/schema_definition${path}`, message };
  return {
    path: location,
    message: `the schema of its properties, at ${path === '' ? 'its root' : path}, ${message}`,
  };
}

/**
 * Stores the changes one after the other; each is a fact of its own. An import that ends between two of them is continued
 * by the same request: contracts stored already are unchanged then. An error states how many changes were stored.
 */
async function applyImport(
  request: FastifyRequest,
  dependencies: ProposalDependencies,
  changes: readonly PlanChange[],
): Promise<readonly ImportedChange[]> {
  const done: ImportedChange[] = [];
  let applied = 0;
  for (const change of changes) {
    try {
      done.push({ change, contract: await applyChange(request, dependencies, change) });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      throw error.with({ applied, of: changes.filter(({ action }) => action !== 'leave').length });
    }
    if (change.action !== 'leave') applied++;
  }
  return done;
}

async function applyChange(
  request: FastifyRequest,
  dependencies: ProposalDependencies,
  change: PlanChange,
): Promise<Contract> {
  switch (change.action) {
    case 'leave':
      return change.stored;
    case 'create':
      return createContract(request, dependencies, change.fields);
    case 'update':
      return updateContract(request, dependencies, change.stored, change.fields);
    case 'archive': {
      const { id: entity, version: expected_version } = change.stored;
      await propose(request, dependencies, { type: 'contract.archived', entity, expected_version, data: {} });
      return entityOf(request, dependencies, 'contract', entity);
    }
  }
}

/** The version of the plan: it grows by one with each change of a contract, archived ones included. */
function planVersion(state: Pick<CatalogView, 'listing'>, workspaceId: string): number {
  let sum = 0;
  for (const { version } of state.listing('contract', workspaceId).newestFirst()) sum += version;
  return sum;
}

function activeContracts(state: Pick<CatalogView, 'listing'>, workspaceId: string): readonly Contract[] {
  return [...state.listing('contract', workspaceId, 'active').newestFirst()];
}

/** Contracts whose violations are counted for one comparison: each is a query of the history. */
const MAX_COUNTED_CONTRACTS = 100;
/** Violations read of a contract that takes undeclared fields out of events. */
const VIOLATIONS_READ = 100;

interface ComparisonContext extends Pick<RecentEventsContext, 'state' | 'recent' | 'now' | 'disconnected'> {
  readonly counters: Pick<Counters, 'volume'>;
  readonly history: Pick<History, 'list' | 'countByHour'>;
}

/**
 * Compares the contracts of a workspace with what came: counts by name, the fields of recent events, and violations. The
 * work is bounded: one scan of recent events, the counts of a week at most, and violations of `MAX_COUNTED_CONTRACTS`.
 */
async function comparePlan(
  workspaceId: string,
  query: Static<typeof comparisonQuery>,
  { state, recent, counters, history, now, disconnected }: ComparisonContext,
): Promise<Static<typeof comparison>> {
  const hours = parseInteger(query.hours, { ...COMPARED_HOURS, fallback: HOURS.fallback });
  const range = lookBack(now, hours);
  const inEnvironment = query.environment === undefined ? {} : { environment: query.environment };
  const search: RecentEventsQuery = {
    workspaceId,
    ...inEnvironment,
    since: sinceOf('since', query.since, now),
    limit: parseInteger(query.events, EVENTS),
    isWanted: () => true,
  };
  const compared = new PlanComparison(activeContracts(state, workspaceId), (type, name) =>
    state.contractAt(workspaceId, type, name, Number.MAX_SAFE_INTEGER),
  );
  const rows = await counters.volume({ workspaceId, ...range, ...inEnvironment });
  for (const { eventType, eventName, count } of rows)
    if (eventName !== OTHER_NAME) compared.addCount(eventType, eventName, count);
  const coverage = await recent.scan(search, (event) => void compared.addEvent(event), disconnected);
  const counted = compared.seen.slice(0, MAX_COUNTED_CONTRACTS);
  const violations = new Map<string, number>();
  await mapConcurrently(counted, READS_AT_ONCE, async (contract) => {
    const found = await violationsOf(history, contract, range, query.environment);
    violations.set(contract.id, found.count);
    for (const path of found.undeclared) compared.addUndeclared(contract, path);
  });
  const events = await TENANT_TURNS.runSteps(
    organizationOf(state, workspaceId),
    presented(compared, violations),
    disconnected,
  );
  return {
    events,
    events_cut: compared.isCut || rows.some(({ eventName }) => eventName === OTHER_NAME),
    hours,
    coverage: presentCoverage(search, coverage),
  };
}

/** Violations of a contract in these hours, and the fields that it took out of events. */
async function violationsOf(
  history: ComparisonContext['history'],
  { id, workspace_id: workspaceId, undeclared_fields }: Contract,
  range: { readonly fromHour: number; readonly toHour: number },
  environment: Environment | undefined,
): Promise<{ readonly count: number; readonly undeclared: readonly string[] }> {
  const facets = { contract_id: id, ...(environment === undefined ? {} : { environment }) };
  const counts = await history.countByHour({ kind: 'violation', workspaceId, facets, ...range });
  const count = counts.reduce((sum, hour) => sum + hour.count, 0);
  if (count === 0 || undeclared_fields !== 'omit') return { count, undeclared: [] };
  const page = await history.list({
    kind: 'violation',
    workspaceId,
    facets: { ...facets, kind: 'undeclared' },
    since: range.fromHour,
    limit: VIOLATIONS_READ,
  });
  return { count, undeclared: page.entries.map(({ body }) => String(body.path)) };
}

function* presented(
  compared: PlanComparison,
  violations: ReadonlyMap<string, number>,
): Generator<undefined, Static<typeof comparison>['events']> {
  const events: Static<typeof comparison>['events'][number][] = [];
  for (const event of compared.result()) {
    events.push(presentCompared(event, violations));
    yield;
  }
  return events;
}

function presentCompared(
  { event_type, event_name, state, contract, accepted, sampled, fields, fieldsCut }: ComparedEvent,
  violations: ReadonlyMap<string, number>,
): Static<typeof comparison>['events'][number] {
  return {
    event_type,
    event_name,
    state,
    contract_id: contract?.id ?? null,
    contract_version: contract?.version ?? null,
    enforcement_mode: contract?.enforcement_mode ?? null,
    undeclared_fields: contract?.undeclared_fields ?? null,
    accepted,
    violations: contract === undefined ? null : (violations.get(contract.id) ?? null),
    sampled,
    fields: fields.map((field) => ({ ...field, types: { ...field.types } })),
    fields_cut: fieldsCut,
  };
}
