import { Kafka, logLevel, type Mechanism, type Message, Partitioners, type SASLOptions } from 'kafkajs';
import { Connections } from '../egress/connections.ts';
import type { EgressGuard } from '../egress/guard.ts';
import { boundedAnswers, inspectAnswers } from '../egress/inspected-answers.ts';
import { Stopped } from '../errors.ts';
import { kafkaAnswers } from './answers.ts';
import { checkOnlyWaitingRequests } from './idle-connections.ts';
import { scramMechanism } from './scram.ts';
import type { KafkaSettings } from './settings.ts';

const KEEP_ALIVE_MS = 60_000;
const MAX_UNASKED_BYTES = 1_024 * 1_024;

/** What of the driver is used. */
export interface TopicClient {
  /** What the connection met with last. */
  readonly lastFailure: Error | undefined;
  /** Resolves once all of them are on every replica that is in sync. */
  send(topic: string, messages: Message[]): Promise<void>;
  /** Rejects when the cluster does not know the topic. */
  look(topic: string): Promise<void>;
  close(): Promise<void>;
}

/**
 * A producer that repeats nothing: after a failure there is a new client, which asks the cluster anew who leads.
 *
 * It is not an idempotent one. kafkajs gives a batch the sequence number of the one before it when that one's answer
 * was lost, and the broker then drops the batch as a repetition and says that it is written.
 */
export function openTopicClient(
  egress: EgressGuard,
  settings: KafkaSettings,
  { timeoutMs, workspaceId }: { readonly timeoutMs: number; readonly workspaceId: string },
): TopicClient {
  const { brokers, tls, ca } = settings;
  const connections = new Connections(egress);
  let isClosed = false;
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
      const bounded = boundedAnswers(socket, MAX_UNASKED_BYTES);
      const answers = kafkaAnswers(socket);
      return inspectAnswers(socket, function* inspect(chunk) {
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
      await producer.send({ topic, messages, acks: -1, timeout: timeoutMs });
    },
    async look(topic) {
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
      // First, since the driver waits for answers before it lets go.
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
