import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { Connections } from '../egress/connections.ts';
import type { EgressGuard } from '../egress/guard.ts';
import { guardedAgents } from './agents.ts';
import { AnsweredHandler } from './answered-handler.ts';
import type { S3Settings } from './settings.ts';

/** What of the driver is used. */
export interface BucketClient {
  /** What a connection met with last. */
  readonly lastFailure: Error | undefined;
  /** Resolves once the service says that the object is stored. */
  put(key: string, body: Uint8Array, signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

export function openBucketClient(egress: EgressGuard, settings: S3Settings): BucketClient {
  const { endpoint, region, bucket, path_style, access_key_id, secret_access_key } = settings;
  const connections = new Connections(egress);
  const client = new S3Client({
    region,
    ...(endpoint === undefined ? {} : { endpoint }),
    forcePathStyle: path_style,
    // Given, so that nothing of this machine (its files, its metadata service) is asked for them.
    credentials: { accessKeyId: access_key_id, secretAccessKey: secret_access_key },
    maxAttempts: 1,
    followRegionRedirects: false,
    requestHandler: new AnsweredHandler(guardedAgents(connections)),
    // Not every compatible service knows the newer checksums.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  });
  return {
    get lastFailure() {
      return connections.lastFailure;
    },
    async put(key, body, abortSignal) {
      const command = new PutObjectCommand({
        Bucket: bucket,
        Key: key,
        Body: body,
        ContentType: 'application/gzip',
      });
      await client.send(command, { abortSignal });
    },
    async close() {
      client.destroy();
      connections.end();
    },
  };
}
