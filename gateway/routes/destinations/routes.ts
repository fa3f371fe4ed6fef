import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { type ConnectorDescription, ENVIRONMENTS, newId } from '@tributary/core';
import type { Static } from 'typebox';
import { accountOf } from '../../authentication/caller.ts';
import type { GatewayDependencies } from '../../dependencies.ts';
import { invalidRequest } from '../../errors/api-error.ts';
import { disconnectSignal } from '../../limits/fair-semaphore.ts';
import { addressIn, alertsIn, confirmationOf } from '../../resources/alerts.ts';
import {
  checkVersion,
  deleteEntity,
  entityOf,
  propose,
  tagVersion,
} from '../../resources/catalog-entities.ts';
import { errorAnswers, MAX_RESOURCE_BYTES, noBody, pathOf, removedAs } from '../../resources/schemas.ts';
import { createDestinationTests } from './connection-test.ts';
import { stateFilter } from './destination-health.ts';
import {
  destinationBody,
  destinationList,
  destinationLists,
  destinationResource,
  destinationTestResult,
  presentDestination,
} from './destination-resource.ts';
import { createConfigurator } from './destination-settings.ts';

const path = '/workspaces/:workspaceId/destinations';

/** `/workspaces/:workspaceId/destinations`: configured destinations. Secrets are write-only. */
export const destinationRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (
  app,
  dependencies,
) => {
  const { catalog, connectors } = dependencies;
  const configurator = createConfigurator(dependencies);
  const tests = createDestinationTests(dependencies);
  app.addHook('preClose', (done) => {
    tests.close();
    done();
  });

  app.get(
    path,
    {
      config: { operation: 'destinations.list' },
      schema: {
        operationId: 'listDestinations',
        summary: 'List destinations',
        params: pathOf(),
        querystring: destinationLists.querystring,
        response: { 200: destinationList, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const listing = catalog.state.listing('destination', request.workspace.id);
      const isSelected = await stateFilter(dependencies, request.workspace.id, request.query.state);
      const found = destinationLists.read(request, reply, listing, isSelected);
      return reply
        .code(200)
        .send(
          found.map((destination) =>
            presentDestination(destination, catalog.state, secretsOf(destination.type)),
          ),
        );
    },
  );

  app.post(
    path,
    {
      config: { operation: 'destinations.create' },
      bodyLimit: MAX_RESOURCE_BYTES,
      schema: {
        operationId: 'createDestination',
        summary: 'Create a destination',
        params: pathOf(),
        body: destinationBody,
        response: { 201: destinationResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { name, type, settings } = request.body;
      const description = connectorOf(type);
      const id = newId();
      const configured = configurator.create(description, id, settings ?? {});
      const alerts = alertsIn(request.body.alerts, catalog.state, request.workspace.id, id);
      await propose(request, dependencies, {
        type: 'destination.created',
        entity: id,
        expected_version: 0,
        data: {
          id,
          workspace_id: request.workspace.id,
          name,
          type,
          settings: configured.settings,
          ...switchesOf(request.body),
          ...limitsIn(request.body),
          alerts,
          ...confirmationOf(dependencies, addressIn(request.workspace, alerts)),
          created_by: accountOf(request.caller),
        },
      });
      const destination = entityOf(request, dependencies, 'destination', id);
      tagVersion(reply, destination);
      return reply
        .code(201)
        .send(presentDestination(destination, catalog.state, description.secrets, configured.generated));
    },
  );

  app.get(
    `${path}/:destinationId`,
    {
      config: { operation: 'destinations.read' },
      schema: {
        operationId: 'readDestination',
        summary: 'Read a destination',
        params: pathOf('destinationId'),
        response: { 200: destinationResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const destination = entityOf(request, dependencies, 'destination', request.params.destinationId);
      tagVersion(reply, destination);
      return reply
        .code(200)
        .send(presentDestination(destination, catalog.state, secretsOf(destination.type)));
    },
  );

  app.put(
    `${path}/:destinationId`,
    {
      config: {
        operation: 'destinations.update',
        patched: (request) => {
          const { destinationId } = request.params as { destinationId: string };
          const stored = entityOf(request, dependencies, 'destination', destinationId);
          return presentDestination(stored, catalog.state, secretsOf(stored.type));
        },
      },
      bodyLimit: MAX_RESOURCE_BYTES,
      schema: {
        operationId: 'replaceDestination',
        summary: 'Replace a destination',
        params: pathOf('destinationId'),
        body: destinationBody,
        response: { 200: destinationResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const stored = entityOf(request, dependencies, 'destination', request.params.destinationId);
      checkVersion(request, stored);
      const { name, type, settings } = request.body;
      if (type !== stored.type)
        throw invalidRequest({ path: '/type', message: `must stay "${stored.type}"` });
      const description = connectorOf(type);
      const alerts = alertsIn(request.body.alerts, catalog.state, stored.workspace_id, stored.id);
      await propose(request, dependencies, {
        type: 'destination.updated',
        entity: stored.id,
        expected_version: stored.version,
        data: {
          name,
          settings: configurator.replace(description, stored, settings ?? {}),
          ...switchesOf(request.body),
          // A pause by the processors keeps its reason until a member resumes the destination.
          paused_because: request.body.paused === true ? (stored.paused_because ?? null) : null,
          ...limitsIn(request.body),
          alerts,
          ...confirmationOf(dependencies, addressIn(request.workspace, alerts), stored.alerts?.email, stored),
        },
      });
      const destination = entityOf(request, dependencies, 'destination', stored.id);
      tagVersion(reply, destination);
      return reply.code(200).send(presentDestination(destination, catalog.state, description.secrets));
    },
  );

  app.post(
    `${path}/:destinationId/test`,
    {
      config: { operation: 'destinations.test' },
      schema: {
        operationId: 'tryDestination',
        summary: 'Try whether a destination would take deliveries',
        params: pathOf('destinationId'),
        body: noBody,
        response: { 200: destinationTestResult, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const destination = entityOf(request, dependencies, 'destination', request.params.destinationId);
      return reply.code(200).send(await tests.test(destination, disconnectSignal(reply)));
    },
  );

  app.delete(
    `${path}/:destinationId`,
    {
      config: { operation: 'destinations.delete' },
      schema: {
        operationId: 'deleteDestination',
        summary: 'Delete a destination',
        params: pathOf('destinationId'),
        response: { 200: removedAs('deleted'), ...errorAnswers },
      },
    },
    async (request) => deleteEntity(request, dependencies, 'destination', request.params.destinationId),
  );

  function switchesOf({ enabled, paused, environments }: Static<typeof destinationBody>) {
    return {
      enabled: enabled ?? true,
      paused: paused ?? false,
      environments: environments ?? ENVIRONMENTS,
    };
  }

  function connectorOf(type: string): ConnectorDescription {
    const description = connectors.descriptions.get(type);
    if (description !== undefined) return description;
    const known = [...connectors.descriptions.keys()].join(', ');
    throw invalidRequest({ path: '/type', message: `must be one of ${known}` });
  }

  function secretsOf(type: string): readonly string[] {
    return connectors.descriptions.get(type)?.secrets ?? [];
  }
};

/** Null: the limits of the installation apply. */
function limitsIn(body: Static<typeof destinationBody>) {
  return {
    max_concurrency: body.max_concurrency ?? null,
    rate_limit_per_second: body.rate_limit_per_second ?? null,
  };
}
