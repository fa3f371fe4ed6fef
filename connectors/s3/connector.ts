import type { Connector, DeliveryResult } from '@tributary/core';
import { type Call, createClientConnector } from '../client-connector.ts';
import { untilAborted } from '../deadline.ts';
import type { Deadline } from '../deadlines.ts';
import { mayBlameSome } from '../http/verdict.ts';
import type { ConnectorContext } from '../kind.ts';
import { memoize, type Part, type PartResult, sendInParts } from '../parts.ts';
import { DELIVERED } from '../verdicts.ts';
import type { BucketClient } from './client.ts';
import { objectBody, objectKey, testKey } from './object.ts';
import { readSettings, type S3Settings } from './settings.ts';
import { verdictOfS3Failure } from './verdict.ts';

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
    outlives: () => true,
    verdictOfFailure: (error, { lastFailure }) => verdictOfS3Failure(error, lastFailure, context.clock()),

    send(client, settings, batch, call) {
      const refusalOfAll = memoize(() => refusalOfNothing(client, settings, call));
      return sendInParts(batch, {
        send: (part) => sendPart(client, settings, part, call, refusalOfAll),
        mayHalve: call.mayHalve,
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
  { deadline, failed }: Call,
  refusalOfAll: () => Promise<DeliveryResult | undefined>,
): Promise<PartResult> {
  try {
    const body = await objectBody(part, () => !deadline.aborted);
    await untilAborted(client.put(objectKey(prefix, part), body, deadline.signal), deadline);
    return { result: DELIVERED, someToBlame: false };
  } catch (error) {
    const result = failed(error);
    // An object is refused for its size, or by what looks into it on the way; most refusals are of the bucket.
    if (!mayBlameSome(result)) return { result, someToBlame: false };
    const ofAll = await refusalOfAll();
    return { result: ofAll ?? result, someToBlame: ofAll === undefined };
  }
}

/** Why the bucket takes no object at all; undefined where it would. */
async function refusalOfNothing(
  client: BucketClient,
  settings: S3Settings,
  { deadline, failed }: Call,
): Promise<DeliveryResult | undefined> {
  try {
    await putNothing(client, settings, deadline);
    return undefined;
  } catch (error) {
    return failed(error);
  }
}

function putNothing(client: BucketClient, { prefix }: S3Settings, deadline: Deadline): Promise<void> {
  return untilAborted(client.put(testKey(prefix), new Uint8Array(), deadline.signal), deadline);
}
