import { iso } from '@tributary/core';
import { type Static, Type } from 'typebox';
import type { Routes } from '../dependencies.ts';
import { ApiError, payloadTooLarge } from '../errors/api-error.ts';
import { createBatchReader, detail, ingestBatch, messageIds, rejectedItems } from '../ingestion/batch.ts';
import { contractFor, createBatchContractCheck, evaluateContract } from '../ingestion/contract-check.ts';
import {
  type EventBody,
  eventBodies,
  MAX_BATCH,
  NATIVE_TYPES,
  refusedEvent,
  shapeEvent,
} from '../ingestion/event.ts';
import { createIngest, TOO_LARGE, writeKeyOf } from '../ingestion/ingest.ts';
import { consumeEventQuota } from '../limits/rate-limits.ts';
import { disconnectSignal, PRODUCER_TURNS } from '../limits/turns.ts';
import { listOf, nullable, string } from '../resources/schemas.ts';
import { violation } from './contract-fields.ts';

const batchBody = Type.Object(
  {
    batch: Type.Array(Type.Unknown(), {
      maxItems: MAX_BATCH,
      description: 'Events of any type, each with its `type`.',
    }),
  },
  {
    title: 'Batch',
    additionalProperties: false,
    examples: [{ batch: [{ type: 'track', event: 'Order Placed', user_id: 'ada' }] }],
  },
);
type BatchBody = Static<typeof batchBody>;

const ingestQuery = Type.Object(
  {
    check: Type.Optional(
      Type.Literal('contract', {
        description: 'Evaluate the contract first, and store nothing when it blocks the event.',
      }),
    ),
  },
  { additionalProperties: false },
);
type IngestQuery = Static<typeof ingestQuery>;

const receivedAnswer = Type.Object(
  {
    message_id: Type.String(),
    status: Type.Literal('received'),
  },
  { title: 'EventReceived' },
);

/** The 400 response to one event. */
const blockedAnswer = Type.Object(
  {
    error: string('`invalid request`, or `event blocked` by its contract.'),
    details: Type.Optional(listOf(detail)),
    violations: Type.Optional(listOf(violation, 'The violations of the contract.')),
  },
  { description: 'The event is invalid, or its contract blocks it. Nothing was stored.' },
);

const unconfirmed = 'Not confirmed: it may exist. Send it again with the same message_id.';

/** The 503 response to one event. */
const unconfirmedAnswer = Type.Object(
  {
    error: Type.String(),
    message_id: Type.Optional(string('The id to send it again with.')),
  },
  { description: unconfirmed },
);

const batchAnswer = Type.Object(
  {
    accepted: Type.Integer({ description: 'How many are durable now.', examples: [1] }),
    rejected: rejectedItems,
  },
  { title: 'BatchReceived' },
);

/** The 503 response to a batch. */
const unconfirmedBatchAnswer = Type.Object(
  {
    error: Type.String(),
    message_ids: Type.Optional(
      listOf(nullable(Type.String()), 'The id of each item to send it again with; null for a rejected one.'),
    ),
    rejected: Type.Optional(rejectedItems),
  },
  { description: unconfirmed },
);

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
export const eventRoutes: Routes = async (app, dependencies) => {
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
          response: { 202: receivedAnswer, 400: blockedAnswer, 503: unconfirmedAnswer },
        },
      },
      async (request, reply) => {
        const key = writeKeyOf(request);
        consumeEventQuota(dependencies, key, 1);
        const isExact = request.tolerantBody !== undefined;
        const receivedAt = iso(dependencies.clock());
        const shaped = shapeEvent(type, request.body, key, receivedAt, isExact);
        if (!shaped.ok) throw refusedEvent(shaped);
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
        response: { 202: batchAnswer, 503: unconfirmedBatchAnswer },
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
      const checked =
        request.query.check === 'contract'
          ? await checkBatch(read, key.workspace_id, disconnectSignal(reply))
          : read;
      const taken = await ingestBatch(checked, (events) =>
        ingest(request, key, events, () => ({
          message_ids: messageIds(batch.length, events),
          rejected: checked.rejected,
        })),
      );
      return reply.code(202).send(taken);
    },
  );
};

/** 400: the contract blocks it, and nothing was stored. */
function blocked(violations: readonly { kind: string; path: string; message: string }[]): ApiError {
  return new ApiError(400, 'event blocked', {
    details: violations.map(({ path, message }) => ({ path, message })),
    fields: { violations },
  });
}
