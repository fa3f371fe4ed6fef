import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { ConnectorDescription } from '@tributary/core';
import { type Static, Type } from 'typebox';
import type { GatewayDependencies } from '../dependencies.ts';
import { notFound } from '../errors/api-error.ts';
import { closed, freeObject, listOf, operation, pathOf } from '../resources/schemas.ts';

const preset = Type.Object({
  name: Type.String({ description: 'As `presets` of the settings names it.' }),
  subscribe: Type.String({ description: 'For which events.' }),
  action: Type.String({ description: 'What is sent of them.' }),
});

const destinationType = Type.Object(
  {
    type: Type.String({ description: '`type` of its destinations.', examples: ['webhook'] }),
    title: Type.String(),
    description: Type.String({
      description: 'Its deliveries and the meaning of its responses, in Markdown.',
    }),
    settings_schema: freeObject(
      'JSON Schema (draft 2020-12) of `settings`. Its properties stand in the order of a form, each with `title` and `description`; secrets are `writeOnly`.',
    ),
    secrets: listOf(
      Type.String(),
      'Settings that are sealed at rest and masked in answers: those that the schema marks `writeOnly`.',
    ),
    max_batch: Type.Integer({
      description: 'Deliveries that one request carries at most; 1: each goes alone.',
    }),
    connection_test: Type.Boolean({
      description: 'Whether the connection test sends a request; without one it is always `ok`.',
    }),
    warehouse: Type.Boolean({
      description:
        'Whether its destinations are warehouses: events are loaded into tables instead of delivered.',
    }),
    presets: listOf(preset, 'Presets of the type; empty when it has none.'),
    actions: listOf(
      Type.String(),
      'Those that `actions` of the settings may name; empty where the type has none.',
    ),
  },
  { title: 'DestinationType' },
);

const destinationTypeList = listOf(destinationType);

function presentType(description: ConnectorDescription): Static<typeof destinationType> {
  return {
    type: description.type,
    title: description.title,
    description: description.description,
    settings_schema: description.settingsSchema,
    secrets: description.secrets,
    max_batch: description.maxBatch,
    connection_test: description.hasTest,
    warehouse: description.isWarehouse === true,
    presets: description.presets ?? [],
    actions: description.actions ?? [],
  };
}

const path = '/workspaces/:workspaceId/destination-types';

/** `/workspaces/:workspaceId/destination-types`: the types of destinations, with the data for a form. */
export const destinationTypeRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (
  app,
  { connectors },
) => {
  app.get(
    path,
    operation('destination-types.list', 'listDestinationTypes', 'List the types that destinations may have', {
      querystring: closed({}),
      response: { 200: destinationTypeList },
    }),
    async () => [...connectors.descriptions.values()].map(presentType),
  );

  app.get(
    `${path}/:type`,
    operation('destination-types.read', 'readDestinationType', 'Read a type of destinations', {
      params: pathOf('type'),
      response: { 200: destinationType },
    }),
    async (request) => {
      const description = connectors.descriptions.get(request.params.type);
      if (description === undefined) throw notFound();
      return presentType(description);
    },
  );
};
