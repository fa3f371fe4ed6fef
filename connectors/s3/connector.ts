import type { Connector } from '@tributary/core';
import { createClientConnector } from '../client-connector.ts';
import { untilAborted } from '../deadline.ts';
import type { ConnectorContext } from '../kind.ts';
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

    async send(client, { prefix }, batch, { deadline }) {
      const body = await objectBody(batch, () => !deadline.aborted);
      await untilAborted(client.put(objectKey(prefix, batch), body, deadline.signal), deadline);
      return batch.map(() => DELIVERED);
    },

    async test(client, { prefix }, { deadline }) {
      await untilAborted(client.put(testKey(prefix), new Uint8Array(), deadline.signal), deadline);
      return { ok: true };
    },
  });
}
