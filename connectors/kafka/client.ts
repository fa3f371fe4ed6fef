import { pbkdf2, randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { ScramClient, ScramRefused } from '@tributary/core';
import { Kafka, logLevel, type Mechanism, type Message, Partitioners, type SASLOptions } from 'kafkajs';
import { keyDerivations } from '../client/thread-pool-queue.ts';
import { Connections } from '../egress/connections.ts';
import type { EgressGuard } from '../egress/guard.ts';
import { inspectResponses, limitBytes } from '../egress/response-inspection.ts';
import { Stopped } from '../failures.ts';
import { checkResponses } from './response-checks.ts';
import type { KafkaSettings } from './settings.ts';

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
