import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  type CanonicalEvent,
  type ConnectorDestination,
  ENVIRONMENTS,
  InvalidInput,
  type Json,
  type SubscriptionPreview,
  TributaryError,
  trialEvent,
  Unavailable,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import type { GatewayDependencies } from '../dependencies.ts';
import { conflict, invalidRequest, notFound } from '../errors/api-error.ts';
import { EventTracer } from '../event-search/event-tracer.ts';
import { disconnectSignal } from '../limits/turns.ts';
import { entityOf } from '../resources/catalog-entities.ts';
import {
  closed,
  freeObject,
  listOf,
  MAX_RESOURCE_BYTES,
  nullable,
  oneOf,
  operation,
  optional,
  pathOf,
} from '../resources/schemas.ts';
import { opened, type TrialTurns } from './connection-test.ts';
import { createSettingsChecker } from './destination-settings.ts';

const eventFields = {
  message_id: optional(
    Type.String({ minLength: 1, maxLength: 1_000, description: 'A received event, by its id.' }),
  ),
  environment: optional(oneOf(ENVIRONMENTS, 'Where one id was sent to both. Default: production first.')),
  event: optional(freeObject('An event of your own, in place of a received one.')),
};

const previewBody = closed(eventFields, {
  title: 'PreviewBody',
  examples: [{ event: { type: 'track', event: 'Order Placed', user_id: 'u-1' } }],
});

const typePreviewBody = closed(
  { ...eventFields, settings: freeObject('Those of a destination; a masked secret stands for any.') },
  {
    title: 'TypePreviewBody',
    examples: [
      {
        settings: { api_key: '********', endpoint: 'https://rest.iad-01.braze.com' },
        event: { type: 'track', event: 'Order Placed', user_id: 'u-1' },
      },
    ],
  },
);

const preview = Type.Object(
  {
    subscription: Type.String({ description: 'Its name.' }),
    action: Type.String(),
    matches: Type.Boolean({ description: 'Whether the event meets its trigger.' }),
    payload: Type.Unsafe<Json>({
      description: 'The values of the fields; null where the event does not match, or the mapping fails.',
    }),
    requests: listOf(
      Type.Object({
        method: Type.String(),
        url: Type.String(),
        headers: Type.Record(Type.String(), Type.String()),
        body: Type.String(),
      }),
      'Those that it would make, with secrets masked, if each is answered by an empty 200.',
    ),
    error: nullable(Type.String({ description: 'Why it makes no further request.' })),
  },
  { title: 'SubscriptionPreview' },
);

const previews = listOf(preview, 'In the order of the subscriptions; without those that are not enabled.');

/** How long a preview may take, ms. */
const TIMEOUT_MS = 10_000;

interface Options {
  readonly dependencies: GatewayDependencies;
  readonly turns: TrialTurns;
}

/** What an event would become at a destination. Nothing is sent. */
export const previewRoutes: FastifyPluginAsyncTypebox<Options> = async (app, { dependencies, turns }) => {
  const { connectors } = dependencies;
  const tracer = new EventTracer(dependencies);
  const faultsOf = createSettingsChecker();

  app.post(
    '/workspaces/:workspaceId/destinations/:destinationId/preview',
    operation(
      'destinations.preview',
      'previewDestination',
      'Show what an event would become at a destination',
      { params: pathOf('destinationId'), body: previewBody, response: { 200: previews } },
      { bodyLimit: MAX_RESOURCE_BYTES },
    ),
    async (request, reply) => {
      const destination = entityOf(request, dependencies, 'destination', request.params.destinationId);
      const disconnected = disconnectSignal(reply);
      const event = await eventIn(request.workspace.id, request.body, disconnected);
      return previewed(destination.type, opened(dependencies, destination), event, disconnected);
    },
  );

  app.post(
    '/workspaces/:workspaceId/destination-types/:type/preview',
    operation(
      'destination-types.preview',
      'previewDestinationType',
      'Show what an event would become by settings that are not saved',
      { params: pathOf('type'), body: typePreviewBody, response: { 200: previews } },
      { bodyLimit: MAX_RESOURCE_BYTES },
    ),
    async (request, reply) => {
      const { type } = request.params;
      const description = connectors.descriptions.get(type);
      if (description === undefined) throw notFound();
      await connectors.prepare(type);
      const { settings } = request.body;
      const complete = description.generate?.(settings, dependencies.random) ?? settings;
      const faults = faultsOf(description, complete);
      if (faults.length > 0) throw invalidRequest(...faults);
      const disconnected = disconnectSignal(reply);
      const event = await eventIn(request.workspace.id, request.body, disconnected);
      const unsaved = { id: 'unsaved', workspaceId: request.workspace.id, version: 1, settings: complete };
      return previewed(type, unsaved, event, disconnected);
    },
  );

  /** The event of a request; 400 where it states none or both, 404 where a received one is not found. */
  async function eventIn(
    workspaceId: string,
    { message_id: messageId, environment, event }: Static<typeof previewBody>,
    disconnected: AbortSignal,
  ): Promise<CanonicalEvent> {
    if ((messageId == null) === (event == null))
      throw invalidRequest({ path: '/event', message: 'or message_id must be stated, and not both' });
    if (messageId != null) {
      const environments = environment == null ? ENVIRONMENTS : [environment];
      const found = await tracer.find({ workspaceId, messageId, environments }, disconnected);
      if (found === undefined) throw notFound();
      return found;
    }
    try {
      return trialEvent(event ?? {}, workspaceId).source;
    } catch (error) {
      if (!(error instanceof InvalidInput)) throw error;
      throw invalidRequest({ path: '/event', message: error.message });
    }
  }

  async function previewed(
    type: string,
    destination: ConnectorDestination,
    event: CanonicalEvent,
    disconnected: AbortSignal,
  ): Promise<readonly SubscriptionPreview[]> {
    const connector = connectors.connector(type);
    const preview = connector?.preview?.bind(connector);
    if (preview === undefined) throw invalidRequest({ path: '/type', message: 'has no subscriptions' });
    return turns.run(destination.workspaceId, disconnected, async (ended) => {
      const signal = AbortSignal.any([ended, AbortSignal.timeout(TIMEOUT_MS)]);
      try {
        return await preview(destination, event, { signal });
      } catch (error) {
        if (error instanceof InvalidInput) throw conflict('unusable');
        if (signal.aborted) throw new Unavailable('the preview took too long', { cause: error });
        if (error instanceof TributaryError) throw new Unavailable(error.message, { cause: error });
        throw error;
      }
    });
  }
};
