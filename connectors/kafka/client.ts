import { pbkdf2, randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import { promisify } from 'node:util';
import { ScramClient, ScramRefused } from '@tributary/core';
import { Kafka, logLevel, type Mechanism, type Message, Partitioners, type SASLOptions } from 'kafkajs';
import { keyDerivations } from '../client/thread-pool-queue.ts';
import { Connections } from '../egress/connections.ts';
import type { EgressGuard } from '../egress/guard.ts';
import {
  inspectResponses,
  limitBytes,
  MessageBuffer,
  type ResponseFilter,
} from '../egress/response-heads.ts';
import { ResponseRefused, ResponseTooLarge, Stopped } from '../failures.ts';

/** The type of the schema above. */
export interface KafkaSettings {
  readonly brokers: readonly string[];
  readonly topic: string;
  readonly tls: boolean;
  readonly ca?: string;
  readonly sasl_mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512';
  readonly username?: string;
  readonly password?: string;
}

const KEEP_ALIVE_MS = 60_000;
const MAX_UNASKED_BYTES = 1_024 * 1_024;

/** The part of the driver that the connector uses. */
export interface TopicClient {
  /** The last error of a connection. */
  readonly lastFailure: Error | undefined;
  /** Resolves to the brokers' throttle time, ms, once all in-sync replicas have the records (`acks=all`). */
  send(topic: string, messages: Message[]): Promise<number>;
  /** Rejects where the topic does not exist. */
  checkTopic(topic: string): Promise<void>;
  close(): Promise<void>;
}

/**
 * A producer without retries: after a failure the connector opens a new client, which fetches the metadata again.
 *
 * It is not idempotent: kafkajs reuses the sequence number of a batch whose response was lost for the next batch, and the
 * broker drops that one as a duplicate and acknowledges it.
 */
export function openTopicClient(
  egress: EgressGuard,
  settings: KafkaSettings,
  { timeoutMs, workspaceId }: { readonly timeoutMs: number; readonly workspaceId: string },
): TopicClient {
  const { brokers, tls, ca } = settings;
  const connections = new Connections(egress);
  let isClosed = false;
  let throttleMs = 0;
  const kafka = new Kafka({
    clientId: 'tributary',
    brokers: [...brokers],
    logLevel: logLevel.NOTHING,
    ssl: tls,
    ...saslOf(settings, workspaceId, () => !isClosed),
    connectionTimeout: timeoutMs,
    authenticationTimeout: timeoutMs,
    requestTimeout: timeoutMs,
    retry: { retries: 0 },
    socketFactory({ host, port, onConnect }) {
      const socket = connections.connect({ host, port, tls: tls ? { ca } : undefined });
      socket.setKeepAlive(true, KEEP_ALIVE_MS);
      socket.once(tls ? 'secureConnect' : 'connect', onConnect);
      const bounded = limitBytes(socket, MAX_UNASKED_BYTES);
      const answers = checkResponses(socket, (ms) => {
        throttleMs = Math.max(throttleMs, ms);
      });
      return inspectResponses(socket, function* inspect(chunk) {
        for (const some of bounded(chunk)) yield* answers(some);
      });
    },
  });
  checkOnlyWaitingRequests(kafka);
  const producer = kafka.producer({
    allowAutoTopicCreation: false,
    createPartitioner: Partitioners.DefaultPartitioner,
  });
  let connected: Promise<void> | undefined;
  const admins = new Set<{ disconnect(): Promise<void> }>();

  return {
    get lastFailure() {
      return connections.lastFailure;
    },
    async send(topic, messages) {
      connected ??= producer.connect();
      await connected;
      throttleMs = 0;
      await producer.send({ topic, messages, acks: -1, timeout: timeoutMs });
      return throttleMs;
    },
    async checkTopic(topic) {
      const admin = kafka.admin();
      admins.add(admin);
      try {
        await admin.connect();
        await admin.fetchTopicMetadata({ topics: [topic] });
      } finally {
        admins.delete(admin);
        await admin.disconnect();
      }
    },
    async close() {
      isClosed = true;
      // First, as the driver waits for responses before it disconnects.
      connections.end(new Stopped('stopped'));
      await Promise.all([producer, ...admins].map((client) => client.disconnect()));
    },
  };
}

function saslOf(
  { sasl_mechanism: mechanism, username, password }: KafkaSettings,
  workspaceId: string,
  isWanted: () => boolean,
): { sasl?: SASLOptions | Mechanism } {
  if (username === undefined || password === undefined) return {};
  if (mechanism === 'plain') return { sasl: { mechanism, username, password } };
  return { sasl: scramMechanism({ mechanism, username, password, workspaceId, isWanted }) };
}

const derive = promisify(pbkdf2);

interface ScramSettings {
  readonly mechanism: 'scram-sha-256' | 'scram-sha-512';
  readonly username: string;
  readonly password: string;
  readonly workspaceId: string;
  /** False after the client was closed. */
  isWanted(): boolean;
}

/**
 * Replaces the SCRAM of kafkajs, which derives a key with any number of iterations that a broker asks for, twice for each
 * connection, and blocks a thread of the pool meanwhile.
 */
function scramMechanism({ mechanism, username, password, workspaceId, isWanted }: ScramSettings): Mechanism {
  const [digest, bytes] =
    mechanism === 'scram-sha-256' ? (['sha256', 32] as const) : (['sha512', 64] as const);
  const scram = new ScramClient({
    username,
    password,
    digest,
    nonce: () => randomBytes(18).toString('base64url'),
    derive: (secret, salt, iterations) =>
      keyDerivations.take(workspaceId, isWanted, () => derive(secret, salt, iterations, bytes, digest)),
  });
  return {
    mechanism,
    authenticationProvider: ({ saslAuthenticate }) => ({
      async authenticate() {
        try {
          await scram.authenticate(async (message) => {
            const answer = await saslAuthenticate({
              request: { encode: () => framed(message) },
              response: TEXT,
            });
            return answer ?? '';
          });
        } catch (error) {
          if (!(error instanceof ScramRefused)) throw error;
          throw new AuthenticationRefused(`SASL SCRAM authentication failed: ${error.message}`);
        }
      },
    }),
  };
}

/** kafkajs passes messages with a length prefix. */
const TEXT = {
  decode: (raw: Buffer) => raw.subarray(4),
  parse: (message: Buffer) => message.toString(),
};

function framed(message: string): Buffer {
  const frame = Buffer.alloc(4 + Buffer.byteLength(message));
  frame.writeInt32BE(frame.length - 4);
  frame.write(message, 4);
  return frame;
}

/** The error class of kafkajs for a refused sign-in, which it does not retry. */
class AuthenticationRefused extends Error {
  override readonly name = 'KafkaJSSASLAuthenticationError';
  readonly retriable = false;
}

interface RequestQueue {
  readonly pending: readonly unknown[];
  scheduleCheckPendingRequests: () => void;
}

/** The private parts of a kafkajs cluster that are used here. */
interface Cluster {
  readonly connectionPoolBuilder: {
    build: (
      broker?: object,
    ) => Promise<{ readonly pool: readonly { readonly requestQueue: RequestQueue }[] }>;
  };
}

const CREATE_CLUSTER = 'private:Kafka:createCluster';

/**
 * kafkajs 2.2.4 wakes up a thousand times a second for each idle connection: a timer checks for pending requests and is
 * always rescheduled. This schedules it only while requests are pending, in the clients of the given object and in no
 * others of the process.
 */
export function checkOnlyWaitingRequests(kafka: Kafka): void {
  const key = Object.getOwnPropertySymbols(kafka).find(({ description }) => description === CREATE_CLUSTER);
  if (key === undefined) throw new Error(`kafkajs has no ${CREATE_CLUSTER}: it is not the version 2.2.4`);
  const create = Reflect.get(kafka, key) as (options: object) => Cluster;
  const createMended = (options: object) => {
    const cluster = create(options);
    const { build } = cluster.connectionPoolBuilder;
    cluster.connectionPoolBuilder.build = async (broker) => {
      const connections = await build(broker);
      for (const { requestQueue } of connections.pool) mend(requestQueue);
      return connections;
    };
    return cluster;
  };
  Object.defineProperty(kafka, key, { value: createMended });
}

function mend(queue: RequestQueue): void {
  const schedule = queue.scheduleCheckPendingRequests.bind(queue);
  queue.scheduleCheckPendingRequests = () => {
    if (queue.pending.length > 0) schedule();
  };
}

/** Bytes of a response; the metadata of a topic with 4,000 partitions are shorter. */
const MAX_RESPONSE_BYTES = 256 * 1_024;
/** The driver prepares two connections for each broker. */
const MAX_BROKERS = 1_000;
/** Bytes of a SASL response without a header, as older brokers send it. */
const MAX_BARE_BYTES = 8 * 1_024;

/** A number of bytes; a text or bytes with a length prefix; or a list. */
type Field = number | 'string' | 'bytes' | { readonly list: Layout; readonly max?: number };
type Layout = readonly Field[];

const INT8 = 1;
const INT16 = 2;
const INT32 = 4;
const INT64 = 8;
const listOf = (...list: Layout): Field => ({ list });
const brokers = (...list: Layout): Field => ({ list, max: MAX_BROKERS });

const BROKER: Layout = [INT32, 'string', INT32];
const PARTITION: Layout = [INT16, INT32, INT32, listOf(INT32), listOf(INT32)];
const TOPIC: Layout = [INT16, 'string', INT8];
const METADATA_2: Layout = [
  brokers(...BROKER, 'string'),
  'string',
  INT32,
  listOf(...TOPIC, listOf(...PARTITION)),
];
const METADATA_5: Layout = [
  INT32,
  brokers(...BROKER, 'string'),
  'string',
  INT32,
  listOf(...TOPIC, listOf(...PARTITION, listOf(INT32))),
];
const WRITTEN_2: Layout = [listOf('string', listOf(INT32, INT16, INT64, INT64)), INT32];
const WRITTEN_5: Layout = [listOf('string', listOf(INT32, INT16, INT64, INT64, INT64)), INT32];
const VERSIONS: Layout = [INT16, listOf(INT16, INT16, INT16)];
const MECHANISMS: Layout = [INT16, listOf('string')];

/** The responses that a producer and its connection test receive, by API and version as kafkajs knows them. */
const LAYOUTS: ReadonlyMap<number, readonly Layout[]> = new Map<number, readonly Layout[]>([
  [
    0, // Produce
    [
      [listOf('string', listOf(INT32, INT16, INT64))],
      [listOf('string', listOf(INT32, INT16, INT64)), INT32],
      WRITTEN_2,
      WRITTEN_2,
      WRITTEN_2,
      WRITTEN_5,
      WRITTEN_5,
      WRITTEN_5,
    ],
  ],
  [
    3, // Metadata
    [
      [brokers(...BROKER), listOf(INT16, 'string', listOf(...PARTITION))],
      [brokers(...BROKER, 'string'), INT32, listOf(...TOPIC, listOf(...PARTITION))],
      METADATA_2,
      [INT32, ...METADATA_2],
      [INT32, ...METADATA_2],
      METADATA_5,
      METADATA_5,
    ],
  ],
  [17, [MECHANISMS, MECHANISMS]], // SaslHandshake
  [18, [VERSIONS, VERSIONS, VERSIONS]], // ApiVersions
  [
    36, // SaslAuthenticate
    [
      [INT16, 'string', 'bytes'],
      [INT16, 'string', 'bytes', INT64],
    ],
  ],
]);
/** The error of an unsupported version has a layout of its own. */
const UNSUPPORTED_VERSION = 35;
const MAY_BE_UNSUPPORTED = new Set([17, 18]);

const PRODUCE = 0;

interface Asked {
  readonly api: number;
  readonly version: number;
  readonly layout: Layout;
}

/**
 * Passes complete responses to kafkajs one by one: each belongs to a request, and its lists fit into it. kafkajs waits for
 * any announced length, allocates any announced list, and prepares connections to every announced broker. Calls
 * `onThrottled` with the throttle time of a response to a produce request, ms, unless it is 0.
 */
export function checkResponses(socket: Socket, onThrottled: (ms: number) => void = () => {}): ResponseFilter {
  const came = new MessageBuffer();
  const asked = new Map<number, Asked>();
  let isBare = false;
  const write = socket.write.bind(socket);
  const note = (request: Buffer) => {
    const [api, version] = request.length < 12 ? [] : [request.readInt16BE(4), request.readInt16BE(6)];
    const layout = api === undefined ? undefined : LAYOUTS.get(api)?.[version ?? -1];
    isBare = layout === undefined || api === undefined;
    if (layout !== undefined && api !== undefined)
      asked.set(request.readInt32BE(8), { api, version: version ?? 0, layout });
  };
  const writeNoted = (data: unknown, ...rest: unknown[]) => {
    if (Buffer.isBuffer(data)) note(data);
    return Reflect.apply(write, socket, [data, ...rest]);
  };
  Object.defineProperty(socket, 'write', { value: writeNoted, writable: true, configurable: true });

  const check = (response: Buffer) => {
    if (isBare) {
      isBare = false;
      if (response.length > MAX_BARE_BYTES) throw new ResponseTooLarge('the answer is too long');
      return;
    }
    const correlation = response.length < 8 ? undefined : response.readInt32BE(4);
    const request = correlation === undefined ? undefined : asked.get(correlation);
    if (correlation === undefined || request === undefined)
      throw new ResponseRefused('the broker sent a response that answers no pending request');
    asked.delete(correlation);
    const isUnsupported =
      MAY_BE_UNSUPPORTED.has(request.api) &&
      response.length >= 10 &&
      response.readInt16BE(8) === UNSUPPORTED_VERSION;
    const end = isUnsupported ? 0 : endOf(response, 8, request.layout);
    // The last field, since version 1.
    const throttleMs = request.api === PRODUCE && request.version > 0 ? response.readInt32BE(end - 4) : 0;
    if (throttleMs > 0) onThrottled(throttleMs);
  };

  return function* inspect(chunk) {
    came.add(chunk);
    while (true) {
      const length = came.peek(4)?.readInt32BE(0);
      if (length === undefined) return;
      if (length > MAX_RESPONSE_BYTES) throw new ResponseTooLarge('the answer is too long');
      if (length < 0) throw new ResponseRefused('the response has a negative length');
      const response = came.take(4 + length);
      if (response === undefined) return;
      check(response);
      yield response;
    }
  };
}

/** The end of the fields that begin at `at`; throws where they exceed the response. */
function endOf(response: Buffer, at: number, layout: Layout): number {
  let end = at;
  for (const field of layout) {
    if (typeof field === 'number') end += field;
    else if (field === 'string') end += 2 + lengthAt(response, end, 2);
    else if (field === 'bytes') end += 4 + lengthAt(response, end, 4);
    else end = endOfList(response, end, field);
    if (end > response.length) throw new ResponseRefused('the response is shorter than its stated length');
  }
  return end;
}

function endOfList(
  response: Buffer,
  at: number,
  { list, max = Infinity }: Exclude<Field, number | string>,
): number {
  const count = lengthAt(response, at, 4);
  if (count > max) throw new ResponseTooLarge('the cluster has too many brokers');
  let end = at + 4;
  // Each element has at least one byte.
  if (count > response.length - end)
    throw new ResponseRefused('the response is shorter than its stated length');
  for (let n = 0; n < count; n++) end = endOf(response, end, list);
  return end;
}

/** A length at an offset; -1 (null) counts as 0. */
function lengthAt(response: Buffer, at: number, bytes: 2 | 4): number {
  if (at + bytes > response.length)
    throw new ResponseRefused('the response is shorter than its stated length');
  const length = response.readIntBE(at, bytes);
  if (length < -1) throw new ResponseRefused('the response has a negative length');
  return Math.max(0, length);
}
