import {
  type CanonicalEvent,
  type CatalogView,
  closedTo,
  ENVIRONMENTS,
  EVENT_TYPES,
  evaluateFilter,
  eventName,
  FilterBudget,
  type FilterResult,
  filterFault,
  hasName,
  iso,
  MAX_FILTER_LENGTH,
  MAX_FILTER_WORK,
  MISMATCHES,
  type Mismatch,
  mismatchOf,
  organizationOf,
  type Rule,
  subjectOfRules,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import { accountOf } from '../authentication/caller.ts';
import type { Routes } from '../dependencies.ts';
import { type ErrorDetail, invalidRequest } from '../errors/api-error.ts';
import { readTrialEvent } from '../ingestion/event.ts';
import { disconnectSignal, TENANT_TURNS } from '../limits/turns.ts';
import { entityOf, update } from '../resources/catalog-entities.ts';
import { entityRoutes } from '../resources/entity-routes.ts';
import { byFlag, byId, byText, byWord, catalogList } from '../resources/lists.ts';
import {
  boolean,
  closed,
  freeObject,
  integer,
  listOf,
  MAX_RESOURCE_BYTES,
  name,
  nullable,
  oneOf,
  operation,
  optional,
  patternFault,
  recordFields,
  resourceFields,
  string,
  time,
  timeText,
  uuid,
} from '../resources/schemas.ts';
import { coverage, EVENTS, presentCoverage, RecentEvents, SINCE, sinceOf } from './recent-events.ts';

const MAX_EVENT_NAMES = 1_000;

const ruleBody = closed(
  {
    name,
    destination_id: string('Where matching events go.', 'uuid'),
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
    transformation_id: optional(string('An enabled rule can name an active one only.', 'uuid')),
    filter: optional(
      Type.String({
        minLength: 1,
        maxLength: MAX_FILTER_LENGTH,
        description:
          'A CEL expression over `event` that it has to pass, such as `event.properties.total > 100`.',
      }),
    ),
    enabled: optional(boolean('Default true.')),
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

const ruleResource = Type.Object(
  {
    ...resourceFields,
    destination_id: uuid,
    event_types: listOf(oneOf(EVENT_TYPES)),
    event_names: listOf(Type.String()),
    environments: listOf(oneOf(ENVIRONMENTS)),
    transformation_id: nullable(uuid),
    filter: nullable(Type.String()),
    enabled: Type.Boolean(),
    ...recordFields,
  },
  { title: 'Rule' },
);

const ruleTestBody = closed(
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

const ruleDryRunBody = closed(
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

const ruleDryRunResult = Type.Object(
  {
    events: integer('Accepted events of these types, names and environments that were read.'),
    matched: Type.Integer(),
    not_matched: integer('Events for which the filter is false.'),
    failed: integer('Events that would be dead deliveries, as the filter fails for them.'),
    not_evaluated: integer(
      'Events for which the filter takes too much work, or that came when the dry run had used up its own.',
    ),
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
  message: nullable(string('How the filter failed.')),
};

const ruleTestResult = Type.Object(
  {
    matched: boolean('Whether such an event would be forwarded now.'),
    ...mismatch,
  },
  { title: 'RuleTrial' },
);

const rulesTestResult = Type.Object(
  {
    matched: integer('Rules that would forward such an event now.'),
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
function checkReferences(
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

const rules = catalogList<Rule>()({
  filters: {
    enabled: byFlag('Only enabled ones, or only disabled ones.', ({ enabled }) => enabled),
    destination_id: byId('Only those to this destination.', ({ destination_id }) => destination_id),
    transformation_id: byId('Only those with this transformation.', ({ transformation_id: id }) => id),
    environment: byWord(
      ENVIRONMENTS,
      'Only those for events of this environment.',
      ({ environments }) => environments,
    ),
    event_type: byWord(EVENT_TYPES, 'Only those that take events of this type.', ({ event_types }) =>
      event_types.length === 0 ? EVENT_TYPES : event_types,
    ),
    event_name: {
      ...byText('Only those that take events of this name.', () => null),
      matches: ({ event_names }, value) => event_names.length === 0 || event_names.includes(value),
    },
    created_by: byId('Only those that this account created.', ({ created_by }) => created_by),
  },
});

const path = '/workspaces/:workspaceId/event-forwarding-rules';

/** `/workspaces/:workspaceId/event-forwarding-rules`: rules that forward events to destinations. */
export const ruleRoutes: Routes = async (app, dependencies) => {
  const { catalog, clock } = dependencies;
  const recent = new RecentEvents(dependencies);

  await app.register(
    entityRoutes(dependencies, {
      kind: 'rule',
      collection: 'event-forwarding-rules',
      noun: 'a forwarding rule',
      body: ruleBody,
      bodyLimit: MAX_RESOURCE_BYTES,
      resource: ruleResource,
      list: rules,
      create({ workspace }, body) {
        const fields = ruleFields(body);
        checkReferences(fields, workspace.id, catalog.state);
        return { fields };
      },
      async replace(request, body, stored) {
        const data = ruleFields(body);
        checkReferences(data, request.workspace.id, catalog.state, stored);
        await update(request, dependencies, 'rule', stored, data);
      },
      present: (rule) => ({ ...rule, filter: rule.filter ?? null }),
    }),
  );

  app.post(
    `${path}/:ruleId/test`,
    operation('event-forwarding-rules.test', 'tryRule', 'Try whether a rule would forward an event', {
      body: ruleTestBody,
      response: { 200: ruleTestResult },
    }),
    async (request) => {
      const rule = entityOf(request, dependencies, 'rule');
      const { event: body, environment } = request.body;
      const event = {
        ...readTrialEvent(request, rule, body, iso(dependencies.clock())),
        environment: environment ?? rule.environments[0] ?? 'production',
      };
      const destination = catalog.state.entity('destination', rule.workspace_id, rule.destination_id);
      const ofRule = await TENANT_TURNS.run(request.workspace.organization_id, () =>
        mismatchOf(rule, subjectOfRules(event), new FilterBudget(request.workspace.organization_id)),
      );
      return verdictBy(ofRule ?? closedTo(destination, event));
    },
  );

  app.post(
    `${path}/test`,
    operation(
      'event-forwarding-rules.test',
      'tryRules',
      'Try which rules would forward an event, and why the others would not',
      { body: ruleTestBody, response: { 200: rulesTestResult } },
    ),
    async (request, reply) => {
      const { workspace, caller } = request;
      const { event: body, environment } = request.body;
      const now = iso(clock());
      const triedBy = { ...workspace, workspace_id: workspace.id, created_by: accountOf(caller) };
      const event = {
        ...readTrialEvent(request, triedBy, body, now),
        environment: environment ?? 'production',
      };
      const steps = verdictsOn(event, workspace.id);
      return await TENANT_TURNS.runSteps(workspace.organization_id, steps, disconnectSignal(reply));
    },
  );

  app.post(
    `${path}/dry-run`,
    operation(
      'event-forwarding-rules.dry-run',
      'dryRunFilter',
      'See which recent events a filter would take',
      { body: ruleDryRunBody, response: { 200: ruleDryRunResult } },
    ),
    async (request, reply) => {
      const workspaceId = request.workspace.id;
      const context = { workspaceId, recent, now: clock(), disconnected: disconnectSignal(reply) };
      return await dryRunOfFilter(request.body, context);
    },
  );

  /** As route matches: the filters of the enabled rules share one budget, in their order; those of disabled ones another. */
  function* verdictsOn(
    event: CanonicalEvent,
    workspaceId: string,
  ): Generator<undefined, Static<typeof rulesTestResult>> {
    const { state } = catalog;
    const disabled = [...state.listing('rule', workspaceId, 'disabled').newestFirst()].reverse();
    const verdicts: Static<typeof rulesTestResult>['rules'][number][] = [];
    for (const some of [state.enabledRules(workspaceId), disabled]) {
      const budget = new FilterBudget(organizationOf(state, workspaceId));
      for (const rule of some) {
        const destination = state.entity('destination', workspaceId, rule.destination_id);
        const mismatch = mismatchOf(rule, subjectOfRules(event), budget) ?? closedTo(destination, event);
        verdicts.push({
          rule_id: rule.id,
          name: rule.name,
          destination_id: rule.destination_id,
          ...verdictBy(mismatch),
        });
        yield;
      }
    }
    return { matched: verdicts.filter(({ matched }) => matched).length, rules: verdicts };
  }
};

function verdictBy(mismatch: Mismatch | undefined): Static<typeof ruleTestResult> {
  return {
    matched: mismatch === undefined,
    because: mismatch?.because ?? null,
    message: mismatch?.message ?? null,
  };
}

type Result = Static<typeof ruleDryRunResult>;
type Verdict = Result['examples'][number]['verdict'];

/** The work of one dry run: 40 events with the most expensive filter, 200 ms in all, or 20,000 ordinary evaluations. */
const MAX_WORK = 40 * MAX_FILTER_WORK;
const EXAMPLES_EACH = 5;
const MAX_FAILURES = 20;

interface DryRunContext {
  readonly workspaceId: string;
  readonly recent: RecentEvents;
  /** Epoch ms. */
  readonly now: number;
  readonly disconnected: AbortSignal;
}

/** Evaluates a filter on recent accepted events of its types, names and environments. */
async function dryRunOfFilter(
  body: Static<typeof ruleDryRunBody>,
  { workspaceId, recent, now, disconnected }: DryRunContext,
): Promise<Result> {
  const { filter = null, event_types, event_names, environments } = body;
  const faults = selectionFaults({ filter, event_names: event_names ?? [] });
  if (faults.length > 0) throw invalidRequest(...faults);
  const [types, names] = [event_types ?? [], event_names ?? []];
  const wantedEnvironments = environments ?? ['production'];
  const query = {
    workspaceId,
    outcome: 'accepted' as const,
    since: sinceOf('/since', body.since, now),
    limit: body.events ?? EVENTS.fallback,
    isWanted: (event: CanonicalEvent) =>
      wantedEnvironments.includes(event.environment) &&
      (types.length === 0 || types.includes(event.type)) &&
      (names.length === 0 || names.includes(eventName(event))),
  };
  const run = new FilterDryRun();
  const evaluate = budgetedVerdicts(filter);
  const coverage = await recent.scan(query, (event) => void run.add(event, evaluate(event)), disconnected);
  return { ...run.result, coverage: presentCoverage(query, coverage) };
}

/** Evaluates until the work of the dry run is used up. Each event has the same budget as in route. */
function budgetedVerdicts(filter: string | null): (event: CanonicalEvent) => FilterResult {
  let left = MAX_WORK;
  return (event) => {
    if (filter === null) return 'matched';
    if (left <= 0) return 'not evaluated';
    const budget = new FilterBudget();
    const verdict = evaluateFilter(filter, event, budget);
    left -= MAX_FILTER_WORK - Math.max(0, budget.left);
    return verdict;
  };
}

class FilterDryRun {
  readonly #counts: Record<Verdict, number> = { matched: 0, 'not matched': 0, failed: 0, 'not evaluated': 0 };
  readonly #failures = new Map<string, number>();
  readonly #examples: Result['examples'][number][] = [];

  add(event: CanonicalEvent, answer: FilterResult): void {
    const verdict = typeof answer === 'string' ? answer : 'failed';
    const message = typeof answer === 'string' ? null : answer.failed;
    this.#counts[verdict]++;
    if (message !== null && (this.#failures.has(message) || this.#failures.size < MAX_FAILURES))
      this.#failures.set(message, (this.#failures.get(message) ?? 0) + 1);
    if (this.#counts[verdict] > EXAMPLES_EACH) return;
    const { message_id, type, environment, received_at } = event;
    const shown = { message_id, event_type: type, event_name: eventName(event), environment, received_at };
    this.#examples.push({ ...shown, verdict, message });
  }

  get result(): Omit<Result, 'coverage'> {
    const { matched, failed, ...others } = this.#counts;
    const [not_matched, not_evaluated] = [others['not matched'], others['not evaluated']];
    const events = matched + failed + not_matched + not_evaluated;
    const failures = [...this.#failures]
      .map(([message, count]) => ({ message, events: count }))
      .sort((a, b) => b.events - a.events);
    return { events, matched, not_matched, failed, not_evaluated, failures, examples: this.#examples };
  }
}
