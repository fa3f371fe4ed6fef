import { iso, type WriteKey } from '@tributary/core';
import type { FastifyPluginAsync, FastifyRequest } from 'fastify';
import type { GatewayDependencies } from '../../dependencies.ts';
import { ApiError, permissionDenied } from '../../http/errors.ts';
import { errorAnswers } from '../../http/schemas.ts';
import { parseBody } from '../../plugins/body.ts';
import { sdkCredentialOf } from '../../plugins/sdk-credentials.ts';
import { createBatchReader, messageIds, type RejectedItem } from '../events/batch.ts';
import { createIngest } from '../events/ingest.ts';
import { CALLS, type Frame } from './call.ts';
import { eventItem } from './event-item.ts';
import { inWordsOfCalls } from './refusals.ts';
import {
  type CallBody,
  type CallsBody,
  callBody,
  callQuery,
  callsBody,
  settingsAnswer,
  takenAnswer,
} from './schemas.ts';
import { analyticsJsSettings, rudderSourceConfig } from './settings.ts';

const ingestion = { operation: 'events.ingest', sdk: true } as const;
const settings = { operation: 'sdk-settings.read', sdk: true } as const;
const measurements = { operation: 'sdk-measurements.take', sdk: true } as const;

const BATCHES = ['/v1/batch', '/v1/b', '/v1/import', '/beacon/v1/batch'];

/**
 * The HTTP API of Segment, so that SDKs made for it, or for RudderStack, send here unchanged. 200 once the log confirmed.
 * Of a batch the good events are taken and the bad ones named; one in which all are bad is 400, as SDKs try again what
 * is anything else.
 */
export const segmentRoutes: FastifyPluginAsync<GatewayDependencies> = async (app, dependencies) => {
  const readBatch = createBatchReader(dependencies);
  const ingest = createIngest(dependencies);
  // What pages send without asking first, as `sendBeacon` does, may not say that it is JSON.
  app.addContentTypeParser(
    ['text/plain', 'application/x-www-form-urlencoded'],
    { parseAs: 'buffer' },
    parseBody,
  );

  /** Takes the calls that can be taken, and answers which cannot. */
  async function take(request: FastifyRequest, calls: readonly unknown[], frame: Frame) {
    const key = writeKeyOf(request);
    const receivedAt = iso(dependencies.clock());
    const items = calls.map((call) => eventItem(call, frame, receivedAt));
    const read = readBatch(items, key, false, receivedAt);
    const rejected = read.rejected.map(inWordsOfCalls);
    for (const { error } of rejected)
      dependencies.metrics.count('tributary_sdk_events_rejected_total', { error });
    if (read.events.length > 0)
      await ingest(request, key, read.events, () => ({
        message_ids: messageIds(items.length, read.events, rejected),
      }));
    return { taken: read.events.length, rejected };
  }

  for (const call of Object.keys(CALLS)) {
    for (const url of [`/v1/${call}`, `/v1/${call.slice(0, 1)}`]) {
      app.post<{ Body: CallBody }>(
        url,
        { config: ingestion, schema: schemaOf(callBody, takenAnswer) },
        async (request, reply) => {
          const { rejected } = await take(request, [{ ...request.body, type: call }], {});
          const [refusal] = rejected;
          if (refusal !== undefined) throw refused(refusal, {});
          return reply.send({ success: true });
        },
      );
    }
  }

  for (const url of BATCHES) {
    app.post<{ Body: CallsBody }>(
      url,
      { config: ingestion, schema: schemaOf(callsBody, takenAnswer) },
      async (request, reply) => {
        const { batch, ...frame } = request.body;
        const { taken, rejected } = await take(request, batch, frame);
        const [first] = rejected;
        if (first !== undefined && taken === 0) throw refused(first, { rejected });
        return reply.send({ success: true, ...(first === undefined ? {} : { rejected }) });
      },
    );
  }

  // What analytics.js finds out about itself is nobody's event: taken, so that pages see no error, and left at that.
  app.post('/v1/m', { config: measurements, schema: { response: { 200: takenAnswer } } }, async () => ({
    success: true,
  }));

  app.get('/v1/projects/:writeKey/settings', { config: settings, schema: settingsSchema }, async (request) =>
    analyticsJsSettings(rawKeyOf(request), request),
  );
  app.get('/sourceConfig', { config: settings, schema: settingsSchema }, async (request) =>
    rudderSourceConfig(rawKeyOf(request), writeKeyOf(request)),
  );
};

const settingsSchema = { querystring: callQuery, response: { 200: settingsAnswer, ...errorAnswers } };

function schemaOf(body: typeof callBody | typeof callsBody, answer: typeof takenAnswer) {
  return { body, querystring: callQuery, response: { 200: answer } };
}

function writeKeyOf({ caller }: FastifyRequest): WriteKey {
  if (caller.kind !== 'write_key') throw permissionDenied();
  return caller.key;
}

/** The credential that let a request in, which its SDK is told to send with. */
function rawKeyOf(request: FastifyRequest): string {
  return sdkCredentialOf(request) ?? '';
}

function refused({ error, details }: RejectedItem, fields: Readonly<Record<string, unknown>>): ApiError {
  return new ApiError(error === 'payload too large' ? 413 : 400, error, { details, fields });
}
