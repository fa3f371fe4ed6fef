import { createHash } from 'node:crypto';
import {
  type CatalogSource,
  isObject,
  iso,
  type JsonObject,
  MAX_EVENT_BYTES,
  type WriteKey,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { Routes } from '../../dependencies.ts';
import {
  ApiError,
  conflict,
  type ErrorDetail,
  invalidRequest,
  payloadTooLarge,
  unavailable,
} from '../../errors/api-error.ts';
import { createBatchReader, ingestBatch, rejectedItems } from '../../ingestion/batch.ts';
import { changesOf } from '../../ingestion/changes.ts';
import { callItems, MAX_BATCH, refusedEvent } from '../../ingestion/event.ts';
import { createIngest, writeKeyOf } from '../../ingestion/ingest.ts';
import { consumeEventQuota } from '../../limits/rate-limits.ts';
import { parseJson } from '../../request-body/parse-json.ts';
import { MAX_BODY_BYTES, withoutByteOrderMark } from '../../request-body/request-body.ts';
import { signatureFault } from './signature.ts';
import { shownHeaders, webhookItem } from './webhook-event.ts';

const path = Type.Object({
  writeKey: Type.String({ description: 'A write key of the source. It is the credential.' }),
  kind: Type.String({ description: 'The kind of the source’s `webhook`.' }),
});

interface Path {
  readonly writeKey: string;
  readonly kind: string;
}

const body = Type.Unsafe<Buffer>({
  title: 'Webhook',
  description:
    'A JSON object of any form. Of the kinds `hmac` and `none` also a list of objects, each of which is an event; of these and `github` also a form (`application/x-www-form-urlencoded`).',
  examples: [{ id: 'evt_1', type: 'invoice.paid', created: 1_767_225_600 }],
});

const takenAnswer = Type.Object(
  {
    accepted: Type.Integer({ description: 'How many events are durable now.', examples: [1] }),
    rejected: rejectedItems,
  },
  { title: 'WebhookTaken' },
);

/** From this depth numbers keep their digits: a payload is an object, or a list of objects. */
const IN_PAYLOADS = 1;

/** A form above cannot hold a payload that an event may have: its encoding takes three times the bytes at most. */
const MAX_FORM_BYTES = 3 * MAX_EVENT_BYTES + 1_024;

/**
 * `POST /webhooks/:writeKey/:kind`: webhooks of services without an SDK, as events of the key's source. Their signature is
 * verified by the bytes of the body before these are parsed. 200 once the log has confirmed.
 */
export const webhookRoutes: Routes = async (app, dependencies) => {
  const { catalog, clock, webhookSecrets } = dependencies;
  const readBatch = createBatchReader(dependencies, callItems);
  const ingest = createIngest(dependencies);
  // Whatever a sender calls it: the body is a form, or JSON.
  app.addContentTypeParser('*', app.parseBody);

  app.post<{ Params: Path; Body: Buffer | undefined }>(
    '/webhooks/:writeKey/:kind',
    {
      config: { operation: 'events.ingest', credentialIn: 'path', body: 'raw' },
      schema: {
        operationId: 'receiveWebhook',
        summary: 'Receive a webhook of another service',
        description:
          'The vendor’s settings have this address. The request is signed as the `webhook` of the key’s source says, and 401 names the header that is missing, wrong or too old. A repeated request is a duplicate of the first.',
        params: path,
        body,
        response: { 200: takenAnswer },
      },
    },
    async (request, reply) => {
      const key = writeKeyOf(request);
      const { source, webhook } = webhookOf(key, request.params.kind);
      const bytes = request.body ?? Buffer.alloc(0);
      const opened = { ...webhook, secrets: secretsOf(source) };
      const fault = signatureFault(opened, request.headers, bytes, clock());
      if (fault !== undefined) throw notSigned(fault);

      const { payload, changes, isExact } = readPayload(request, bytes, webhook.kind);
      const payloads = payloadsIn(payload, webhook.kind);
      consumeEventQuota(dependencies, key, payloads.length);
      const besideBytes = JSON.stringify(shownHeaders({ webhook, headers: request.headers })).length;
      if (besideBytes * payloads.length > MAX_BODY_BYTES) throw payloadTooLarge('', HEADERS_TOO_LARGE);
      const digest = createHash('sha256').update(bytes).digest('hex');
      const received = { webhook, sourceId: source.id, headers: request.headers, changes };
      const isList = Array.isArray(payload);
      const items = payloads.map((one, index) =>
        isObject(one)
          ? webhookItem(one, { ...received, digest: isList ? `${digest} ${index}` : digest })
          : undefined,
      );
      const read = readBatch(items, key, {
        receivedAt: iso(clock()),
        isExact,
        sent: { items: payloads, besideBytes },
      });
      const invalid = read.rejected.map((rejected) =>
        items[rejected.index] === undefined ? { ...rejected, details: [NO_OBJECT] } : rejected,
      );
      const { accepted, rejected } = await ingestBatch({ ...read, rejected: invalid }, (events) =>
        ingest(request, key, events, () => ({})),
      );
      const [first] = rejected;
      if (first !== undefined && accepted === 0) throw refusedEvent(first, isList ? { rejected } : {});
      return reply.send({ accepted, rejected });
    },
  );

  /** The source of a key, and its webhook of a kind. 409 when there is none. */
  function webhookOf(key: WriteKey, kind: string) {
    const source =
      key.source_id === null ? undefined : catalog.state.entity('source', key.workspace_id, key.source_id);
    if (source === undefined) throw noWebhook('the write key of the address belongs to no source');
    const { webhook } = source;
    if (webhook == null) throw noWebhook('the source of the write key has no webhook');
    if (webhook.kind !== kind) throw noWebhook(`the webhook of the source is of the kind ${webhook.kind}`);
    return { source, webhook };
  }

  /** 503 when no key opens them: the sender repeats the request, and an operator can add the key. */
  function secretsOf(source: CatalogSource): readonly string[] {
    try {
      return webhookSecrets(source);
    } catch (error) {
      throw unavailable({}, error);
    }
  }
};

const HEADERS_TOO_LARGE = 'the headers that the source names count for each event of the list';

const NO_OBJECT: ErrorDetail = { path: '', message: 'must be an object' };

/** The sender sees the body of the response at most, so it says what the header `WWW-Authenticate` says. */
function notSigned(fault: ErrorDetail): ApiError {
  return new ApiError(401, 'not authenticated', {
    details: [fault],
    challenge: { reason: `the header ${fault.path} ${fault.message}` },
  });
}

function noWebhook(message: string): ApiError {
  return conflict('no_webhook', [], [{ path: '', message }]);
}

const FORM = /^application\/x-www-form-urlencoded\s*(?:;|$)/i;

/** Parses a verified body. 400 for one that is neither JSON nor a form, 413 for a form that is too large. */
function readPayload({ headers }: FastifyRequest, bytes: Buffer, kind: string) {
  const isForm = FORM.test((headers['content-type'] ?? '').trim());
  if (!isForm || !takesForms(kind)) return parsed(bytes);
  if (bytes.length > MAX_FORM_BYTES)
    throw payloadTooLarge('', `a form may have at most ${MAX_FORM_BYTES} bytes`);
  const fields = new URLSearchParams(bytes.toString('utf8'));
  if (kind !== 'github') return { payload: fieldsOf(fields), changes: [], isExact: false };
  const payload = fields.get('payload');
  if (payload === null) throw invalidRequest({ path: '/payload', message: 'is required in a form' });
  return parsed(Buffer.from(payload));
}

function takesForms(kind: string): boolean {
  return kind === 'github' || takesLists(kind);
}

/** The senders of other kinds send one object. */
function takesLists(kind: string): boolean {
  return kind === 'hmac' || kind === 'none';
}

function parsed(bytes: Buffer) {
  if (bytes.length === 0) throw invalidRequest({ path: '', message: 'the body is empty' });
  const json = parseJson(withoutByteOrderMark(bytes), 'tolerant', IN_PAYLOADS);
  if (!json.ok) throw invalidRequest(...json.faults);
  const { value: payload, read } = json;
  return { payload, changes: changesOf(read?.faults ?? [], 'call'), isExact: read !== undefined };
}

/** The fields of a form; one that is repeated is a list. */
function fieldsOf(form: URLSearchParams): JsonObject {
  const fields = Map.groupBy(form, ([name]) => name);
  fields.delete('__proto__');
  return Object.fromEntries(
    [...fields].map(([name, pairs]) => {
      const [value = '', ...others] = pairs.map(([, text]) => text);
      return [name, others.length === 0 ? value : [value, ...others]];
    }),
  );
}

/** The payloads of a request. 400 for what cannot be one, or is too many. */
function payloadsIn(payload: unknown, kind: string): readonly unknown[] {
  if (!Array.isArray(payload)) return [payload];
  if (!takesLists(kind)) throw invalidRequest(NO_OBJECT);
  if (payload.length > MAX_BATCH)
    throw invalidRequest({ path: '', message: `must have at most ${MAX_BATCH} items` });
  return payload;
}
