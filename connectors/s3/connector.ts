import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { type Connector, type Delivery, type DeliveryResult, nameId } from '@tributary/core';
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
import type { BucketClient } from './client.ts';
import { description, pathOf, readSettings, type S3Settings } from './settings.ts';

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
  const groups = [...paths];
  for (let at = 0; at < groups.length; at += PUTS_AT_ONCE)
    await Promise.all(
      groups.slice(at, at + PUTS_AT_ONCE).map(async ([own, deliveries]) => {
        const sent = await send(own, deliveries);
        for (const [i, delivery] of deliveries.entries()) {
          const result = sent[i];
          if (result !== undefined) results.set(delivery, result);
        }
      }),
    );
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
