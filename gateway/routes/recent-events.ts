import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { type CanonicalEvent, ENVIRONMENTS, EVENT_TYPES, eventName } from '@tributary/core';
import { type Static, Type } from 'typebox';
import type { GatewayDependencies } from '../dependencies.ts';
import { RecentEvents, type RecentEventsQuery } from '../event-search/recent-events.ts';
import { disconnectSignal } from '../limits/fair-semaphore.ts';
import { closed, errorAnswers, freeObject, listOf, oneOf, pathOf } from '../resources/schemas.ts';
import { type IntegerRule, integerText, parseInteger, parseTime, timeText } from '../resources/values.ts';
import { coverage } from './event-contracts/contract-resource.ts';
import { presentCoverage } from './event-contracts/dry-run.ts';

const LIMIT: IntegerRule = { name: 'limit', min: 1, max: 100, fallback: 20 };
const DAY_MS = 24 * 60 * 60 * 1000;
/** The values of an answer end after this many characters: events may be large. */
const MAX_CHARACTERS = 2 * 1024 * 1024;
/** A scan keeps at most this many times the limit of the events that it visits until it ends. */
const KEPT = 4;

const recentQuery = closed({
  limit: integerText(LIMIT, 'Events at most.'),
  event_type: Type.Optional(oneOf(EVENT_TYPES, 'Default: all.')),
  event_name: Type.Optional(
    Type.String({ minLength: 1, maxLength: 1_000, description: 'Of a track event or a page. Default: all.' }),
  ),
  environment: Type.Optional(oneOf(ENVIRONMENTS, 'Default: both.')),
  outcome: Type.Optional(oneOf(['accepted', 'rejected'], 'Default: both.')),
  since: Type.Optional(timeText('ISO 8601; received then or later. Default: a day ago.')),
});

const recentEvents = Type.Object(
  {
    events: listOf(
      freeObject('An event as the stages see it, with `received_at` and `environment`.'),
      'The newest of those that were read, newest first: each partition of the log was read as far back.',
    ),
    coverage,
  },
  { title: 'RecentEvents' },
);

type Query = Static<typeof recentQuery>;

function eventsOf(workspaceId: string, query: Query, now: number): RecentEventsQuery {
  const { event_type, event_name, environment, outcome } = query;
  return {
    workspaceId,
    ...(event_type === undefined ? {} : { type: event_type }),
    ...(environment === undefined ? {} : { environment }),
    ...(outcome === undefined ? {} : { outcome }),
    since: parseTime('since', query.since) ?? now - DAY_MS,
    limit: parseInteger(query.limit, LIMIT),
    isNewest: true,
    isWanted: (event) => event_name === undefined || eventName(event) === event_name,
  };
}

function newest(events: readonly CanonicalEvent[], limit: number): CanonicalEvent[] {
  return events.toSorted((a, b) => (a.received_at < b.received_at ? 1 : -1)).slice(0, limit);
}

/** The first, up to the size of an answer; at least one. */
function withinSize(events: readonly CanonicalEvent[]): readonly CanonicalEvent[] {
  let left = MAX_CHARACTERS;
  return events.filter((event, index) => {
    left -= JSON.stringify(event).length;
    return index === 0 || left >= 0;
  });
}

/** `GET /workspaces/:workspaceId/recent-events`: events to try filters, transformations and contracts with. */
export const recentEventRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (
  app,
  dependencies,
) => {
  const { clock } = dependencies;
  const recent = new RecentEvents(dependencies);
  app.get(
    '/workspaces/:workspaceId/recent-events',
    {
      config: { operation: 'events.recent' },
      schema: {
        operationId: 'listRecentEvents',
        summary: 'Read some recent events, as samples',
        params: pathOf(),
        querystring: recentQuery,
        response: { 200: recentEvents, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const query = eventsOf(request.workspace.id, request.query, clock());
      let events: CanonicalEvent[] = [];
      const visit = (event: CanonicalEvent) => {
        events.push(event);
        if (events.length >= KEPT * query.limit) events = newest(events, query.limit);
        return undefined;
      };
      const read = await recent.scan(query, visit, disconnectSignal(reply));
      return reply.code(200).send({
        events: withinSize(newest(events, query.limit)) as unknown as Static<typeof recentEvents>['events'],
        coverage: presentCoverage(query, read),
      });
    },
  );
};
