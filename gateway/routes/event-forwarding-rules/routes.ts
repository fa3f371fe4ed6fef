import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  type CanonicalEvent,
  destinationMismatch,
  ENVIRONMENTS,
  EVENT_TYPES,
  FilterBudget,
  iso,
  matchRules,
  mismatchOf,
  newId,
  organizationOf,
  type Rule,
} from '@tributary/core';
import type { Static } from 'typebox';
import { accountOf } from '../../authentication/caller.ts';
import type { GatewayDependencies } from '../../dependencies.ts';
import { RecentEvents } from '../../event-search/recent-events.ts';
import { readTrialEvent } from '../../ingestion/trial-event.ts';
import { disconnectSignal } from '../../limits/fair-semaphore.ts';
import { TENANT_TURNS } from '../../limits/tenant-turns.ts';
import {
  checkVersion,
  deleteEntity,
  entityOf,
  isAlready,
  propose,
  tagVersion,
} from '../../resources/catalog-entities.ts';
import { byFlag, byId, byText, byWord, catalogList } from '../../resources/catalog-list.ts';
import { errorAnswers, MAX_RESOURCE_BYTES, pathOf, removedAs } from '../../resources/schemas.ts';
import { dryRunOfFilter } from './dry-run.ts';
import {
  checkReferences,
  presentRule,
  ruleBody,
  ruleDryRunBody,
  ruleDryRunResult,
  ruleFields,
  ruleList,
  ruleResource,
  rulesTestResult,
  ruleTestBody,
  ruleTestResult,
} from './rule-resource.ts';

const rules = catalogList<Rule>()({
  textOf: ({ name }) => name,
  fields: ['name', 'created_at', 'updated_at'],
  filters: {
    enabled: byFlag('Only enabled ones, or only disabled ones.', ({ enabled }) => enabled),
    destination_id: byId('Only those to this destination.', ({ destination_id }) => destination_id),
    transformation_id: byId('Only those with this transformation.', ({ transformation_id: id }) => id),
    environment: {
      ...byWord(ENVIRONMENTS, 'Only those for events of this environment.', () => null),
      matches: ({ environments }, value) => environments.some((environment) => environment === value),
    },
    event_type: {
      ...byWord(EVENT_TYPES, 'Only those that take events of this type.', () => null),
      matches: ({ event_types }, value) =>
        event_types.length === 0 || event_types.some((eventType) => eventType === value),
    },
    event_name: {
      ...byText('Only those that take events of this name.', () => null),
      matches: ({ event_names }, value) => event_names.length === 0 || event_names.includes(value),
    },
    created_by: byId('Only those that this account created.', ({ created_by }) => created_by),
  },
});

const path = '/workspaces/:workspaceId/event-forwarding-rules';

/** `/workspaces/:workspaceId/event-forwarding-rules`: rules that forward events to destinations. */
export const ruleRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (app, dependencies) => {
  const { catalog, clock } = dependencies;
  const recent = new RecentEvents(dependencies);

  app.get(
    path,
    {
      config: { operation: 'event-forwarding-rules.list' },
      schema: {
        operationId: 'listRules',
        summary: 'List forwarding rules',
        params: pathOf(),
        querystring: rules.querystring,
        response: { 200: ruleList, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const found = rules.read(request, reply, catalog.state.listing('rule', request.workspace.id));
      return reply.code(200).send(found.map(presentRule));
    },
  );

  app.post(
    path,
    {
      config: { operation: 'event-forwarding-rules.create' },
      bodyLimit: MAX_RESOURCE_BYTES,
      schema: {
        operationId: 'createRule',
        summary: 'Create a forwarding rule',
        params: pathOf(),
        body: ruleBody,
        response: { 201: ruleResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { workspace, caller } = request;
      const fields = ruleFields(request.body);
      checkReferences(fields, workspace.id, catalog.state);
      const id = newId();
      await propose(request, dependencies, {
        type: 'rule.created',
        entity: id,
        expected_version: 0,
        data: { id, workspace_id: workspace.id, ...fields, created_by: accountOf(caller) },
      });
      const rule = entityOf(request, dependencies, 'rule', id);
      tagVersion(reply, rule);
      return reply.code(201).send(presentRule(rule));
    },
  );

  app.get(
    `${path}/:ruleId`,
    {
      config: { operation: 'event-forwarding-rules.read' },
      schema: {
        operationId: 'readRule',
        summary: 'Read a forwarding rule',
        params: pathOf('ruleId'),
        response: { 200: ruleResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const rule = entityOf(request, dependencies, 'rule', request.params.ruleId);
      tagVersion(reply, rule);
      return reply.code(200).send(presentRule(rule));
    },
  );

  app.put(
    `${path}/:ruleId`,
    {
      config: {
        operation: 'event-forwarding-rules.update',
        patched: (request) => {
          const { ruleId } = request.params as { ruleId: string };
          return presentRule(entityOf(request, dependencies, 'rule', ruleId));
        },
      },
      bodyLimit: MAX_RESOURCE_BYTES,
      schema: {
        operationId: 'replaceRule',
        summary: 'Replace a forwarding rule',
        params: pathOf('ruleId'),
        body: ruleBody,
        response: { 200: ruleResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const stored = entityOf(request, dependencies, 'rule', request.params.ruleId);
      checkVersion(request, stored);
      const fields = ruleFields(request.body);
      checkReferences(fields, request.workspace.id, catalog.state, stored);
      if (!(await isAlready(request, dependencies, 'rule', stored, fields)))
        await propose(request, dependencies, {
          type: 'rule.updated',
          entity: stored.id,
          expected_version: stored.version,
          data: fields,
        });
      const rule = entityOf(request, dependencies, 'rule', stored.id);
      tagVersion(reply, rule);
      return reply.code(200).send(presentRule(rule));
    },
  );

  app.post(
    `${path}/:ruleId/test`,
    {
      config: { operation: 'event-forwarding-rules.test' },
      schema: {
        operationId: 'tryRule',
        summary: 'Try whether a rule would forward an event',
        params: pathOf('ruleId'),
        body: ruleTestBody,
        response: { 200: ruleTestResult, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const rule = entityOf(request, dependencies, 'rule', request.params.ruleId);
      const { event: body, environment } = request.body;
      const event = {
        ...readTrialEvent(request, rule, body, iso(dependencies.clock())),
        environment: environment ?? rule.environments[0] ?? 'production',
      };
      const destination = catalog.state.entity('destination', rule.workspace_id, rule.destination_id);
      const ofRule = await TENANT_TURNS.run(request.workspace.organization_id, () =>
        mismatchOf(rule, event, new FilterBudget(request.workspace.organization_id)),
      );
      const mismatch = ofRule ?? destinationMismatch(destination, event);
      return reply.code(200).send({
        matched: mismatch === undefined,
        because: mismatch?.because ?? null,
        message: mismatch?.message ?? null,
      });
    },
  );

  app.post(
    `${path}/test`,
    {
      config: { operation: 'event-forwarding-rules.test' },
      schema: {
        operationId: 'tryRules',
        summary: 'Try which rules would forward an event, and why the others would not',
        params: pathOf(),
        body: ruleTestBody,
        response: { 200: rulesTestResult, ...errorAnswers },
      },
    },
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
      const verdicts = await TENANT_TURNS.runSteps(workspace.organization_id, steps, disconnectSignal(reply));
      return reply.code(200).send(verdicts);
    },
  );

  app.post(
    `${path}/dry-run`,
    {
      config: { operation: 'event-forwarding-rules.dry-run' },
      schema: {
        operationId: 'dryRunFilter',
        summary: 'See which recent events a filter would take',
        params: pathOf(),
        body: ruleDryRunBody,
        response: { 200: ruleDryRunResult, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const workspaceId = request.workspace.id;
      const context = { workspaceId, recent, now: clock(), disconnected: disconnectSignal(reply) };
      return reply.code(200).send(await dryRunOfFilter(request.body, context));
    },
  );

  app.delete(
    `${path}/:ruleId`,
    {
      config: { operation: 'event-forwarding-rules.delete' },
      schema: {
        operationId: 'deleteRule',
        summary: 'Delete a forwarding rule',
        params: pathOf('ruleId'),
        response: { 200: removedAs('deleted'), ...errorAnswers },
      },
    },
    async (request) => deleteEntity(request, dependencies, 'rule', request.params.ruleId),
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
        const [match] = matchRules([rule], event, budget);
        const destination = state.entity('destination', workspaceId, rule.destination_id);
        const mismatch = match?.mismatch ?? destinationMismatch(destination, event);
        verdicts.push({
          rule_id: rule.id,
          name: rule.name,
          destination_id: rule.destination_id,
          matched: mismatch === undefined,
          because: mismatch?.because ?? null,
          message: mismatch?.message ?? null,
        });
        yield;
      }
    }
    return { matched: verdicts.filter(({ matched }) => matched).length, rules: verdicts };
  }
};
