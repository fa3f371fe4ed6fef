import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { type DeliveryOutcome, isUuid } from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import type { GatewayDependencies } from '../../dependencies.ts';
import { conflict, invalidRequest, notFound } from '../../http/errors.ts';
import { linkNext, pageRequest, withCursor } from '../../http/lists.ts';
import { errorAnswers, pathOf } from '../../http/schemas.ts';
import { outcomeOf, presentDelivery, presentDeliveryDetail } from './presenter.ts';
import { Redriver } from './redriver.ts';
import {
  deliveryList,
  deliveryQuery,
  deliveryResource,
  noBody,
  redriveBody,
  redriven,
  redriveQuery,
} from './schemas.ts';

const path = '/workspaces/:workspaceId/deliveries';

/**
 * `/workspaces/:workspaceId/deliveries`: what did not arrive at its first try, and sending it again. History keeps
 * deliveries whole: a page of the list costs reading the events it does not show, 32 KiB each at most.
 */
export const deliveryRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (app, dependencies) => {
  const { history } = dependencies;
  const redriver = new Redriver(dependencies);

  app.get(
    path,
    {
      config: { operation: 'deliveries.list' },
      schema: {
        operationId: 'listDeliveries',
        summary: 'List deliveries that were retried or ended otherwise than at their first try',
        params: pathOf(),
        querystring: deliveryQuery,
        response: { 200: deliveryList, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { status, destination_id } = request.query;
      const { limit, cursor } = pageRequest(request.query);
      const page = await withCursor(() =>
        history.list({
          kind: 'delivery',
          workspaceId: request.workspace.id,
          facets: {
            ...(status === undefined ? {} : { status }),
            ...(destination_id === undefined ? {} : { destination_id: destination_id.toLowerCase() }),
          },
          limit,
          ...(cursor === undefined ? {} : { cursor }),
        }),
      );
      linkNext(request, reply, page.next);
      return reply.code(200).send(page.entries.map((entry) => presentDelivery(outcomeOf(entry))));
    },
  );

  app.get(
    `${path}/:deliveryId`,
    {
      config: { operation: 'deliveries.read' },
      schema: {
        operationId: 'readDelivery',
        summary: 'Read a delivery with its event',
        params: pathOf('deliveryId'),
        response: { 200: deliveryResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const outcome = await outcomeNamed(request, request.params.deliveryId);
      return reply.code(200).send(presentDeliveryDetail(outcome));
    },
  );

  app.post(
    `${path}/:deliveryId/redrive`,
    {
      config: { operation: 'deliveries.redrive' },
      schema: {
        operationId: 'redriveDelivery',
        summary: 'Send a dead delivery again',
        params: pathOf('deliveryId'),
        body: noBody,
        response: { 202: redriven, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const outcome = await outcomeNamed(request, request.params.deliveryId);
      if ((await redriver.redrive([outcome])) === 0) throw conflict();
      return reply.code(202).send({ redriven: 1, more: false, cursor: null });
    },
  );

  app.post(
    `${path}/redrive`,
    {
      config: { operation: 'deliveries.redrive' },
      schema: {
        operationId: 'redriveDeliveries',
        summary: 'Send dead deliveries again',
        params: pathOf(),
        querystring: redriveQuery,
        body: redriveBody,
        response: { 202: redriven, ...errorAnswers },
      },
    },
    async ({ query, body, workspace }, reply) => {
      const destinationId = saidOnce(
        'destination_id',
        lower(query.destination_id),
        lower(body?.destination_id),
      );
      const cursor = saidOnce('cursor', query.cursor, body?.cursor);
      const summary = await redriver.redriveAll(workspace.id, {
        ...(destinationId === undefined ? {} : { destinationId }),
        ...(cursor === undefined ? {} : { cursor }),
      });
      return reply.code(202).send(summary);
    },
  );

  async function outcomeNamed(request: FastifyRequest, id: string): Promise<DeliveryOutcome> {
    const entry = isUuid(id)
      ? await history.get('delivery', request.workspace.id, id.toLowerCase())
      : undefined;
    if (entry === undefined) throw notFound();
    return outcomeOf(entry);
  }
};

type Said = string | null | undefined;

const lower = (id: Said) => id?.toLowerCase();

/** What the query or the body says; 400 when each says something else. */
function saidOnce(name: string, inQuery: Said, inBody: Said): string | undefined {
  if (inQuery && inBody && inQuery !== inBody)
    throw invalidRequest({ path: `/${name}`, message: 'is another one in the query' });
  return inBody ?? inQuery ?? undefined;
}
