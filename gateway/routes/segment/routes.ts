import {
  type EventType,
  isObject,
  iso,
  type JsonObject,
  MAX_EVENT_BYTES,
  type WriteKey,
} from '@tributary/core';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type TProperties, Type } from 'typebox';
import { sdkCredentialOf } from '../../authentication/caller.ts';
import type { Routes } from '../../dependencies.ts';
import { payloadTooLarge, unsupportedMediaType } from '../../errors/api-error.ts';
import {
  createBatchReader,
  ingestBatch,
  messageIds,
  type RejectedItem,
  rejectedItems,
} from '../../ingestion/batch.ts';
import { changesOf } from '../../ingestion/changes.ts';
import { callItems, MAX_BATCH, refusedEvent } from '../../ingestion/event.ts';
import { createIngest, writeKeyOf } from '../../ingestion/ingest.ts';
import { consumeEventQuota } from '../../limits/rate-limits.ts';
import { MAX_BODY_BYTES } from '../../request-body/request-body.ts';
import { bytesOf, eventItem, type Frame, frameOf, isTooLarge, rejectedCall } from './event-item.ts';

/**
 * The fields are documented but not required: each event is validated after its conversion. Other fields are accepted and
 * kept in `context.segment`.
 */
const FIELDS = {
  messageId: 'Identifies the event; a repeated one is dropped. Assigned when absent.',
  userId: 'The subject. This or `anonymousId` is required.',
  anonymousId: 'The subject while its `user_id` is unknown.',
  event: 'The name of the event, for track.',
  name: 'Of a page or screen.',
  groupId: 'Of a group.',
  previousId: 'The previous id of the user, for alias.',
  properties: 'Of a track, page or screen.',
  traits: 'Of an identify, group or alias.',
  context: 'Circumstances: device, location, library.',
  category: 'Of a page or screen.',
  integrations: 'Which destinations receive it, by name, type or id.',
  timestamp: 'When it happened, ISO 8601, by the client’s clock; corrected by `sentAt`.',
  sentAt: 'When it was sent, ISO 8601, by the client’s clock.',
  writeKey: 'The write key, where no header has it.',
} as const;

const anything = (description: string) => Type.Optional(Type.Unknown({ description }));

const callFields: TProperties = Object.fromEntries(
  Object.entries(FIELDS).map(([name, description]) => [name, anything(description)]),
);

type CallBody = JsonObject;

const callBody = Type.Unsafe<CallBody>(
  Type.Object(callFields, {
    title: 'SdkCall',
    additionalProperties: true,
    examples: [
      {
        userId: 'ada',
        event: 'Order Completed',
        name: 'Home',
        groupId: 'engines',
        previousId: 'a-1',
        properties: { total: 12.5 },
        traits: { plan: 'pro' },
      },
    ],
  }),
);

interface CallsBody {
  readonly batch: readonly unknown[];
  readonly [name: string]: unknown;
}

const callsBody = Type.Unsafe<CallsBody>(
  Type.Object(
    {
      batch: Type.Array(Type.Unknown(), {
        maxItems: MAX_BATCH,
        description: 'Calls, each with its `type`: track, identify, page, screen, group or alias.',
      }),
      sentAt: anything(FIELDS.sentAt),
      context: anything('Below the context of each event.'),
      integrations: anything('Below the integrations of each event.'),
      writeKey: anything(FIELDS.writeKey),
    },
    {
      title: 'SdkBatch',
      description:
        'Other fields are kept in `context.segment.batch` of each event. The fields beside `batch` count for each event: 413 when an event, or all together, would be too large.',
      additionalProperties: true,
      examples: [
        { batch: [{ type: 'track', userId: 'ada', event: 'Order Completed', properties: { total: 12.5 } }] },
      ],
    },
  ),
);

/** The key may be in the query, as `sendBeacon` cannot set headers. */
const callQuery = Type.Object(
  { writeKey: Type.Optional(Type.String({ description: FIELDS.writeKey })) },
  { additionalProperties: true },
);

const settingsPath = Type.Object({
  writeKey: Type.String({ description: 'The write key. It is the credential where no header has one.' }),
});

const takenAnswer = Type.Object(
  {
    success: Type.Literal(true),
    rejected: Type.Optional({
      ...rejectedItems,
      description: 'The events of a batch that were not taken, while others were.',
    }),
  },
  { title: 'SdkCallsTaken' },
);

const settingsAnswer = Type.Unsafe<object>({
  type: 'object',
  additionalProperties: true,
  examples: [{ integrations: { 'Segment.io': { apiHost: 'events.example.com/v1' } } }],
});

const ingestion = { operation: 'events.ingest', sdk: true, body: 'tolerant' } as const;
const ofBatches = { ...ingestion, body: 'tolerant items' } as const;
const settings = { operation: 'sdk-settings.read', sdk: true } as const;
const measurements = { operation: 'sdk-measurements.take', sdk: true } as const;

const OF_EACH_CALL = {
  track: 'Send what somebody did',
  identify: 'Send who somebody is',
  page: 'Send what somebody viewed',
  screen: 'Send which screen of an app somebody viewed',
  group: 'Send the group somebody belongs to',
  alias: 'Send who somebody was before',
} as const satisfies Record<EventType, string>;

const BATCHES = [
  { url: '/v1/batch', operationId: 'sdkBatch', summary: 'Send calls of any types' },
  { url: '/v1/b', operationId: 'sdkBatchShort', summary: 'The same as `/v1/batch`' },
  { url: '/v1/import', operationId: 'sdkImport', summary: 'The same as `/v1/batch`' },
  {
    url: '/beacon/v1/batch',
    operationId: 'sdkBeacon',
    summary: 'The same as `/v1/batch`, as a page that closes sends it',
  },
] as const;

const FRAME_TOO_LARGE = 'what stands beside `batch` counts for each of its events, and is too large for that';

/** The document describes JSON bodies only. */
const BODY =
  'The body is read as JSON; its `Content-Type` may be `text/plain`, `application/x-www-form-urlencoded`, `application/octet-stream`, any JSON type, or absent.';

const JSON_BY_ANOTHER_NAME =
  /^(?:application\/octet-stream|text\/json|application\/(?:x-json|[\w.-]+\+json))(?:\s*;|$)/i;

interface SentCalls {
  readonly calls: readonly unknown[];
  /** The type of the call by the path; undefined for a batch, in which each call has its type. */
  readonly call: EventType | undefined;
  readonly frame: Frame;
  readonly frameBytes: number;
}

/**
 * The HTTP API of Segment, for unchanged SDKs made for it or for RudderStack. 200 once the log has confirmed. Valid events
 * of a batch are accepted and invalid ones listed; a batch of only invalid events is 400, as SDKs retry other errors.
 */
export const segmentRoutes: Routes = async (app, dependencies) => {
  const readBatch = createBatchReader(dependencies, callItems);
  const ingest = createIngest(dependencies);
  const limits = { eventBytes: MAX_EVENT_BYTES, bodyBytes: MAX_BODY_BYTES };
  // Requests without a preflight, as by `sendBeacon`, cannot have the content type of JSON.
  app.addContentTypeParser(['text/plain', 'application/x-www-form-urlencoded'], app.parseBody);
  app.addContentTypeParser(JSON_BY_ANOTHER_NAME, app.parseBody);
  // Some SDKs send no content type, which is accepted. Other types are not.
  app.addContentTypeParser('*', (request, payload, done) => {
    if ((request.headers['content-type'] ?? '').trim() === '') app.parseBody(request, payload, done);
    else done(unsupportedMediaType());
  });

  function countRejected(items: readonly RejectedItem[]): void {
    for (const { error } of items)
      dependencies.metrics.count('tributary_sdk_events_rejected_total', { error });
  }

  /** Accepts the valid calls and returns the rejections of the others. */
  async function take(request: FastifyRequest, { calls, call, frame, frameBytes }: SentCalls) {
    const key = writeKeyOf(request);
    consumeEventQuota(dependencies, key, calls.length);
    const receivedAt = iso(dependencies.clock());
    const { tolerantBody: found } = request;
    const ofBody = changesOf(found?.faults ?? [], call === undefined ? 'body' : 'call');
    const items = calls.map((sent, index) => {
      const faults = found?.itemFaults.get(index);
      return eventItem(
        call === undefined || !isObject(sent) ? sent : { ...sent, type: call },
        frame,
        receivedAt,
        faults === undefined ? ofBody : [...changesOf(faults, 'call'), ...ofBody],
      );
    });
    const read = readBatch(items, key, {
      receivedAt,
      isExact: found !== undefined,
      sent: { items: calls, besideBytes: frameBytes },
    });
    countRejected(read.rejected);
    const { accepted, rejected } = await ingestBatch(read, (events) =>
      ingest(request, key, events, () => ({ message_ids: messageIds(items.length, events) })),
    );
    countRejected(rejected.filter((item) => !read.rejected.includes(item)));
    return { accepted, rejected: rejected.map(rejectedCall) };
  }

  let isWarned = dependencies.publicUrl !== undefined;

  /** Logged once. Pages on https cannot send to an http address. */
  function warnOfProxy({ headers, protocol }: FastifyRequest): void {
    const forwarded = headers['x-forwarded-proto'];
    if (isWarned || forwarded === undefined || String(forwarded).split(',').at(-1)?.trim() === protocol)
      return;
    isWarned = true;
    dependencies.logger.warn(
      { protocol },
      'X-Forwarded-Proto of an untrusted proxy is ignored, so the settings of analytics.js have an address that pages may not reach. Set TRUST_PROXY or TRIBUTARY_PUBLIC_URL',
    );
  }

  for (const [call, does] of Object.entries(OF_EACH_CALL) as [EventType, string][]) {
    const operationId = `sdk${call.slice(0, 1).toUpperCase()}${call.slice(1)}`;
    for (const { url, ...names } of [
      { url: `/v1/${call}`, operationId, summary: does },
      {
        url: `/v1/${call.slice(0, 1)}`,
        operationId: `${operationId}Short`,
        summary: `The same as \`/v1/${call}\``,
      },
    ]) {
      app.post<{ Body: CallBody }>(
        url,
        { config: ingestion, schema: schemaOf(names, callBody) },
        async (request, reply) => {
          const { rejected } = await take(request, { calls: [request.body], call, frame: {}, frameBytes: 0 });
          const [refusal] = rejected;
          if (refusal !== undefined) throw refusedEvent(refusal);
          return reply.send({ success: true });
        },
      );
    }
  }

  for (const { url, ...names } of BATCHES) {
    app.post<{ Body: CallsBody }>(
      url,
      { config: ofBatches, schema: schemaOf(names, callsBody) },
      async (request, reply) => {
        const { batch, ...beside } = request.body;
        const frame = frameOf(beside);
        const frameBytes = bytesOf(frame);
        if (isTooLarge(frameBytes, batch.length, limits)) throw payloadTooLarge('', FRAME_TOO_LARGE);
        const { accepted, rejected } = await take(request, {
          calls: batch,
          call: undefined,
          frame,
          frameBytes,
        });
        const [first] = rejected;
        if (first !== undefined && accepted === 0) throw refusedEvent(first, { rejected });
        return reply.send({ success: true, ...(first === undefined ? {} : { rejected }) });
      },
    );
  }

  // Measurements of analytics.js are accepted, so that pages see no error, and discarded. The route is public, so the
  // body is not read.
  const discard = async (_request: FastifyRequest, reply: FastifyReply) => reply.send({ success: true });
  app.post('/v1/m', { config: measurements, schema: measurementsSchema, onRequest: discard }, discard);

  app.get(
    '/v1/projects/:writeKey/settings',
    {
      config: settings,
      schema: {
        operationId: 'sdkReadSettings',
        summary: 'Read what analytics.js loads before it sends',
        params: settingsPath,
        ...settingsSchema,
      },
    },
    async (request) => {
      warnOfProxy(request);
      return analyticsJsSettings(rawKeyOf(request), reachedAt(dependencies.publicUrl, request));
    },
  );
  app.get(
    '/sourceConfig',
    {
      config: settings,
      schema: {
        operationId: 'sdkReadSourceConfig',
        summary: 'Read what SDKs of RudderStack load before they send',
        ...settingsSchema,
      },
    },
    async (request) => rudderSourceConfig(rawKeyOf(request), writeKeyOf(request)),
  );
};

const settingsSchema = { querystring: callQuery, response: { 200: settingsAnswer } };

const measurementsSchema = {
  operationId: 'sdkMeasure',
  summary: 'Send metrics of analytics.js itself; they are accepted and not stored',
  response: { 200: takenAnswer },
};

function schemaOf(
  names: { readonly operationId: string; readonly summary: string },
  body: typeof callBody | typeof callsBody,
) {
  return { ...names, description: BODY, body, querystring: callQuery, response: { 200: takenAnswer } };
}

/** The credential of the request, which the SDK settings contain. */
function rawKeyOf(request: FastifyRequest): string {
  return sdkCredentialOf(request) ?? '';
}

/** The address at which a client reached the gateway. */
interface Reached {
  readonly protocol: string;
  /** With its port. */
  readonly host: string;
}

/** The configured public address, else that of the request. */
function reachedAt(publicUrl: string | undefined, { protocol, host }: Reached): Reached {
  if (publicUrl === undefined) return { protocol, host };
  const url = new URL(publicUrl);
  return { protocol: url.protocol.slice(0, -1), host: url.host };
}

const PLAN_OF_ALL = { __default: { enabled: true, integrations: {} } };

/**
 * The settings of analytics.js: events are sent to the address that the settings came from, nothing is blocked, no
 * destinations are loaded into the page, and analytics.js does not measure itself.
 */
function analyticsJsSettings(rawKey: string, { protocol, host }: Reached) {
  return {
    integrations: {
      'Segment.io': {
        apiKey: rawKey,
        apiHost: `${host}/v1`,
        protocol,
        unbundledIntegrations: [],
        addBundledMetadata: true,
        maybeBundledConfigIds: {},
      },
    },
    plan: { track: PLAN_OF_ALL, identify: PLAN_OF_ALL, group: PLAN_OF_ALL },
    edgeFunction: {},
    analyticsNextEnabled: true,
    middlewareSettings: {},
    enabledMiddleware: {},
    metrics: { sampleRate: 0 },
    legacyVideoPluginsEnabled: false,
    remotePlugins: [],
  };
}

const NOT_MEASURED = { errors: { enabled: false }, metrics: { enabled: false } };

/** The configuration of RudderStack's SDKs: an enabled source without client-side destinations. */
function rudderSourceConfig(rawKey: string, key: WriteKey) {
  return {
    source: {
      id: key.source_id ?? key.id,
      name: key.name,
      writeKey: rawKey,
      enabled: true,
      workspaceId: key.workspace_id,
      config: { statsCollection: NOT_MEASURED },
      connections: [],
      destinations: [],
      dataplanes: {},
      updatedAt: key.updated_at,
    },
    isHosted: true,
  };
}
