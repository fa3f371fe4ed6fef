import type { Socket } from 'node:net';
import { Kafka, logLevel, type Message, Partitioners, type SASLOptions } from 'kafkajs';
import { Connections } from '../egress/connections.ts';
import type { EgressGuard } from '../egress/guard.ts';
import { Stopped } from '../errors.ts';
import type { KafkaSettings } from './settings.ts';

const KEEP_ALIVE_MS = 60_000;

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
  timeoutMs: number,
): TopicClient {
  const { brokers, tls, ca } = settings;
  const connections = new Connections(egress);
  const kafka = new Kafka({
    clientId: 'tributary',
    brokers: [...brokers],
    logLevel: logLevel.NOTHING,
    ssl: tls,
    ...saslOf(settings),
    connectionTimeout: timeoutMs,
    authenticationTimeout: timeoutMs,
    requestTimeout: timeoutMs,
    retry: { retries: 0 },
    socketFactory({ host, port, onConnect }) {
      const socket = connections.connect({ host, port, tls: tls ? { ca } : undefined });
      socket.setKeepAlive(true, KEEP_ALIVE_MS);
      socket.once(tls ? 'secureConnect' : 'connect', onConnect);
      return endedByNonsense(socket);
    },
  });
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
      // First, since the driver waits for answers before it lets go.
      connections.end(new Stopped('stopped'));
      await Promise.all([producer, ...admins].map((client) => client.disconnect()));
    },
  };
}

/**
 * kafkajs reads lengths that a broker sends without a look at them, in a listener of its own: what throws there would end
 * this process. A broker that sends nonsense loses its connection instead.
 */
function endedByNonsense(socket: Socket): Socket {
  const listen = socket.on.bind(socket);
  const on = (event: string, listener: (...data: unknown[]) => void) => {
    if (event !== 'data') return listen(event, listener);
    return listen(event, (...data: unknown[]) => {
      try {
        listener(...data);
      } catch (error) {
        socket.destroy(error instanceof Error ? error : new Error(String(error)));
      }
    });
  };
  return Object.defineProperty(socket, 'on', { value: on });
}

function saslOf({ sasl_mechanism: mechanism, username, password }: KafkaSettings): { sasl?: SASLOptions } {
  if (username === undefined || password === undefined) return {};
  return { sasl: { mechanism, username, password } };
}
