import { iso, permissionOf, type WriteKey } from '@tributary/core';
import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import { wrongKind } from '../authentication/refusal-reasons.ts';
import type { GatewayDependencies } from '../dependencies.ts';
import { ApiError, type ErrorDetail, payloadTooLarge, permissionDenied } from '../errors/api-error.ts';
import { createBatchReader, itemsTooLarge, messageIds } from '../ingestion/batch.ts';
import { shapeEvent } from '../ingestion/canonical-event.ts';
import { contractFor, createBatchContractCheck, evaluateContract } from '../ingestion/contract-check.ts';
import {
  type BatchBody,
  batchAnswer,
  batchBody,
  blockedAnswer,
  type EventBody,
  eventBodies,
  type IngestQuery,
  ingestQuery,
  NATIVE_TYPES,
  receivedAnswer,
  unconfirmedAnswer,
  unconfirmedBatchAnswer,
} from '../ingestion/event-schemas.ts';
import { createIngest, TOO_LARGE } from '../ingestion/ingest.ts';
import { disconnectSignal } from '../limits/fair-semaphore.ts';
import { consumeEventQuota } from '../limits/rate-limits.ts';
import { PRODUCER_TURNS } from '../limits/tenant-turns.ts';
import { errorAnswers } from '../resources/schemas.ts';

/** A number keeps its digits within `properties`, `traits` and `context`: no field of an event is a number. */
const IN_OBJECTS = 2;
const config = { operation: 'events.ingest', body: 'exact', exactFrom: IN_OBJECTS } as const;
const batchConfig = { ...config, body: 'items' } as const;

const CALLS = {
  track: { operationId: 'sendTrack', summary: 'Send what somebody did' },
  identify: { operationId: 'sendIdentify', summary: 'Send who somebody is' },
  page: { operationId: 'sendPage', summary: 'Send what somebody viewed' },
  group: { operationId: 'sendGroup', summary: 'Send the group somebody belongs to' },
} as const satisfies Record<(typeof NATIVE_TYPES)[number], object>;

/** `POST /workspaces/:workspaceId/events/{track,identify,page,group,batch}`: 202 once the log confirmed. */
export const eventRoutes: FastifyPluginAsync<GatewayDependencies> = async (app, dependencies) => {
  const ingest = createIngest(dependencies);
  const readBatch = createBatchReader(dependencies);
  const checkBatch = createBatchContractCheck(dependencies);

  for (const type of NATIVE_TYPES) {
    app.post<{ Body: EventBody; Querystring: IngestQuery }>(
      `/workspaces/:workspaceId/events/${type}`,
      {
        config,
        schema: {
          ...CALLS[type],
          body: eventBodies[type],
          querystring: ingestQuery,
          response: { 202: receivedAnswer, 400: blockedAnswer, ...errorAnswers, 503: unconfirmedAnswer },
        },
      },
      async (request, reply) => {
        const key = writeKeyOf(request);
        consumeEventQuota(dependencies, key, 1);
        const isExact = request.tolerantBody !== undefined;
        const receivedAt = iso(dependencies.clock());
        const shaped = shapeEvent(type, request.body, key, receivedAt, isExact);
        if (!shaped.ok) throw refused(shaped.error, shaped.details);
        if (request.query.check === 'contract') {
          const contract = contractFor(shaped.event, dependencies);
          const verdict =
            contract &&
            (await evaluateContract(
              contract,
              shaped.event,
              dependencies,
              disconnectSignal(reply),
              PRODUCER_TURNS,
            ));
          if (verdict?.outcome === 'rejected') throw blocked(verdict.violations);
        }
        const { message_id } = shaped.event;
        const tooLarge = await ingest(request, key, [shaped], () => ({ message_id }));
        if (tooLarge.length > 0) throw payloadTooLarge('', TOO_LARGE);
        return reply.code(202).send({ message_id, status: 'received' });
      },
    );
  }

  app.post<{ Body: BatchBody; Querystring: IngestQuery }>(
    '/workspaces/:workspaceId/events/batch',
    {
      config: batchConfig,
      schema: {
        operationId: 'sendBatch',
        summary: 'Send events of any types',
        body: batchBody,
        querystring: ingestQuery,
        response: { 202: batchAnswer, ...errorAnswers, 503: unconfirmedBatchAnswer },
      },
    },
    async (request, reply) => {
      const key = writeKeyOf(request);
      const { batch } = request.body;
      consumeEventQuota(dependencies, key, batch.length);
      const { tolerantBody: found } = request;
      const read = readBatch(
        batch,
        key,
        found === undefined ? {} : { isExact: true, itemFaults: found.itemFaults },
      );
      const { events, rejected } =
        request.query.check === 'contract'
          ? await checkBatch(read, key.workspace_id, disconnectSignal(reply))
          : read;
      if (events.length === 0) return reply.code(202).send({ accepted: 0, rejected });
      const tooLarge = await ingest(request, key, events, () => ({
        message_ids: messageIds(batch.length, events),
        rejected,
      }));
      const refusedToo = [...rejected, ...itemsTooLarge(events, tooLarge)].sort((a, b) => a.index - b.index);
      return reply.code(202).send({ accepted: events.length - tooLarge.length, rejected: refusedToo });
    },
  );
};

function writeKeyOf({ caller }: FastifyRequest): WriteKey {
  if (caller.kind !== 'write_key') throw permissionDenied(wrongKind(caller, permissionOf('events.ingest')));
  return caller.key;
}

function refused(error: string, details: readonly ErrorDetail[]): ApiError {
  return new ApiError(error === 'payload too large' ? 413 : 400, error, { details });
}

/** 400: the contract blocks it, and nothing was stored. */
function blocked(violations: readonly { kind: string; path: string; message: string }[]): ApiError {
  return new ApiError(400, 'event blocked', {
    details: violations.map(({ path, message }) => ({ path, message })),
    fields: { violations },
  });
}
