import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { destinationMismatch, iso, mismatchOf, newId } from '@tributary/core';
import { accountOf } from '../../authentication/caller.ts';
import type { GatewayDependencies } from '../../dependencies.ts';
import { RecentEvents } from '../../event-search/recent-events.ts';
import { readTrialEvent } from '../../ingestion/trial-event.ts';
import { disconnectSignal } from '../../limits/fair-semaphore.ts';
import {
  checkVersion,
  deleteEntity,
  entityOf,
  isAlready,
  propose,
  tagVersion,
} from '../../resources/catalog-entities.ts';
import { linkNext, pageOf, pageQuery, pageRequest } from '../../resources/pagination.ts';
import { closed, errorAnswers, MAX_RESOURCE_BYTES, pathOf, removedAs } from '../../resources/schemas.ts';
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
  ruleTestBody,
  ruleTestResult,
} from './rule-resource.ts';

const path = '/workspaces/:workspaceId/event-forwarding-rules';

/** `/workspaces/:workspaceId/event-forwarding-rules`: rules that forward events to destinations. */
export const ruleRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (app, dependencies) => {
  const { catalog, log, clock } = dependencies;
  const recent = new RecentEvents(log, clock);

  app.get(
    path,
    {
      config: { operation: 'event-forwarding-rules.list' },
      schema: {
        operationId: 'listRules',
        summary: 'List forwarding rules',
        params: pathOf(),
        querystring: closed(pageQuery),
        response: { 200: ruleList, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const rules = catalog.state.listing('rule', request.workspace.id);
      const page = pageOf(rules, pageRequest(request.query));
      linkNext(request, reply, page.next);
      return reply.code(200).send(page.items.map(presentRule));
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
      config: { operation: 'event-forwarding-rules.update' },
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
      checkReferences(fields, request.workspace.id, catalog.state);
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
      const mismatch = mismatchOf(rule, event) ?? destinationMismatch(destination, event.environment);
      return reply.code(200).send({
        matched: mismatch === undefined,
        because: mismatch?.because ?? null,
        message: mismatch?.message ?? null,
      });
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
};
