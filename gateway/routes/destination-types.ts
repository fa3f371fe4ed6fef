import type { ActionField, ConnectorDescription, DestinationAction, Json } from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { GatewayDependencies, Routes } from '../dependencies.ts';
import { notFound } from '../errors/api-error.ts';
import { inPath } from '../resources/catalog-entities.ts';
import {
  boolean,
  closed,
  freeObject,
  integer,
  listOf,
  nullable,
  oneOf,
  operation,
  string,
} from '../resources/schemas.ts';

const preset = Type.Object({
  name: string('As its subscription, or `presets` of the settings, is named.'),
  subscribe: string('For which events.'),
  action: string('What is sent of them.'),
});

const fields = {
  type: Type.String({ description: '`type` of its destinations.', examples: ['webhook'] }),
  title: Type.String(),
  category: nullable(string('What the service is, of kinds from the Segment pack.')),
  compared: nullable(
    Type.String({
      format: 'date',
      description: 'The day on which its requests were compared with the public document of the vendor.',
    }),
  ),
  summary: string('What it is for, in a sentence.'),
  secrets: listOf(
    Type.String(),
    'Settings that are sealed at rest and masked in answers: those that the schema marks `writeOnly`.',
  ),
  max_batch: integer('Deliveries that one request carries at most; 1: each goes alone.'),
  connection_test: boolean('Whether the connection test sends a request; without one it is always `ok`.'),
  service: nullable(string('The service that its destinations are connected with, by a person; null: none.')),
  warehouse: boolean(
    'Whether its destinations are warehouses: events are loaded into tables instead of delivered.',
  ),
  actions: listOf(
    Type.String(),
    'Those that `subscriptions` of the settings may name; empty where the type has none.',
  ),
  deletes: listOf(
    oneOf(['user_id', 'anonymous_id']),
    'Ids of people that can be deleted at the vendor; empty where nobody can.',
  ),
  audiences: boolean('Whether audiences can be created at the vendor.'),
};

const destinationType = Type.Object(fields, { title: 'DestinationType' });

const conditions = Type.Object(
  {
    match: oneOf(['all', 'any']),
    conditions: listOf(
      freeObject(
        '`{ "field", "operator", "value" }`: another field `is` or `is_not` the value; without a value, absent.',
      ),
    ),
  },
  { title: 'FieldConditions' },
);

const actionField = Type.Object(
  {
    field: string('Its key in a mapping.'),
    label: Type.String(),
    description: Type.Optional(Type.String()),
    type: Type.String({ examples: ['string', 'text', 'number', 'integer', 'boolean', 'datetime', 'object'] }),
    required: Type.Optional(Type.Boolean()),
    required_if: Type.Optional(conditions),
    depends_on: Type.Optional(conditions),
    multiple: Type.Optional(boolean('A list of values of the type.')),
    choices: Type.Optional(listOf(freeObject('`{ "value", "label" }`.'))),
    default: Type.Optional(Type.Unsafe<Json>({ description: 'In the form of a mapping.' })),
    dynamic: Type.Optional(boolean('The vendor has the choices.')),
    allow_null: Type.Optional(Type.Boolean()),
    hidden: Type.Optional(boolean('Not meant to be shown in forms.')),
    fields: Type.Optional(listOf(freeObject('A member of an object, in the same form.'))),
    open: Type.Optional(boolean('The object may have further members.')),
  },
  { title: 'ActionField' },
);

const action = Type.Object(
  {
    action: string('As subscriptions name it.'),
    title: Type.String(),
    description: Type.String(),
    trigger: Type.Optional(string('The one that its authors propose.')),
    batch: Type.Optional(boolean('It takes several events in one request.')),
    sync_modes: Type.Optional(
      listOf(Type.String(), 'Values of `__segment_internal_sync_mode` in a mapping.'),
    ),
    other_keys: Type.Optional(listOf(Type.String(), 'Keys that a mapping may have beside the fields.')),
    hooks: Type.Optional(
      listOf(
        Type.Object({
          hook: string('Its key in a mapping.'),
          label: Type.String(),
          description: Type.String(),
          fields: listOf(actionField),
        }),
        'What `POST destinations/{id}/hook` runs at the vendor, such as the creation of a list.',
      ),
    ),
    fields: listOf(actionField),
  },
  { title: 'DestinationAction' },
);

const destinationTypeDetails = Type.Object(
  {
    ...fields,
    description: string('Its deliveries and the meaning of its responses, in Markdown.'),
    settings_schema: freeObject(
      'JSON Schema (draft 2020-12) of `settings`. Its properties stand in the order of a form, each with `title` and `description`; secrets are `writeOnly`.',
    ),
    presets: listOf(preset, 'Presets of the type; empty when it has none.'),
    action_details: listOf(Type.Unsafe<DestinationAction>(action), 'The actions with their fields.'),
    default_subscriptions: listOf(
      Type.Object({
        name: Type.String(),
        action: Type.String(),
        trigger: Type.String(),
        mapping: freeObject('In the form of a mapping.'),
        enabled: boolean('False for one that lacks a field that its action requires.'),
        batch: Type.Optional(boolean('Whether events go in batches; absent where the action takes none.')),
      }),
      'Those of a destination that is created without `subscriptions`.',
    ),
    audience_fields: listOf(Type.Unsafe<ActionField>(actionField), 'The settings of an audience.'),
  },
  { title: 'DestinationTypeDetails' },
);

function presentType(description: ConnectorDescription): Static<typeof destinationType> {
  return {
    type: description.type,
    title: description.title,
    category: description.category ?? null,
    compared: description.compared ?? null,
    summary: firstSentence(description.description),
    secrets: description.secrets,
    max_batch: description.maxBatch,
    connection_test: description.hasTest,
    service: description.service ?? null,
    warehouse: description.isWarehouse === true,
    actions: description.actions ?? [],
    deletes: description.deletes ?? [],
    audiences: description.hasAudiences === true,
  };
}

/** The first sentence of a text in Markdown, without its signs. */
function firstSentence(markdown: string): string {
  const [paragraph = ''] = markdown.split('\n');
  const text = paragraph.replaceAll(/`([^`]+)`|\[([^\]]+)\]\([^)]*\)/g, '$1$2');
  return /^.*?[.:](?=\s|$)/.exec(text)?.[0].replace(/:$/, '.') ?? text;
}

function presentDetails(description: ConnectorDescription) {
  const { actions, subscriptions, audienceFields, settingsSchema } = description.details?.() ?? {
    ...NO_DETAILS,
    settingsSchema: description.settingsSchema,
  };
  return {
    ...presentType(description),
    description: description.description,
    settings_schema: settingsSchema,
    presets: description.presets ?? [],
    action_details: actions,
    default_subscriptions: subscriptions,
    audience_fields: audienceFields,
  };
}

const NO_DETAILS = { actions: [], subscriptions: [], audienceFields: [] };

export function typeOf(
  request: FastifyRequest,
  { descriptions }: GatewayDependencies['connectors'],
): ConnectorDescription {
  const description = descriptions.get(inPath(request, 'type'));
  if (description === undefined) throw notFound();
  return description;
}

const path = '/workspaces/:workspaceId/destination-types';

/** `/workspaces/:workspaceId/destination-types`: the types of destinations to choose from, and one with the data for its form. */
export const destinationTypeRoutes: Routes = async (app, { connectors }) => {
  app.get(
    path,
    operation('destination-types.list', 'listDestinationTypes', 'List the types that destinations may have', {
      querystring: closed({}),
      response: { 200: listOf(destinationType) },
    }),
    async () => [...connectors.descriptions.values()].map(presentType),
  );

  app.get(
    `${path}/:type`,
    operation('destination-types.read', 'readDestinationType', 'Read a type of destinations', {
      response: { 200: destinationTypeDetails },
    }),
    async (request) => {
      const description = typeOf(request, connectors);
      await connectors.prepare(description.type);
      return presentDetails(description);
    },
  );
};
