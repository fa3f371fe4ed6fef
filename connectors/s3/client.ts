import type { Readable } from 'node:stream';
import { DeleteObjectCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { NodeHttpHandler, type NodeHttpHandlerOptions } from '@smithy/node-http-handler';
import { MAX_CONCURRENCY } from '@tributary/core';
import { guardedAgents } from '../egress/agents.ts';
import { Connections } from '../egress/connections.ts';
import type { EgressGuard } from '../egress/guard.ts';

/** A bucket, and the key that opens it. */
export interface BucketSettings {
  readonly endpoint?: string;
  readonly region: string;
  readonly bucket: string;
  readonly prefix: string;
  readonly path_style: boolean;
  readonly access_key_id: string;
  readonly secret_access_key: string;
  /** Of a key that is temporary. */
  readonly session_token?: string;
}

/** The type of the schema of the settings. */
export interface S3Settings extends BucketSettings {
  readonly path: string;
  readonly batch_size: number;
  readonly batch_bytes: number;
  readonly batch_seconds: number;
}

/** The part of the driver that is used. */
export interface BucketClient {
  /** The last error of a connection. */
  readonly lastFailure: Error | undefined;
  /** Resolves once the service has acknowledged the object. */
  put(key: string, body: Uint8Array, signal: AbortSignal): Promise<void>;
  /** Resolves once the service has acknowledged that there is no such object. */
  delete(key: string, signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

export function openBucketClient(
  egress: EgressGuard,
  settings: Omit<BucketSettings, 'prefix'>,
): BucketClient {
  const { endpoint, region, bucket, path_style, access_key_id, secret_access_key, session_token } = settings;
  const connections = new Connections(egress);
  const client = new S3Client({
    region,
    ...(endpoint === undefined ? {} : { endpoint }),
    forcePathStyle: path_style,
    // Explicit, so that the client does not look for credentials on this machine (files, metadata service).
    credentials: {
      accessKeyId: access_key_id,
      secretAccessKey: secret_access_key,
      ...(session_token === undefined ? {} : { sessionToken: session_token }),
    },
    maxAttempts: 1,
    followRegionRedirects: false,
    requestHandler: new AnsweredHandler(
      guardedAgents(connections, { maxSockets: MAX_CONCURRENCY, maxResponseBytes: MAX_RESPONSE_BYTES }),
    ),
    // Not every compatible service supports the newer checksums.
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
    async delete(key, abortSignal) {
      await client.send(new DeleteObjectCommand({ Bucket: bucket, Key: key }), { abortSignal });
    },
    async close() {
      client.destroy();
      connections.end();
    },
  };
}

/** Bytes of one response with headers, interim responses and chunk framing. */
const MAX_RESPONSE_BYTES = 256 * 1_024;

/** Bytes read of a response body; the error code is at its beginning. */
const MAX_BODY_BYTES = 16 * 1_024;

/**
 * Replaces the bodies of responses: by nothing, or by an error document with the service's code. So the body of a hostile
 * service is neither buffered nor parsed as XML by the client. The status counts, however the body ends.
 */
class AnsweredHandler extends NodeHttpHandler {
  constructor(options: NodeHttpHandlerOptions) {
    super(options);
  }

  override async handle(...[request, options]: Parameters<NodeHttpHandler['handle']>) {
    const answered = await super.handle(request, options);
    const { response } = answered;
    const start = await startOf(response.body, options?.abortSignal);
    response.body = response.statusCode < 300 ? new Uint8Array() : Buffer.from(errorDocument(start));
    return answered;
  }
}

type Aborting = NonNullable<Parameters<NodeHttpHandler['handle']>[1]>['abortSignal'];

/** The start of a body; the connection of a longer one ends. */
async function startOf(body: Readable, signal: Aborting): Promise<Buffer> {
  const leave = () => void body.destroy();
  const onAbort = signal !== undefined && 'addEventListener' in signal ? signal : undefined;
  onAbort?.addEventListener('abort', leave);
  const chunks: Buffer[] = [];
  let read = 0;
  try {
    for await (const chunk of body) {
      chunks.push(chunk);
      read += chunk.length;
      // `break` destroys the stream.
      if (read > MAX_BODY_BYTES) break;
    }
  } catch {
    // The body broke off; the status line counts.
  } finally {
    onAbort?.removeEventListener('abort', leave);
  }
  return Buffer.concat(chunks).subarray(0, MAX_BODY_BYTES);
}

function errorDocument(start: Buffer): string {
  const [, code] = /<Code>([A-Za-z]{3,60})<\/Code>/.exec(start.toString('latin1')) ?? [];
  return code === undefined ? '' : `<Error><Code>${code}</Code></Error>`;
}
