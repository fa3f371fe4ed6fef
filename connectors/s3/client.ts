import { type AgentOptions, Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { NodeHttpHandler, type NodeHttpHandlerOptions } from '@smithy/node-http-handler';
import { MAX_CONCURRENCY } from '@tributary/core';
import { Connections } from '../egress/connections.ts';
import type { EgressGuard } from '../egress/guard.ts';
import { inspectResponses, limitBytes, normalizeHeads } from '../egress/response-heads.ts';
import { ResponseRefused, ResponseTooLarge } from '../failures.ts';
import type { BucketSettings } from './settings.ts';

/** The part of the driver that the connector uses. */
export interface BucketClient {
  /** The last error of a connection. */
  readonly lastFailure: Error | undefined;
  /** Resolves once the service has acknowledged the object. */
  put(key: string, body: Uint8Array, signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

export function openBucketClient(egress: EgressGuard, settings: BucketSettings): BucketClient {
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
    async close() {
      client.destroy();
      connections.end();
    },
  };
}

/** The driver for one bucket. `maxResponseBytes`: of one response with headers, interim responses and chunk framing. */
export function openS3(
  egress: EgressGuard,
  { endpoint, region, path_style, access_key_id, secret_access_key }: BucketSettings,
  Handler: new (options: NodeHttpHandlerOptions) => NodeHttpHandler,
  maxResponseBytes: number,
) {
  const connections = new Connections(egress);
  const client = new S3Client({
    region,
    ...(endpoint === undefined ? {} : { endpoint }),
    forcePathStyle: path_style,
    // Explicit, so that the client does not look for credentials on this machine (files, metadata service).
    credentials: { accessKeyId: access_key_id, secretAccessKey: secret_access_key },
    maxAttempts: 1,
    followRegionRedirects: false,
    requestHandler: new Handler(guardedAgents(connections, maxResponseBytes)),
    // Not every compatible service supports the newer checksums.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  });
  return { client, connections };
}

/** One connection for each concurrent call; opened on demand. */
const OPTIONS: AgentOptions = { keepAlive: true, maxSockets: MAX_CONCURRENCY };

/** Bytes of a response to a put. */
const MAX_RESPONSE_BYTES = 256 * 1_024;

function bounded(socket: Socket, maxBytes: number): Socket {
  const count = limitBytes(socket, maxBytes);
  const heads = normalizeHeads(socket);
  return inspectResponses(socket, function* inspect(chunk) {
    for (const some of count(chunk)) yield* heads(some);
  });
}

interface Target {
  readonly host?: string | null | undefined;
  readonly port?: string | number | null | undefined;
}

/** Agents of the standard library that connect through the egress guard. */
function guardedAgents(connections: Connections, maxBytes: number) {
  class Http extends HttpAgent {
    override createConnection({ host, port }: Target) {
      return bounded(connections.connect({ host: host ?? '', port: Number(port ?? 80) }), maxBytes);
    }
  }
  class Https extends HttpsAgent {
    override createConnection({ host, port }: Target) {
      return bounded(connections.connect({ host: host ?? '', port: Number(port ?? 443), tls: {} }), maxBytes);
    }
  }
  return { httpAgent: new Http(OPTIONS), httpsAgent: new Https(OPTIONS) };
}

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
