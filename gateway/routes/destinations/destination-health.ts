import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  BAD_REASONS,
  type Destination,
  type DestinationHealth,
  type HealthResolution,
  type HealthSample,
  iso,
  mergeHealth,
  sampleLatency,
  startOf,
  successRate,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import type { GatewayDependencies } from '../../dependencies.ts';
import { entityOf } from '../../resources/catalog-entities.ts';
import {
  closed,
  errorAnswers,
  listOf,
  nullable,
  oneOf,
  pathOf,
  time,
  uuid,
} from '../../resources/schemas.ts';
import { HOURS, hoursText, parseInteger } from '../../resources/values.ts';
import { destinationLists } from './destination-resource.ts';

/** Rates are of the last minute, over all processes; null without data. */
const destinationHealth = Type.Object(
  {
    id: uuid,
    active: Type.Boolean({
      description: 'Whether a delivering process reported it in the last two minutes.',
    }),
    at: nullable(time),
    state: oneOf(['well', 'bad'], 'As alerts reported last.'),
    because: nullable(
      oneOf(
        BAD_REASONS,
        'Why it is unhealthy: its circuit is open, most attempts fail, more deliveries are deferred than made, deliveries wait too long, or it answered 410 Gone.',
      ),
    ),
    state_since: nullable(time),
    delivered_per_second: Type.Number(),
    failed_per_second: Type.Number({ description: 'Attempts that did not deliver.' }),
    put_off_per_second: Type.Number({ description: 'Deliveries that were deferred without an attempt.' }),
    p50_ms: nullable(Type.Number()),
    p99_ms: nullable(Type.Number()),
    waiting: Type.Integer({
      description: 'Deliveries that wait for a request. Those in retry are in the list of deliveries.',
    }),
    under_way: Type.Integer(),
    oldest_waiting_ms: nullable(Type.Number()),
    circuit: nullable(oneOf(['closed', 'half-open', 'open'])),
    circuit_since: nullable(time),
    last_delivered_at: nullable(time),
    last_errors: listOf(
      Type.Object({
        at: time,
        outcome: oneOf(['retry', 'dead']),
        reason: Type.String(),
        status: nullable(Type.Integer({ description: 'HTTP status, where there was one.' })),
      }),
      'Newest first, at most five.',
    ),
  },
  { title: 'DestinationHealth' },
);

const destinationHealthList = listOf(destinationHealth, 'Newest destination first.');

/** The longest time that is answered by the minute, hours: it is kept for no longer. */
const HOURS_BY_MINUTE = 6;

const healthBucket = Type.Object(
  {
    at: Type.String({ format: 'date-time', description: 'Start of the minute or hour.' }),
    delivered: Type.Integer({ description: 'Attempts that delivered.' }),
    retried: Type.Integer({ description: 'Attempts that failed and are repeated.' }),
    dead: Type.Integer({ description: 'Attempts that failed for good.' }),
    put_off: Type.Integer({ description: 'Deliveries that were deferred without an attempt.' }),
    success_rate: nullable(
      Type.Number({ description: 'Which part of the attempts delivered, 0 to 1; null without any.' }),
    ),
    p50_ms: nullable(Type.Number()),
    p99_ms: nullable(Type.Number()),
    waiting: Type.Integer({ description: 'The most deliveries that one process had queued at a time.' }),
    oldest_waiting_ms: Type.Number({ description: 'The longest that a queued delivery had waited.' }),
    circuit: oneOf(['closed', 'half-open', 'open'], 'The worst state of any process.'),
  },
  { title: 'HealthBucket' },
);

const healthHistory = Type.Object(
  {
    id: uuid,
    from: time,
    until: time,
    bucket: oneOf(['minute', 'hour'], `By the minute up to ${HOURS_BY_MINUTE} hours, else by the hour.`),
    buckets: listOf(
      healthBucket,
      'Oldest first; those in which nothing happened are left out. A minute is added once it is over, and lost where the process that counted it was killed.',
    ),
  },
  { title: 'HealthHistory' },
);

function presentSample(sample: HealthSample): Static<typeof healthBucket> {
  return {
    at: iso(sample.at),
    delivered: sample.delivered,
    retried: sample.retry,
    dead: sample.dead,
    put_off: sample.put_off,
    success_rate: successRate(sample),
    ...sampleLatency(sample),
    waiting: sample.waiting,
    oldest_waiting_ms: sample.oldest_waiting_ms,
    circuit: sample.circuit,
  };
}

/** `health`: undefined for a destination that no process reports: it has no deliveries, or no process delivers. */
function presentHealth(
  { id, condition }: Pick<Destination, 'id' | 'condition'>,
  health: DestinationHealth | undefined,
): Static<typeof destinationHealth> {
  return {
    id,
    active: health !== undefined,
    at: timeOf(health?.at),
    state: condition?.state ?? 'well',
    because: condition?.because ?? null,
    state_since: condition?.since ?? null,
    delivered_per_second: health?.delivered_per_second ?? 0,
    failed_per_second: health?.failed_per_second ?? 0,
    put_off_per_second: health?.put_off_per_second ?? 0,
    p50_ms: health?.p50_ms ?? null,
    p99_ms: health?.p99_ms ?? null,
    waiting: health?.waiting ?? 0,
    under_way: health?.under_way ?? 0,
    oldest_waiting_ms: health?.oldest_waiting_ms ?? null,
    circuit: health?.circuit ?? null,
    circuit_since: timeOf(health?.circuit_since),
    last_delivered_at: timeOf(health?.last_delivered_at),
    last_errors: (health?.last_errors ?? []).map(({ at, outcome, reason, status }) => ({
      at: iso(at),
      outcome,
      reason,
      status: status ?? null,
    })),
  };
}

function timeOf(ms: number | null | undefined): string | null {
  return ms == null ? null : iso(ms);
}

const path = '/workspaces/:workspaceId/destinations';

/** How deliveries to destinations go: of all at once, of one, and of one over time. */
export const destinationHealthRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (
  app,
  dependencies,
) => {
  const { catalog, healthBoard, clock } = dependencies;

  app.get(
    `${path}/health`,
    {
      config: { operation: 'destinations.health' },
      schema: {
        operationId: 'listDestinationHealth',
        summary: 'Read how deliveries to all destinations go',
        params: pathOf(),
        querystring: destinationLists.querystring,
        response: { 200: destinationHealthList, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { id: workspaceId } = request.workspace;
      const page = destinationLists.read(request, reply, catalog.state.listing('destination', workspaceId));
      const reports = await healthBoard.read(
        workspaceId,
        page.map(({ id }) => id),
      );
      const byDestination = Map.groupBy(reports, ({ destination_id }) => destination_id);
      const health = page.map((destination) =>
        presentHealth(destination, mergeHealth(byDestination.get(destination.id) ?? [])),
      );
      return reply.code(200).send(health);
    },
  );

  app.get(
    `${path}/:destinationId/health`,
    {
      config: { operation: 'destinations.health' },
      schema: {
        operationId: 'readDestinationHealth',
        summary: 'Read how deliveries to a destination go',
        params: pathOf('destinationId'),
        response: { 200: destinationHealth, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const destination = entityOf(request, dependencies, 'destination', request.params.destinationId);
      const reports = await healthBoard.read(request.workspace.id, [destination.id]);
      return reply.code(200).send(presentHealth(destination, mergeHealth(reports)));
    },
  );

  app.get(
    `${path}/:destinationId/health/history`,
    {
      config: { operation: 'destinations.health' },
      schema: {
        operationId: 'readDestinationHealthHistory',
        summary: 'Read how deliveries to a destination went over time',
        params: pathOf('destinationId'),
        querystring: closed({ hours: hoursText }),
        response: { 200: healthHistory, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const destination = entityOf(request, dependencies, 'destination', request.params.destinationId);
      const hours = parseInteger(request.query.hours, HOURS);
      const bucket: HealthResolution = hours <= HOURS_BY_MINUTE ? 'minute' : 'hour';
      const until = clock();
      const from = startOf(until - hours * 3_600_000, bucket);
      const samples = await healthBoard.history({
        workspaceId: request.workspace.id,
        destinationId: destination.id,
        resolution: bucket,
        from,
        until,
      });
      return reply.code(200).send({
        id: destination.id,
        from: iso(from),
        until: iso(until),
        bucket,
        buckets: samples.map(presentSample),
      });
    },
  );
};
