import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import {
  type CanonicalEvent,
  type Connector,
  type ConnectorDescription,
  type Delivery,
  type DeliveryResult,
  eventName,
  type JsonObject,
  mapConcurrently,
  nameId,
} from '@tributary/core';
import {
  type ConnectorCall,
  createClientConnector,
  createProbe,
  type Part,
  type PartResult,
  type Probe,
  sendInParts,
} from '../client/client-connector.ts';
import { type Deadline, untilAborted } from '../client/deadlines.ts';
import { compressions } from '../client/thread-pool-queue.ts';
import { deliveryJson } from '../delivery-body.ts';
import { classifyNetworkFailure, DELIVERED } from '../failures.ts';
import { classifyResponse, mayConcernSome } from '../http/client.ts';
import type { ConnectorContext, ConnectorKind } from '../kind.ts';
import type { SettingsOf } from '../settings.ts';
import { createSettingsReader, type SettingsFault, secretNames } from '../settings.ts';
import type { BucketClient } from './client.ts';
import { bucketFaults, bucketFields } from './settings.ts';

export const DEFAULT_PATH = '{year}/{month}/{day}/{hour}';

/** Deliveries of one object at most. */
const MAX_BATCH = 10_000;
/** Bytes of JSON of one object at most. */
const MAX_BYTES = 16 * 1_024 * 1_024;

/** The settings as users write them. */
const settingsSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  required: ['bucket', 'access_key_id', 'secret_access_key'],
  additionalProperties: false,
  properties: {
    ...bucketFields,
    path: {
      type: 'string',
      title: 'Path',
      description:
        'What stands between the prefix and the name of an object. `{date}` (2026-03-01), `{year}`, `{month}`, `{day}` and `{hour}` are of the time (UTC) at which the event was received; `{event}` is its name, or its type where it has none, `{type}` and `{environment}` are its own. A batch becomes one object for each path.',
      examples: ['dt={date}/hour={hour}/event={event}'],
      default: DEFAULT_PATH,
      maxLength: 300,
    },
    batch_size: {
      type: 'integer',
      title: 'Deliveries an object',
      description: 'Deliveries that one object holds at most.',
      minimum: 1,
      maximum: MAX_BATCH,
      default: 1_000,
    },
    batch_bytes: {
      type: 'integer',
      title: 'Bytes an object',
      description:
        'Bytes of JSON, before compression, that one object holds at most; a single delivery may be larger.',
      minimum: 1_024,
      maximum: MAX_BYTES,
      default: MAX_BYTES,
    },
    batch_seconds: {
      type: 'integer',
      title: 'Seconds an object',
      description:
        'How long the first delivery of an object may wait for others; above 10 an interval, such as the full hours of 3600, at whose end its deliveries are put.',
      minimum: 0,
      maximum: 3_600,
      default: 5,
    },
  },
} as const satisfies JsonObject;

/** The type of the schema above. */
type S3Settings = SettingsOf<typeof settingsSchema>;

/** Checks that JSON Schema cannot express. Paths are JSON pointers below the settings. */
function settingsFaults(settings: JsonObject): readonly SettingsFault[] {
  const { path } = settings;
  const message = typeof path === 'string' ? pathFault(path) : undefined;
  return [...bucketFaults(settings), ...(message === undefined ? [] : [{ path: '/path', message }])];
}

const readSettings = createSettingsReader<S3Settings>(settingsSchema, settingsFaults);

const description: ConnectorDescription = {
  type: 's3',
  title: 'S3 objects',
  description: [
    'Puts a batch of deliveries as one object of lines of JSON, gzip-compressed: `<prefix>/<path>/<id>.ndjson.gz`, by default `tributary/<YYYY>/<MM>/<DD>/<HH>/<id>.ndjson.gz`. A line is `{ "id", "type": "event", "event", "rule_id", "destination_id", "attempt" }`. For AWS and compatible services.',
    'A full object is put at once, any other after `batch_seconds`. Above 10 s these are intervals, counted from 1970 (3600: the full hours), at whose end waiting deliveries are put. Each process, and each path, has objects of its own.',
    'The path is by the time of reception, the id by the deliveries in the object: a retried or replayed delivery lands in the hour of its event, and the same deliveries sent again replace their object. After a crash they may be sent in another batch: then a delivery is in two objects, under the same `id`. With a `batch_size` of 1 it is always in one.',
    '`SlowDown` and 429 set the pace of the destination; other 5xx and a broken connection are retried. An object that is refused because of its size or content is put again in parts. A bucket that does not exist, refused credentials and a missing permission are dead; so are redirects to another region.',
    'The connection test puts an empty object, `<prefix>/.connection-test`.',
  ].join('\n\n'),
  settingsSchema,
  secrets: secretNames(settingsSchema),
  // Not the bucket, which is part of the host name unless it is in the path.
  harmless: ['prefix', 'path', 'batch_size', 'batch_bytes', 'batch_seconds'],
  maxBatch: MAX_BATCH,
  hasTest: true,
  check: settingsFaults,
};

const TIME = /^(\d{4})-(\d{2})-(\d{2})T(\d{2})/;

/** The values that the places of a path stand for. */
const PLACES = {
  date: ({ received_at }: CanonicalEvent) => received_at.slice(0, 10),
  year: (event: CanonicalEvent) => partOfTime(event, 1),
  month: (event: CanonicalEvent) => partOfTime(event, 2),
  day: (event: CanonicalEvent) => partOfTime(event, 3),
  hour: (event: CanonicalEvent) => partOfTime(event, 4),
  event: (event: CanonicalEvent) => eventName(event) || event.type,
  type: ({ type }: CanonicalEvent) => type,
  environment: ({ environment }: CanonicalEvent) => environment,
} as const satisfies Readonly<Record<string, (event: CanonicalEvent) => string>>;

type Place = keyof typeof PLACES;

function partOfTime({ received_at }: CanonicalEvent, at: number): string {
  return TIME.exec(received_at)?.[at] ?? '';
}

/** Why a path is no template; undefined for one that is. */
export function pathFault(path: string): string | undefined {
  const unknown = [...path.matchAll(/\{([^{}]*)\}/g)].find(([, name = '']) => !Object.hasOwn(PLACES, name));
  const names = Object.keys(PLACES).map((name) => `{${name}}`);
  if (unknown !== undefined) return `has ${unknown[0]}, which is none of ${names.join(', ')}`;
  const parts = path.replaceAll(/\{[a-z]+\}/g, 'x').split('/');
  return parts.every((part) => /^[A-Za-z0-9_=-][A-Za-z0-9_=.-]*$/.test(part))
    ? undefined
    : 'must be names of letters, digits, `_`, `=`, `.`, `-` and places in braces, with a `/` between them';
}

/** Characters of a name of a producer in a path: S3 takes keys of 1,024 bytes. */
const MAX_NAME = 200;

/** The path of an event, with the characters of its name that have a meaning in paths or addresses as `%20`. */
export function pathOf(path: string, event: CanonicalEvent): string {
  return path.replaceAll(/\{([a-z]+)\}/g, (_, name: Place) => escaped(PLACES[name](event)));
}

function escaped(name: string): string {
  const short = encodeURIComponent(name.slice(0, MAX_NAME).toWellFormed()).slice(0, MAX_NAME);
  return short
    .replace(/%.?$/, '')
    .replaceAll(/[!'()*~]|^\./g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`);
}

export const s3: ConnectorKind = { description, create: createS3Connector };

const MAX_CLIENTS = 100;

export function createS3Connector(context: ConnectorContext): Connector {
  return createClientConnector<S3Settings, BucketClient>(context, {
    readSettings,
    limits: ({ batch_size, batch_bytes, batch_seconds }) => ({
      events: batch_size,
      bytes: batch_bytes,
      ms: batch_seconds * 1_000,
    }),
    async open(settings) {
      const { openBucketClient } = await import('./client.ts');
      return openBucketClient(context.egress, settings);
    },
    maxClients: MAX_CLIENTS,
    keepsClient: () => true,
    classifyFailure: (error, { lastFailure }) => classifyS3Failure(error, lastFailure, context.clock()),

    send(client, settings, batch, call) {
      const probe = createProbe(call, () => putNothing(client, settings, call.deadline));
      return sendByPath(batch, settings, (path, ofPath) =>
        sendInParts(ofPath, {
          send: (part) => sendPart(client, `${settings.prefix}/${path}`, part, call, probe),
          hasTimeToHalve: call.hasTimeToHalve,
        }),
      );
    },

    async test(client, settings, { deadline }) {
      await putNothing(client, settings, deadline);
      return { ok: true };
    },
  });
}

/** Objects of one batch that are put at a time. */
const PUTS_AT_ONCE = 8;

/** Sends the deliveries of each path together, and returns a result for each delivery, in the order of the batch. */
async function sendByPath(
  batch: Part,
  { path }: S3Settings,
  send: (path: string, deliveries: Part) => Promise<readonly DeliveryResult[]>,
): Promise<readonly DeliveryResult[]> {
  const paths = new Map<string, [Delivery, ...Delivery[]]>();
  for (const delivery of batch) {
    const own = pathOf(path, delivery.event);
    const known = paths.get(own);
    if (known === undefined) paths.set(own, [delivery]);
    else known.push(delivery);
  }
  const results = new Map<Delivery, DeliveryResult>();
  await mapConcurrently([...paths], PUTS_AT_ONCE, async ([own, deliveries]) => {
    const sent = await send(own, deliveries);
    for (const [i, delivery] of deliveries.entries()) {
      const result = sent[i];
      if (result !== undefined) results.set(delivery, result);
    }
  });
  return batch.map((delivery) => results.get(delivery) ?? { outcome: 'retry', reason: 'not reached' });
}

async function sendPart(
  client: BucketClient,
  folder: string,
  part: Part,
  { deadline, failed }: ConnectorCall,
  probe: Probe,
): Promise<PartResult> {
  try {
    const body = await objectBody(part, () => !deadline.aborted);
    await untilAborted(client.put(objectKey(folder, part), body, deadline.signal), deadline);
    return { result: DELIVERED, mayBeSplit: false };
  } catch (error) {
    const result = failed(error);
    // An object may be refused for its size or its content; most refusals are about the bucket.
    if (!mayConcernSome(result)) return { result, mayBeSplit: false };
    const ofAll = await probe();
    return { result: ofAll ?? result, mayBeSplit: ofAll === undefined };
  }
}

function putNothing(client: BucketClient, { prefix }: S3Settings, deadline: Deadline): Promise<void> {
  return untilAborted(client.put(testKey(prefix), new Uint8Array(), deadline.signal), deadline);
}

const compress = promisify(gzip);

/** The key of the connection test's object. Hidden, so that no pattern for `.ndjson.gz` matches it. */
function testKey(prefix: string): string {
  return `${prefix}/.connection-test`;
}

/** The key of an object, independent of the order of its deliveries. */
function objectKey(folder: string, deliveries: Part): string {
  const id = nameId(...deliveries.map((delivery) => delivery.id).sort());
  return `${folder}/${id}.ndjson.gz`;
}

async function objectBody(deliveries: Part, isWanted: () => boolean): Promise<Uint8Array> {
  const [{ workspace_id }] = deliveries;
  return compressions.take(workspace_id, isWanted, () =>
    compress(deliveries.map((delivery) => `${deliveryJson(delivery)}\n`).join('')),
  );
}

/**
 * Codes of transient errors, whatever their status: the object was damaged on its way, concurrent writes to the same key, a
 * wrong clock of this machine.
 */
const TRANSIENT = new Set([
  'BadDigest',
  'ConditionalRequestConflict',
  'IncompleteBody',
  'OperationAborted',
  'RequestExpired',
  'RequestTimeTooSkewed',
  'RequestTimeout',
  'XAmzContentSHA256Mismatch',
]);

/** Codes of requests that the service refuses for their rate, whatever their status. */
const ABOUT_THE_RATE = new Set([
  'BandwidthLimitExceeded',
  'RequestLimitExceeded',
  'RequestThrottled',
  'RequestThrottledException',
  'SlowDown',
  'ThrottledException',
  'Throttling',
  'ThrottlingException',
  'TooManyRequestsException',
]);

/** Error names of the client for a response without a code. */
const NO_CODES = new Set(['Error', 'Unknown', 'UnknownError']);

/**
 * The result of a failed put. `lastFailure` is the error of a connection. `now` is epoch ms. Undefined for an error that is
 * neither of the service nor of the network.
 */
export function classifyS3Failure(
  error: unknown,
  lastFailure: Error | undefined,
  now: number,
): DeliveryResult | undefined {
  const status = statusOf(error);
  if (status !== undefined && error instanceof Error) {
    const answer = { status, retryAfter: retryAfterOf(error), excerpt: '' };
    const ofStatus = classifyResponse(answer, now);
    const verdict = ofCode(ofStatus, error.name);
    const code = /^[A-Za-z]{3,60}$/.test(error.name) && !NO_CODES.has(error.name) ? ` ${error.name}` : '';
    if (verdict.outcome === 'delivered')
      return { outcome: 'retry', reason: 'the answer is not whole', status };
    return { ...verdict, reason: `${verdict.reason}${code}` };
  }
  const network = classifyNetworkFailure(error);
  if (network !== undefined) return network;
  return lastFailure === undefined ? undefined : classifyNetworkFailure(lastFailure);
}

/** The verdict of the status, unless the service's code says more. */
function ofCode(ofStatus: DeliveryResult, code: string): DeliveryResult {
  if (ofStatus.outcome === 'delivered') return ofStatus;
  if (ABOUT_THE_RATE.has(code)) return { ...ofStatus, outcome: 'retry', throttled: true };
  return TRANSIENT.has(code) ? { ...ofStatus, outcome: 'retry' } : ofStatus;
}

function statusOf(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('$metadata' in error)) return undefined;
  const metadata = error.$metadata;
  if (typeof metadata !== 'object' || metadata === null || !('httpStatusCode' in metadata)) return undefined;
  return typeof metadata.httpStatusCode === 'number' ? metadata.httpStatusCode : undefined;
}

function retryAfterOf(error: Error): string | undefined {
  const response = '$response' in error ? error.$response : undefined;
  if (typeof response !== 'object' || response === null || !('headers' in response)) return undefined;
  const { headers } = response;
  if (typeof headers !== 'object' || headers === null || !('retry-after' in headers)) return undefined;
  return String(headers['retry-after']);
}
