import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { type DeliveryOutcome, isUuid, outcomeOfEntry } from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import type { GatewayDependencies } from '../../dependencies.ts';
import { conflict, notFound } from '../../errors/api-error.ts';
import { linkNext, pageRequest } from '../../resources/pagination.ts';
import { errorAnswers, noBody, pathOf } from '../../resources/schemas.ts';
import { SummedCalls } from '../../resources/summed-calls.ts';
import { DeadDeliveries } from './dead-deliveries.ts';
import { eventOf, isKept } from './delivery-event.ts';
import { deliveryGroups, groupsOf, groupsQuery } from './delivery-groups.ts';
import { filterOf, listOutcomes, statedOnce } from './delivery-list.ts';
import {
  deadBody,
  deadQuery,
  deliveryList,
  deliveryQuery,
  deliveryResource,
  discarded,
  presentDelivery,
  presentDeliveryDetail,
  redriven,
} from './delivery-resource.ts';

const path = '/workspaces/:workspaceId/deliveries';

/** `/workspaces/:workspaceId/deliveries`: retrying, dead and redriven deliveries; redriving and discarding them. */
export const deliveryRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (app, dependencies) => {
  const { history, log } = dependencies;
  const dead = new DeadDeliveries(dependencies);
  const summed = new SummedCalls(app, dependencies);
  const audited = (request: FastifyRequest, name: 'redriven' | 'discarded') =>
    summed.count(
      request,
      { name, entity: 'delivery' },
      { scope_id: request.workspace.id, organization_id: request.workspace.organization_id },
    );

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
      const { query, workspace } = request;
      const filter = { ...filterOf(query, undefined), status: query.status };
      const { outcomes, next } = await listOutcomes(history, workspace.id, filter, pageRequest(query));
      linkNext(request, reply, next);
      return reply.code(200).send(outcomes.map(presentDelivery));
    },
  );

  app.get(
    `${path}/groups`,
    {
      config: { operation: 'deliveries.list' },
      schema: {
        operationId: 'groupDeliveries',
        summary: 'Count dead and retrying deliveries by what they failed with',
        params: pathOf(),
        querystring: groupsQuery,
        response: { 200: deliveryGroups, ...errorAnswers },
      },
    },
    async ({ query, workspace }, reply) => reply.code(200).send(await groupsOf(history, workspace.id, query)),
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
      const event = await eventOf(log, outcome.delivery);
      return reply.code(200).send(presentDeliveryDetail(outcome, event));
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
      if (outcome.status === 'dead' && !(await isKept(log, outcome.delivery)))
        throw conflict('event_not_kept');
      const noteChanged = await audited(request, 'redriven');
      if ((await dead.redrive([outcome])) === 0) throw conflict('not_dead');
      noteChanged([outcome.delivery.id]);
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
        querystring: deadQuery,
        body: deadBody,
        response: { 202: redriven, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { query, body, workspace } = request;
      const cursor = statedOnce('cursor', query.cursor, body?.cursor);
      const noteChanged = await audited(request, 'redriven');
      const { done, ...rest } = await dead.toAll(dead.redrive, workspace.id, filterOf(query, body), cursor);
      noteChanged([], done);
      return reply.code(202).send({ redriven: done, ...rest });
    },
  );

  app.post(
    `${path}/:deliveryId/discard`,
    {
      config: { operation: 'deliveries.discard' },
      schema: {
        operationId: 'discardDelivery',
        summary: 'Let a dead delivery be',
        params: pathOf('deliveryId'),
        body: noBody,
        response: { 202: discarded, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const outcome = await outcomeNamed(request, request.params.deliveryId);
      if (outcome.status !== 'discarded') {
        const noteChanged = await audited(request, 'discarded');
        if ((await dead.discard([outcome])) === 0) throw conflict('not_dead');
        noteChanged([outcome.delivery.id]);
      }
      return reply.code(202).send({ discarded: 1, more: false, cursor: null });
    },
  );

  app.post(
    `${path}/discard`,
    {
      config: { operation: 'deliveries.discard' },
      schema: {
        operationId: 'discardDeliveries',
        summary: 'Let dead deliveries be',
        params: pathOf(),
        querystring: deadQuery,
        body: deadBody,
        response: { 202: discarded, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { query, body, workspace } = request;
      const cursor = statedOnce('cursor', query.cursor, body?.cursor);
      const noteChanged = await audited(request, 'discarded');
      const { done, ...rest } = await dead.toAll(dead.discard, workspace.id, filterOf(query, body), cursor);
      noteChanged([], done);
      return reply.code(202).send({ discarded: done, ...rest });
    },
  );

  async function outcomeNamed(request: FastifyRequest, id: string): Promise<DeliveryOutcome> {
    const entry = isUuid(id)
      ? await history.get('delivery', request.workspace.id, id.toLowerCase())
      : undefined;
    if (entry === undefined) throw notFound();
    return outcomeOfEntry(entry);
  }
};
