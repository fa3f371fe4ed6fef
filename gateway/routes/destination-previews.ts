import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  type CanonicalEvent,
  type ConnectorDestination,
  ENVIRONMENTS,
  InvalidInput,
  type Json,
  type JsonObject,
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
  boolean,
  closed,
  freeObject,
  integer,
  listOf,
  MAX_RESOURCE_BYTES,
  nullable,
  oneOf,
  operation,
  optional,
  string,
} from '../resources/schemas.ts';
import { opened, requestFields, type TrialTurns, unsavedIn } from './connection-test.ts';
import { createSettingsChecker } from './destination-settings.ts';
import { typeOf } from './destination-types.ts';
import { RecentEvents } from './recent-events.ts';

/** The event of a trial: a received one, or one of the body. */
export const eventFields = {
  message_id: optional(
    Type.String({ minLength: 1, maxLength: 1_000, description: 'A received event, by its id.' }),
  ),
  environment: optional(oneOf(ENVIRONMENTS, 'Where one id was sent to both. Default: production first.')),
  event: optional(freeObject('An event of your own, in place of a received one.')),
};

/** Of how many recent events is counted whether they match, at most. */
const MAX_RECENT = 1_000;
/** Characters of these events: they are passed to another process. */
const MAX_RECENT_CHARACTERS = 8 * 1_024 * 1_024;

const previewFields = {
  ...eventFields,
  recent_events: optional(
    Type.Integer({
      minimum: 0,
      maximum: MAX_RECENT,
      description:
        'Of how many of the newest accepted events of the last day to count, by subscription, those that meet its trigger. Default: none.',
    }),
  ),
};

const previewBody = closed(previewFields, {
  title: 'PreviewBody',
  examples: [{ event: { type: 'track', event: 'Order Placed', user_id: 'u-1' } }],
});

const typePreviewBody = closed(
  { ...previewFields, settings: freeObject('Those of a destination; a masked secret stands for any.') },
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
    subscription: string('Its name.'),
    action: Type.String(),
    matches: boolean('Whether the event meets its trigger.'),
    payload: Type.Unsafe<Json>({
      description: 'The values of the fields; null where the event does not match, or the mapping fails.',
    }),
    requests: listOf(
      Type.Object(requestFields),
      'Those that it would make, with secrets masked, if each is answered by an empty 200.',
    ),
    error: nullable(string('Why it makes no further request.')),
    recent: nullable(
      Type.Object(
        {
          events: integer('Recent events that were looked at.'),
          matched: integer('Of these, those that meet its trigger.'),
        },
        { description: 'Null unless `recent_events` asks for it.' },
      ),
    ),
  },
  { title: 'SubscriptionPreview' },
);

const previews = listOf(preview, 'In the order of the subscriptions; without those that are not enabled.');

const DAY_MS = 24 * 60 * 60 * 1_000;
/** How long a preview may take, ms. */
const TIMEOUT_MS = 10_000;

interface Options {
  readonly dependencies: GatewayDependencies;
  readonly turns: TrialTurns;
  readonly eventIn: ReturnType<typeof createEventReader>;
}

type EventBody = Static<ReturnType<typeof closed<typeof eventFields>>>;

/**
 * Reads the event of a trial; 400 where the body states none or both, 404 where a received one is not found. `completed`: the
 * members of an event of the body that it lacks.
 */
export function createEventReader(dependencies: GatewayDependencies) {
  const tracer = new EventTracer(dependencies);
  return async (
    workspaceId: string,
    { message_id: messageId, environment, event }: EventBody,
    disconnected: AbortSignal,
    completed: JsonObject = {},
  ): Promise<CanonicalEvent> => {
    if ((messageId == null) === (event == null))
      throw invalidRequest({ path: '/event', message: 'or message_id must be stated, and not both' });
    if (messageId != null) {
      const environments = environment == null ? ENVIRONMENTS : [environment];
      const found = await tracer.find({ workspaceId, messageId, environments }, disconnected);
      if (found === undefined) throw notFound();
      return found;
    }
    try {
      return trialEvent({ ...completed, ...event }, workspaceId).source;
    } catch (error) {
      if (!(error instanceof InvalidInput)) throw error;
      throw invalidRequest({ path: '/event', message: error.message });
    }
  };
}

/** What an event would become at a destination. Nothing is sent. */
export const previewRoutes: FastifyPluginAsyncTypebox<Options> = async (
  app,
  { dependencies, turns, eventIn },
) => {
  const { connectors, clock } = dependencies;
  const recent = new RecentEvents(dependencies);
  const faultsOf = createSettingsChecker();

  app.post(
    '/workspaces/:workspaceId/destinations/:destinationId/preview',
    operation(
      'destinations.preview',
      'previewDestination',
      'Show what an event would become at a destination',
      { body: previewBody, response: { 200: previews } },
      { bodyLimit: MAX_RESOURCE_BYTES },
    ),
    async (request, reply) => {
      const destination = entityOf(request, dependencies, 'destination');
      const target = opened(dependencies, destination);
      return previewed(destination.type, target, request.body, disconnectSignal(reply));
    },
  );

  app.post(
    '/workspaces/:workspaceId/destination-types/:type/preview',
    operation(
      'destination-types.preview',
      'previewDestinationType',
      'Show what an event would become by settings that are not saved',
      { body: typePreviewBody, response: { 200: previews } },
      { bodyLimit: MAX_RESOURCE_BYTES },
    ),
    async (request, reply) => {
      const description = typeOf(request, connectors);
      await connectors.prepare(description.type);
      const { settings } = request.body;
      const complete = description.generate?.(settings, dependencies.random) ?? settings;
      const faults = faultsOf(description, complete);
      if (faults.length > 0) throw invalidRequest(...faults);
      const target = unsavedIn(request, complete);
      return previewed(description.type, target, request.body, disconnectSignal(reply));
    },
  );

  /** The newest events, as far as a bounded scan finds them; undefined where none are asked for. */
  async function recentEvents(
    workspaceId: string,
    { recent_events: limit }: { readonly recent_events?: number | null },
    disconnected: AbortSignal,
  ): Promise<readonly CanonicalEvent[] | undefined> {
    if (limit == null || limit === 0) return undefined;
    const events: CanonicalEvent[] = [];
    let left = MAX_RECENT_CHARACTERS;
    const keep = (event: CanonicalEvent) => {
      left -= JSON.stringify(event).length;
      if (left >= 0) events.push(event);
      return undefined;
    };
    const since = clock() - DAY_MS;
    const query = { workspaceId, outcome: 'accepted', since, limit, isWanted: () => left >= 0 } as const;
    await recent.scan(query, keep, disconnected);
    return events;
  }

  async function previewed(
    type: string,
    destination: ConnectorDestination,
    body: Static<typeof previewBody>,
    disconnected: AbortSignal,
  ): Promise<readonly Static<typeof preview>[]> {
    const { workspaceId } = destination;
    const event = await eventIn(workspaceId, body, disconnected);
    const sample = await recentEvents(workspaceId, body, disconnected);
    const connector = connectors.connector(type);
    if (connector?.preview === undefined)
      throw invalidRequest({ path: '/type', message: 'has no subscriptions' });
    return turns.run(workspaceId, disconnected, async (ended) => {
      const signal = AbortSignal.any([ended, AbortSignal.timeout(TIMEOUT_MS)]);
      try {
        const previews = (await connector.preview?.(destination, event, { signal })) ?? [];
        const counts = sample && (await connector.countMatches?.(destination, sample, { signal }));
        return previews.map((one, at) => ({
          ...one,
          recent: sample && counts ? { events: sample.length, matched: counts[at] ?? 0 } : null,
        }));
      } catch (error) {
        if (error instanceof InvalidInput) throw conflict('unusable');
        if (signal.aborted) throw new Unavailable('the preview took too long', { cause: error });
        if (error instanceof TributaryError) throw new Unavailable(error.message, { cause: error });
        throw error;
      }
    });
  }
};
