import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { iso, newId } from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import type { GatewayDependencies } from '../../dependencies.ts';
import { accountOf } from '../../http/caller.ts';
import { entityOf, isAlready } from '../../http/entities.ts';
import { linkNext, pageOf, pageRequest, withCursor } from '../../http/lists.ts';
import { propose } from '../../http/propose.ts';
import { errorAnswers, goneAs, MAX_RESOURCE_BYTES, pathOf } from '../../http/schemas.ts';
import { checkVersion, namesVersion, tagVersion } from '../../http/versions.ts';
import { contractFields } from './contract-fields.ts';
import { presentContract, presentViolation } from './presenter.ts';
import {
  contractBody,
  contractList,
  contractQuery,
  contractResource,
  trialBody,
  trialResult,
  violationList,
  violationQuery,
} from './schemas.ts';
import { trialOf } from './trial.ts';
import { readTrialEvent } from './trial-event.ts';
import { violationIn, violationsOf } from './violations.ts';

const path = '/workspaces/:workspaceId/event-contracts';

/** `/workspaces/:workspaceId/event-contracts`: what events must look like, and where they did not. */
export const contractRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (app, dependencies) => {
  const { catalog, contracts, history, clock } = dependencies;

  app.get(
    path,
    {
      config: { operation: 'event-contracts.list' },
      schema: {
        operationId: 'listContracts',
        summary: 'List contracts',
        params: pathOf(),
        querystring: contractQuery,
        response: { 200: contractList, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const wanted = request.query.status ?? 'active';
      const found = catalog.state
        .entities('contract', request.workspace.id)
        .filter(({ status }) => status === wanted);
      const page = pageOf(found, pageRequest(request.query));
      linkNext(request, reply, page.next);
      return reply.code(200).send(page.items.map(presentContract));
    },
  );

  app.post(
    path,
    {
      config: { operation: 'event-contracts.create' },
      bodyLimit: MAX_RESOURCE_BYTES,
      schema: {
        operationId: 'createContract',
        summary: 'Create a contract',
        params: pathOf(),
        body: contractBody,
        response: { 201: contractResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const id = newId();
      await propose(request, dependencies, {
        type: 'contract.created',
        entity: id,
        expected_version: 0,
        data: {
          id,
          workspace_id: request.workspace.id,
          ...contractFields(request.body),
          status: 'active',
          created_by: accountOf(request.caller),
        },
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
      config: { operation: 'event-contracts.update' },
      bodyLimit: MAX_RESOURCE_BYTES,
      schema: {
        operationId: 'replaceContract',
        summary: 'Replace a contract',
        params: pathOf('contractId'),
        body: contractBody,
        response: { 200: contractResource, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const stored = contractNamed(request, request.params.contractId);
      checkVersion(request, stored);
      const fields = contractFields(request.body);
      const wanted = { ...fields, status: 'active' } as const; // an archived one takes no change, not even none
      if (!(await isAlready(request, dependencies, 'contract', stored, wanted)))
        await propose(request, dependencies, {
          type: 'contract.updated',
          entity: stored.id,
          expected_version: stored.version,
          data: fields,
        });
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
        response: { 200: goneAs('archived'), ...errorAnswers },
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

  app.get(
    `${path}/:contractId/violations`,
    {
      config: { operation: 'event-contracts.violations' },
      schema: {
        operationId: 'listViolations',
        summary: 'List the violations of a contract',
        params: pathOf('contractId'),
        querystring: violationQuery,
        response: { 200: violationList, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const contract = contractNamed(request, request.params.contractId);
      const query = violationsOf(contract, request.query);
      const page = await withCursor(() => history.list(query));
      linkNext(request, reply, page.next);
      return reply.code(200).send(page.entries.map((entry) => presentViolation(violationIn(entry))));
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
      const event = readTrialEvent(request, contract, request.body, iso(clock()));
      return reply.code(200).send(trialOf(contract, event, contracts.evaluate(contract, event)));
    },
  );

  function contractNamed(request: FastifyRequest, id: string) {
    return entityOf(request, dependencies, 'contract', id);
  }
};
