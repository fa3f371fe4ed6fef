import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { iso, newId } from '@tributary/core';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { accountOf } from '../../authentication/caller.ts';
import type { GatewayDependencies } from '../../dependencies.ts';
import { RecentEvents } from '../../event-search/recent-events.ts';
import { evaluateContract } from '../../ingestion/contract-check.ts';
import { disconnectSignal } from '../../limits/fair-semaphore.ts';
import {
  checkVersion,
  entityOf,
  isAlready,
  namesVersion,
  propose,
  tagVersion,
} from '../../resources/catalog-entities.ts';
import { errorAnswers, MAX_RESOURCE_BYTES, pathOf, removedAs } from '../../resources/schemas.ts';
import { checkPastVersions, contractFields } from './contract-fields.ts';
import {
  changeQuery,
  contractBody,
  contractList,
  contractLists,
  contractResource,
  dryRunResult,
  inferenceBody,
  inferenceResult,
  presentContract,
} from './contract-resource.ts';
import { dryRun, infer, isDryRun, type RecentEventsContext } from './dry-run.ts';
import { readContractEvent, trialBody, trialOf, trialResult } from './trial.ts';

const path = '/workspaces/:workspaceId/event-contracts';

/** `/workspaces/:workspaceId/event-contracts`: contracts, dry runs and inference. */
export const contractRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (app, dependencies) => {
  const { catalog, contracts, clock } = dependencies;
  const recent = new RecentEvents(dependencies);

  app.get(
    path,
    {
      config: { operation: 'event-contracts.list' },
      schema: {
        operationId: 'listContracts',
        summary: 'List contracts',
        params: pathOf(),
        querystring: contractLists.querystring,
        response: { 200: contractList, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const wanted = request.query.status ?? 'active';
      const found = catalog.state.listing('contract', request.workspace.id, wanted);
      return reply.code(200).send(contractLists.read(request, reply, found).map(presentContract));
    },
  );

  app.post(
    path,
    {
      config: { operation: 'event-contracts.create' },
      bodyLimit: MAX_RESOURCE_BYTES,
      schema: {
        operationId: 'createContract',
        summary: 'Create a contract, or see what it would do to recent events',
        params: pathOf(),
        querystring: changeQuery,
        body: contractBody,
        response: { 200: dryRunResult, 201: contractResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const id = newId();
      const draft = {
        id,
        workspace_id: request.workspace.id,
        ...(await contractFields(request.body, schemaCheckOf(request, reply))),
        status: 'active',
        created_by: accountOf(request.caller),
      } as const;
      if (isDryRun(request.query)) {
        const at = iso(clock());
        const contract = { ...draft, version: 1, created_at: at, updated_at: at };
        return reply.code(200).send(await dryRun(contract, request.query, contextOf(reply)));
      }
      checkPastVersions(catalog.state, request.workspace.id);
      await propose(request, dependencies, {
        type: 'contract.created',
        entity: id,
        expected_version: 0,
        data: draft,
      });
      const contract = contractNamed(request, id);
      tagVersion(reply, contract);
      return reply.code(201).send(presentContract(contract));
    },
  );

  app.get(
    `${path}/:contractId`,
    {
      config: { operation: 'event-contracts.read' },
      schema: {
        operationId: 'readContract',
        summary: 'Read a contract',
        params: pathOf('contractId'),
        response: { 200: contractResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const contract = contractNamed(request, request.params.contractId);
      tagVersion(reply, contract);
      return reply.code(200).send(presentContract(contract));
    },
  );

  app.put(
    `${path}/:contractId`,
    {
      config: {
        operation: 'event-contracts.update',
        patched: (request) => {
          const { contractId } = request.params as { contractId: string };
          return presentContract(contractNamed(request, contractId));
        },
      },
      bodyLimit: MAX_RESOURCE_BYTES,
      schema: {
        operationId: 'replaceContract',
        summary: 'Replace a contract, or see what that would do to recent events',
        params: pathOf('contractId'),
        querystring: changeQuery,
        body: contractBody,
        response: { 200: Type.Union([dryRunResult, contractResource]), ...errorAnswers },
      },
    },
    async (request, reply) => {
      const stored = contractNamed(request, request.params.contractId);
      checkVersion(request, stored);
      const fields = await contractFields(request.body, schemaCheckOf(request, reply), stored);
      if (isDryRun(request.query))
        return reply.code(200).send(await dryRun({ ...stored, ...fields }, request.query, contextOf(reply)));
      const wanted = { ...fields, status: 'active' } as const; // an archived contract refuses every change, also an empty one
      if (!(await isAlready(request, dependencies, 'contract', stored, wanted))) {
        checkPastVersions(catalog.state, request.workspace.id);
        await propose(request, dependencies, {
          type: 'contract.updated',
          entity: stored.id,
          expected_version: stored.version,
          data: fields,
        });
      }
      const contract = contractNamed(request, stored.id);
      tagVersion(reply, contract);
      return reply.code(200).send(presentContract(contract));
    },
  );

  app.delete(
    `${path}/:contractId`,
    {
      config: { operation: 'event-contracts.archive' },
      schema: {
        operationId: 'archiveContract',
        summary: 'Archive a contract',
        params: pathOf('contractId'),
        response: { 200: removedAs('archived'), ...errorAnswers },
      },
    },
    async (request, reply) => {
      const contract = contractNamed(request, request.params.contractId);
      if (contract.status !== 'archived') {
        checkVersion(request, contract);
        await propose(request, dependencies, {
          type: 'contract.archived',
          entity: contract.id,
          ...(namesVersion(request) ? { expected_version: contract.version } : {}),
          data: {},
        });
      }
      return reply.code(200).send({ id: contract.id, status: 'archived' });
    },
  );

  app.post(
    `${path}/:contractId/validate`,
    {
      config: { operation: 'event-contracts.validate' },
      schema: {
        operationId: 'tryContract',
        summary: 'Try an event on a contract without sending it',
        params: pathOf('contractId'),
        body: trialBody,
        response: { 200: trialResult, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const contract = contractNamed(request, request.params.contractId);
      const event = readContractEvent(request, contract, request.body, iso(clock()));
      const verdict = await evaluateContract(contract, event, dependencies, disconnectSignal(reply));
      return reply.code(200).send(trialOf(contract, event, verdict));
    },
  );

  app.post(
    `${path}/infer`,
    {
      config: { operation: 'event-contracts.infer' },
      schema: {
        operationId: 'inferContract',
        summary: 'Infer a contract from recent events',
        params: pathOf(),
        body: inferenceBody,
        response: { 200: inferenceResult, ...errorAnswers },
      },
    },
    async (request, reply) =>
      reply.code(200).send(await infer(request.workspace.id, request.body, contextOf(reply))),
  );

  function contextOf(reply: FastifyReply): RecentEventsContext {
    return { state: catalog.state, recent, contracts, now: clock(), disconnected: disconnectSignal(reply) };
  }

  function schemaCheckOf(request: FastifyRequest, reply: FastifyReply) {
    return { workspaceId: request.workspace.id, contracts, disconnected: disconnectSignal(reply) };
  }

  function contractNamed(request: FastifyRequest, id: string) {
    return entityOf(request, dependencies, 'contract', id);
  }
};
