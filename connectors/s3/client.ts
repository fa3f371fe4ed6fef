import { type AgentOptions, Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { NodeHttpHandler, type NodeHttpHandlerOptions } from '@smithy/node-http-handler';
import { MAX_CONCURRENCY } from '@tributary/core';
import { Connections } from '../egress/connections.ts';
import type { EgressGuard } from '../egress/guard.ts';
import { answerHeads } from '../egress/response-heads.ts';
import { boundedAnswers, inspectAnswers } from '../egress/response-inspection.ts';
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

/** A connection for each call that is made at a time; they are opened as they are needed. */
const OPTIONS: AgentOptions = { keepAlive: true, maxSockets: MAX_CONCURRENCY };

/** Of an answer with its headers, the interim answers before it and what frames its chunks. */
const MAX_ANSWER_BYTES = 256 * 1_024;

function bounded(socket: Socket): Socket {
  const count = boundedAnswers(socket, MAX_ANSWER_BYTES);
  const heads = answerHeads(socket);
  return inspectAnswers(socket, function* inspect(chunk) {
    for (const some of count(chunk)) yield* heads(some);
  });
}

interface Target {
  readonly host?: string | null | undefined;
  readonly port?: string | number | null | undefined;
}

/** Agents of the standard library that connect through the egress guard. */
function guardedAgents(connections: Connections) {
  class Http extends HttpAgent {
    override createConnection({ host, port }: Target) {
      return bounded(connections.connect({ host: host ?? '', port: Number(port ?? 80) }));
    }
  }
  class Https extends HttpsAgent {
    override createConnection({ host, port }: Target) {
      return bounded(connections.connect({ host: host ?? '', port: Number(port ?? 443), tls: {} }));
    }
  }
  return { httpAgent: new Http(OPTIONS), httpsAgent: new Https(OPTIONS) };
}

/** Of the body of an answer; what says why an object is not taken stands at its beginning. */
const MAX_BODY_BYTES = 16 * 1_024;

/**
 * Hands the S3 client answers whose bodies are bounded and made here: nothing, or an error with the code that the service
 * gave. What a hostile service sends is neither kept nor parsed as XML. The status stands, however the body ends.
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
      // Leaving the loop destroys the body.
      if (read > MAX_BODY_BYTES) break;
    }
  } catch {
    // A body that breaks off: the status line stands.
  } finally {
    onAbort?.removeEventListener('abort', leave);
  }
  return Buffer.concat(chunks).subarray(0, MAX_BODY_BYTES);
}

function errorDocument(start: Buffer): string {
  const [, code] = /<Code>([A-Za-z]{3,60})<\/Code>/.exec(start.toString('latin1')) ?? [];
  return code === undefined ? '' : `<Error><Code>${code}</Code></Error>`;
}
