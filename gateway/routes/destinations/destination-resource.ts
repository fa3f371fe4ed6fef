import {
  type CatalogView,
  type Destination,
  ENVIRONMENTS,
  type JsonObject,
  MAX_CALLS_PER_SECOND,
  MAX_CONCURRENCY,
  MIN_CALLS_PER_SECOND,
  PRESENT_STATES,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import { alertsBody, alertsResource, emailStatus, statusIn } from '../../resources/alerts.ts';
import { byFlag, byId, byText, byWord, catalogList } from '../../resources/catalog-list.ts';
import {
  closed,
  freeObject,
  listOf,
  name,
  nullable,
  oneOf,
  optional,
  resourceFields,
  time,
  times,
  uuid,
  version,
} from '../../resources/schemas.ts';
import { maskSecrets } from './destination-settings.ts';

const type = Type.String({ description: 'The connector that speaks to it.' });

const concurrency = Type.Integer({
  minimum: 1,
  maximum: MAX_CONCURRENCY,
  description: 'Concurrent requests of the whole installation. Default: the operator’s setting.',
});

const rate = Type.Number({
  minimum: MIN_CALLS_PER_SECOND,
  maximum: MAX_CALLS_PER_SECOND,
  description:
    'Calls that begin in a second, of the whole installation; a call carries one delivery, or a batch. Default: as the operator has set it.',
});

export const destinationBody = closed(
  {
    name,
    type,
    settings: optional(freeObject('By the schema of the connector.')),
    enabled: optional(Type.Boolean({ description: 'Default true.' })),
    max_concurrency: optional(concurrency),
    rate_limit_per_second: optional(rate),
    paused: optional(
      Type.Boolean({ description: 'While true deliveries wait, for as long as it takes. Default false.' }),
    ),
    environments: optional(
      Type.Array(oneOf(ENVIRONMENTS), {
        uniqueItems: true,
        minItems: 1,
        description: 'Events of other environments are not delivered, regardless of rules. Default all.',
      }),
    ),
    alerts: optional(alertsBody),
  },
  {
    title: 'DestinationBody',
    examples: [
      { name: 'CRM', type: 'webhook', settings: { url: 'https://crm.example.com/events', batch_size: 10 } },
    ],
  },
);

export const pausedBecause = nullable(
  Type.Object({ reason: oneOf(['gone'], 'It answered 410 Gone.'), at: time }),
);

export const destinationResource = Type.Object(
  {
    ...resourceFields,
    type,
    settings: freeObject('Secrets are masked, but for those just generated in the answer to a creation.'),
    enabled: Type.Boolean(),
    max_concurrency: Type.Union([concurrency, Type.Null()]),
    rate_limit_per_second: Type.Union([rate, Type.Null()]),
    paused: Type.Boolean(),
    paused_because: pausedBecause,
    environments: listOf(oneOf(ENVIRONMENTS)),
    alerts: nullable(alertsResource),
    alerts_email_status: emailStatus,
    version,
    created_by: uuid,
    ...times,
  },
  { title: 'Destination' },
);

export const destinationTestResult = Type.Object(
  {
    ok: Type.Boolean({ description: 'Whether the destination is reachable and would accept deliveries.' }),
    reason: nullable(Type.String({ description: 'Why not.' })),
    status: nullable(Type.Integer({ description: 'HTTP status, where there was one.' })),
    request: nullable(
      Type.String({
        description:
          'The request as it was sent, of types that send HTTP requests of their own; secret headers are masked.',
      }),
    ),
    response: nullable(Type.String({ description: 'The start of its response.' })),
    duration_ms: Type.Integer(),
  },
  { title: 'DestinationTrial' },
);

const STATES = PRESENT_STATES.join('|');

const statesText = Type.String({
  description: `Only those of these states of their health, separated by commas: ${PRESENT_STATES.join(', ')}.`,
  pattern: `^(${STATES})(,(${STATES}))*$`,
  examples: ['failing,retrying'],
});

export const destinationList = listOf(destinationResource);

export const destinationLists = catalogList<Destination>()({
  textOf: ({ name }) => name,
  fields: ['name', 'created_at', 'updated_at'],
  filters: {
    type: byText('Only of this type.', ({ type }) => type),
    enabled: byFlag('Only enabled ones, or only disabled ones.', ({ enabled }) => enabled),
    paused: byFlag('Only paused ones, or only others.', ({ paused }) => paused === true),
    environment: {
      ...byWord(ENVIRONMENTS, 'Only those that take events of this environment.', () => null),
      matches: ({ environments = ENVIRONMENTS }, value) => environments.some((one) => one === value),
    },
    created_by: byId('Only those that this account created.', ({ created_by }) => created_by),
  },
  own: { state: Type.Optional(statesText) },
});

/** `generated`: secrets that were generated with the destination, shown only in this response. */
export function presentDestination(
  destination: Destination,
  state: CatalogView,
  secrets: readonly string[],
  generated: JsonObject = {},
): Static<typeof destinationResource> {
  return {
    id: destination.id,
    workspace_id: destination.workspace_id,
    name: destination.name,
    type: destination.type,
    settings: { ...maskSecrets(destination.settings, secrets), ...generated },
    enabled: destination.enabled,
    max_concurrency: destination.max_concurrency ?? null,
    rate_limit_per_second: destination.rate_limit_per_second ?? null,
    paused: destination.paused ?? false,
    paused_because: destination.paused_because ?? null,
    environments: destination.environments ?? ENVIRONMENTS,
    alerts: destination.alerts ?? null,
    alerts_email_status: statusIn(state, destination.workspace_id, destination.alerts?.email, destination),
    version: destination.version,
    created_by: destination.created_by,
    created_at: destination.created_at,
    updated_at: destination.updated_at,
  };
}
