import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { type Connector, type DeliveryResult, nameId } from '@tributary/core';
import {
  type ConnectorCall,
  createClientConnector,
  createProbe,
  type Probe,
} from '../client/client-connector.ts';
import { type Deadline, untilAborted } from '../client/deadlines.ts';
import { type Part, type PartResult, sendInParts } from '../client/partial-batches.ts';
import { compressions } from '../client/thread-pool-queue.ts';
import { deliveryJson } from '../delivery-body.ts';
import { classifyNetworkFailure, DELIVERED } from '../failures.ts';
import { classifyResponse, mayConcernSome } from '../http/response.ts';
import type { ConnectorContext, ConnectorKind } from '../kind.ts';
import type { BucketClient } from './client.ts';
import { description, readSettings, type S3Settings } from './settings.ts';

export const s3: ConnectorKind = { description, create: createS3Connector };

const MAX_BYTES = 16 * 1_024 * 1_024;
const MAX_CLIENTS = 100;

export function createS3Connector(context: ConnectorContext): Connector {
  return createClientConnector<S3Settings, BucketClient>(context, {
    readSettings,
    limits: ({ batch_size, batch_seconds }) => ({
      events: batch_size,
      bytes: MAX_BYTES,
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
      return sendInParts(batch, {
        send: (part) => sendPart(client, settings, part, call, probe),
        hasTimeToHalve: call.hasTimeToHalve,
      });
    },

    async test(client, settings, { deadline }) {
      await putNothing(client, settings, deadline);
      return { ok: true };
    },
  });
}

async function sendPart(
  client: BucketClient,
  { prefix }: S3Settings,
  part: Part,
  { deadline, failed }: ConnectorCall,
  probe: Probe,
): Promise<PartResult> {
  try {
    const body = await objectBody(part, () => !deadline.aborted);
    await untilAborted(client.put(objectKey(prefix, part), body, deadline.signal), deadline);
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
function objectKey(prefix: string, deliveries: Part): string {
  const [oldest = ''] = deliveries.map(({ created_at }) => created_at).sort();
  const hour = oldest.slice(0, 13).replace(/[-T]/g, '/');
  const id = nameId(...deliveries.map((delivery) => delivery.id).sort());
  return `${prefix}/${hour}/${id}.ndjson.gz`;
}

async function objectBody(deliveries: Part, isWanted: () => boolean): Promise<Uint8Array> {
  const [{ workspace_id }] = deliveries;
  return compressions.take(workspace_id, isWanted, () =>
    compress(deliveries.map((delivery) => `${deliveryJson(delivery)}\n`).join('')),
  );
}

/**
 * Codes of transient errors, whatever their status: the object was damaged on its way, concurrent writes to the same key, a
 * wrong clock of this machine, throttling.
 */
const TRANSIENT = new Set([
  'BadDigest',
  'ConditionalRequestConflict',
  'IncompleteBody',
  'OperationAborted',
  'RequestExpired',
  'RequestThrottled',
  'RequestTimeTooSkewed',
  'RequestTimeout',
  'SlowDown',
  'Throttling',
  'ThrottlingException',
  'TooManyRequestsException',
  'XAmzContentSHA256Mismatch',
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
    const passes = ofStatus.outcome === 'dead' && TRANSIENT.has(error.name);
    const verdict = passes ? ({ ...ofStatus, outcome: 'retry' } as const) : ofStatus;
    const code = /^[A-Za-z]{3,60}$/.test(error.name) && !NO_CODES.has(error.name) ? ` ${error.name}` : '';
    if (verdict.outcome === 'delivered')
      return { outcome: 'retry', reason: 'the answer is not whole', status };
    return { ...verdict, reason: `${verdict.reason}${code}` };
  }
  const network = classifyNetworkFailure(error);
  if (network !== undefined) return network;
  return lastFailure === undefined ? undefined : classifyNetworkFailure(lastFailure);
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
