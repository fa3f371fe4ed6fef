import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { newId, type Transformation } from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import { accountOf } from '../../authentication/caller.ts';
import type { GatewayDependencies } from '../../dependencies.ts';
import { invalidRequest } from '../../errors/api-error.ts';
import { deleteEntity, entityOf, propose, tagVersion } from '../../resources/catalog-entities.ts';
import { byId, byWord, catalogList } from '../../resources/catalog-list.ts';
import { errorAnswers, listOf, MAX_RESOURCE_BYTES, pathOf, removedAs } from '../../resources/schemas.ts';
import { HOURS, lookBack, parseIds, parseInteger } from '../../resources/values.ts';
import {
  metricsOfSeveralQuery,
  metricsQuery,
  presentMetrics,
  presentRun,
  presentTransformation,
  testBody,
  testResult,
  transformationBody,
  transformationList,
  transformationMetrics,
  transformationResource,
} from './transformation-resource.ts';
import { replace, runOnce, testStatusOf, trialOf } from './transformation-test.ts';

const transformations = catalogList<Transformation>()({
  textOf: ({ name }) => name,
  fields: ['name', 'created_at', 'updated_at'],
  filters: {
    status: byWord(['draft', 'active', 'error'], 'Only of this status.', ({ status }) => status),
    created_by: byId('Only those that this account created.', ({ created_by }) => created_by),
  },
});

/** Transformations whose counts are read at a time. */
const READ_AT_ONCE = 4;

const path = '/workspaces/:workspaceId/event-transformations';

/** `/workspaces/:workspaceId/event-transformations`: JavaScript that is active once it passes its own test. */
export const transformationRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (
  app,
  dependencies,
) => {
  const { catalog, sandbox } = dependencies;

  app.get(
    path,
    {
      config: { operation: 'event-transformations.list' },
      schema: {
        operationId: 'listTransformations',
        summary: 'List transformations',
        params: pathOf(),
        querystring: transformations.querystring,
        response: { 200: transformationList, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const listing = catalog.state.listing('transformation', request.workspace.id);
      return reply.code(200).send(transformations.read(request, reply, listing).map(presentTransformation));
    },
  );

  app.post(
    path,
    {
      config: { operation: 'event-transformations.create' },
      bodyLimit: MAX_RESOURCE_BYTES,
      schema: {
        operationId: 'createTransformation',
        summary: 'Create a transformation',
        params: pathOf(),
        body: transformationBody,
        response: { 201: transformationResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { workspace, caller } = request;
      const fields = fieldsOf(request.body);
      const status = await testStatusOf(sandbox, fields, workspace.id);
      const id = newId();
      await propose(request, dependencies, {
        type: 'transformation.created',
        entity: id,
        expected_version: 0,
        data: { id, workspace_id: workspace.id, ...fields, ...status, created_by: accountOf(caller) },
      });
      const transformation = entityOf(request, dependencies, 'transformation', id);
      tagVersion(reply, transformation);
      return reply.code(201).send(presentTransformation(transformation));
    },
  );

  app.get(
    `${path}/:transformationId`,
    {
      config: { operation: 'event-transformations.read' },
      schema: {
        operationId: 'readTransformation',
        summary: 'Read a transformation',
        params: pathOf('transformationId'),
        response: { 200: transformationResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const transformation = storedOf(request);
      tagVersion(reply, transformation);
      return reply.code(200).send(presentTransformation(transformation));
    },
  );

  app.put(
    `${path}/:transformationId`,
    {
      config: {
        operation: 'event-transformations.update',
        patched: (request) => presentTransformation(storedOf(request)),
      },
      bodyLimit: MAX_RESOURCE_BYTES,
      schema: {
        operationId: 'replaceTransformation',
        summary: 'Replace a transformation',
        params: pathOf('transformationId'),
        body: transformationBody,
        response: { 200: transformationResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const fields = fieldsOf(request.body);
      const transformation = await replace(request, dependencies, storedOf(request), fields);
      tagVersion(reply, transformation);
      return reply.code(200).send(presentTransformation(transformation));
    },
  );

  app.delete(
    `${path}/:transformationId`,
    {
      config: { operation: 'event-transformations.delete' },
      schema: {
        operationId: 'deleteTransformation',
        summary: 'Delete a transformation',
        params: pathOf('transformationId'),
        response: { 200: removedAs('deleted'), ...errorAnswers },
      },
    },
    async (request) => deleteEntity(request, dependencies, 'transformation', request.params.transformationId),
  );

  app.post(
    `${path}/:transformationId/test`,
    {
      config: { operation: 'event-transformations.test' },
      bodyLimit: MAX_RESOURCE_BYTES,
      schema: {
        operationId: 'tryTransformation',
        summary: 'Run a transformation on an event',
        params: pathOf('transformationId'),
        body: testBody,
        response: { 200: testResult, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const stored = storedOf(request);
      const event = request.body?.event ?? stored.test_input;
      if (event === null)
        throw invalidRequest({ path: '/event', message: 'is required: there is no test_input' });
      const program = trialOf(request.body?.source_code ?? stored.source_code, request.workspace.id);
      const result = await runOnce(sandbox, program, event, request.workspace.id);
      return reply.code(200).send(presentRun(result));
    },
  );

  function storedOf(request: FastifyRequest) {
    const { transformationId } = request.params as { transformationId: string };
    return entityOf(request, dependencies, 'transformation', transformationId);
  }
};

function fieldsOf(body: Static<typeof transformationBody>) {
  return {
    name: body.name,
    description: body.description ?? null,
    source_code: body.source_code,
    test_input: body.test_input ?? null,
    test_output: body.test_output ?? null,
  };
}

/** `GET .../event-transformations/:transformationId/metrics`: counts of its runs, over all processes. */
export const transformationMetricsRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (
  app,
  dependencies,
) => {
  const { catalog, counters, clock } = dependencies;
  const metricsOf = async (workspaceId: string, transformationId: string, hours: number) => {
    const query = { workspaceId, transformationId, ...lookBack(clock(), hours) };
    return presentMetrics(transformationId, hours, await counters.runs(query));
  };

  app.get(
    '/workspaces/:workspaceId/event-transformations/metrics',
    {
      config: { operation: 'event-transformations.metrics' },
      schema: {
        operationId: 'listTransformationMetrics',
        summary: 'Read what the runs of several transformations came to',
        params: pathOf(),
        querystring: metricsOfSeveralQuery,
        response: { 200: listOf(transformationMetrics, 'In the order of `ids`.'), ...errorAnswers },
      },
    },
    async ({ query, workspace }, reply) => {
      const hours = parseInteger(query.hours, HOURS);
      const ids = [...parseIds(query.ids)].filter(
        (id) => catalog.state.entity('transformation', workspace.id, id) !== undefined,
      );
      const metrics: Static<typeof transformationMetrics>[] = [];
      for (let at = 0; at < ids.length; at += READ_AT_ONCE) {
        const some = ids.slice(at, at + READ_AT_ONCE);
        metrics.push(...(await Promise.all(some.map((id) => metricsOf(workspace.id, id, hours)))));
      }
      return reply.code(200).send(metrics);
    },
  );

  app.get(
    '/workspaces/:workspaceId/event-transformations/:transformationId/metrics',
    {
      config: { operation: 'event-transformations.metrics' },
      schema: {
        operationId: 'readTransformationMetrics',
        summary: 'Read what the runs of a transformation came to',
        params: pathOf('transformationId'),
        querystring: metricsQuery,
        response: { 200: transformationMetrics, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { id } = entityOf(request, dependencies, 'transformation', request.params.transformationId);
      const hours = parseInteger(request.query.hours, HOURS);
      return reply.code(200).send(await metricsOf(request.workspace.id, id, hours));
    },
  );
};
