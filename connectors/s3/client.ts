import type { Readable } from 'node:stream';
import { DeleteObjectCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { NodeHttpHandler, type NodeHttpHandlerOptions } from '@smithy/node-http-handler';
import { MAX_CONCURRENCY } from '@tributary/core';
import { guardedAgents } from '../egress/agents.ts';
import { Connections } from '../egress/connections.ts';
import type { EgressGuard } from '../egress/guard.ts';
import { ResponseRefused, ResponseTooLarge } from '../failures.ts';
import type { BucketSettings } from './settings.ts';

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
  const { client, connections } = openS3(egress, settings, AnsweredHandler, MAX_RESPONSE_BYTES);
  const { bucket } = settings;
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

/** The driver for one bucket. `maxResponseBytes`: of one response with headers, interim responses and chunk framing. */
export function openS3(
  egress: EgressGuard,
  settings: Omit<BucketSettings, 'prefix'>,
  Handler: new (options: NodeHttpHandlerOptions) => NodeHttpHandler,
  maxResponseBytes: number,
) {
  const { endpoint, region, path_style, access_key_id, secret_access_key, session_token } = settings;
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
    requestHandler: new Handler(
      guardedAgents(connections, { maxSockets: MAX_CONCURRENCY, maxResponseBytes }),
    ),
    // Not every compatible service supports the newer checksums.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  });
  return { client, connections };
}

/** Bytes of a response to a put. */
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
    if (response.statusCode >= 300) {
      const start = await startOf(response.body, options?.abortSignal, MAX_BODY_BYTES);
      response.body = Buffer.from(errorDocument(start));
    } else response.body = await this.bodyOf(request, response.body, options?.abortSignal);
    return answered;
  }

  /** What the client gets of the body of a success. */
  protected async bodyOf(
    _request: Request,
    body: Readable,
    signal: Aborting,
  ): Promise<Uint8Array | Readable> {
    await startOf(body, signal, MAX_BODY_BYTES);
    return new Uint8Array();
  }
}

type Request = Parameters<NodeHttpHandler['handle']>[0];

/** Bytes of a document in a response: a list of 1,000 names has a third. */
const MAX_DOCUMENT_BYTES = 2 * 1_024 * 1_024;

/** As `AnsweredHandler`, for a client that reads: it gets objects as they are, and documents without declarations of their own. */
export class ReadingHandler extends AnsweredHandler {
  protected override async bodyOf(request: Request, body: Readable, signal: Aborting) {
    const isObject = request.method === 'GET' && request.query?.['list-type'] === undefined;
    if (isObject) return body;
    const document = await startOf(body, signal, MAX_DOCUMENT_BYTES + 1);
    if (document.length > MAX_DOCUMENT_BYTES) throw new ResponseTooLarge('too much was answered');
    if (document.includes('<!')) throw new ResponseRefused('the answer cannot be understood');
    return document;
  }
}

type Aborting = NonNullable<Parameters<NodeHttpHandler['handle']>[1]>['abortSignal'];

/** The start of a body; the connection of a longer one ends. */
async function startOf(body: Readable, signal: Aborting, bytes: number): Promise<Buffer> {
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
      if (read > bytes) break;
    }
  } catch {
    // The body broke off; the status line counts.
  } finally {
    onAbort?.removeEventListener('abort', leave);
  }
  return Buffer.concat(chunks).subarray(0, bytes);
}

function errorDocument(start: Buffer): string {
  const [, code] = /<Code>([A-Za-z]{3,60})<\/Code>/.exec(start.toString('latin1')) ?? [];
  return code === undefined ? '' : `<Error><Code>${code}</Code></Error>`;
}
