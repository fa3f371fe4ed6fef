import type { Connector, ConnectorDescription, Delivery, DeliveryResult, JsonObject } from '@tributary/core';
import type { Message } from 'kafkajs';
import {
  type ConnectorCall,
  createClientConnector,
  type Part,
  type PartResult,
  sendInParts,
} from '../client/client-connector.ts';
import { untilAborted } from '../client/deadlines.ts';
import { deliveryJson } from '../delivery-body.ts';
import { classifyNetworkFailure, codeOf, DELIVERED, RESET } from '../failures.ts';
import type { ConnectorContext, ConnectorKind } from '../kind.ts';
import {
  caField,
  createSettingsReader,
  passwordField,
  type SettingsFault,
  secretNames,
  tlsField,
  usernameField,
} from '../settings.ts';
import type { KafkaSettings, TopicClient } from './client.ts';

const MECHANISMS: readonly KafkaSettings['sasl_mechanism'][] = ['plain', 'scram-sha-256', 'scram-sha-512'];

/** Deliveries of one batch at most. */
const MAX_BATCH = 500;

/** The settings as users write them. */
const settingsSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  required: ['brokers', 'topic'],
  additionalProperties: false,
  properties: {
    brokers: {
      type: 'array',
      title: 'Brokers',
      description:
        'Where to ask for the cluster first, `host:port` each. Every address that it announces must be public too.',
      items: { type: 'string', pattern: '^[A-Za-z0-9._-]{1,253}:[0-9]{1,5}$' },
      examples: [['kafka-1.example.com:9093', 'kafka-2.example.com:9093']],
      minItems: 1,
      maxItems: 20,
    },
    topic: {
      type: 'string',
      title: 'Topic',
      description: 'Where to write; it must be there.',
      examples: ['customer-events'],
      pattern: '^[A-Za-z0-9._-]{1,249}$',
    },
    tls: tlsField,
    ca: caField,
    sasl_mechanism: {
      type: 'string',
      title: 'SASL mechanism',
      description: 'How `username` and `password` sign in, where they are given.',
      enum: [...MECHANISMS],
      default: 'scram-sha-512',
    },
    username: usernameField,
    password: passwordField,
  },
} as const satisfies JsonObject;

/** Checks that JSON Schema cannot express. Paths are JSON pointers below the settings. */
export function settingsFaults({ brokers, username, password }: JsonObject): readonly SettingsFault[] {
  const faults: SettingsFault[] = [];
  (Array.isArray(brokers) ? brokers : []).forEach((broker, index) => {
    const port = Number(String(broker).split(':').at(-1));
    if (!(port >= 1 && port <= 65_535)) {
      faults.push({ path: `/brokers/${index}`, message: 'must end in a port from 1 to 65535' });
    }
  });
  if (password !== undefined && username === undefined) {
    faults.push({ path: '/username', message: 'is required with a password' });
  }
  if (username !== undefined && password === undefined) {
    faults.push({ path: '/password', message: 'is required with a user' });
  }
  return faults;
}

export const readSettings = createSettingsReader<KafkaSettings>(settingsSchema, settingsFaults);

const description: ConnectorDescription = {
  type: 'kafka',
  title: 'Kafka topic',
  description: [
    'Writes each delivery as one record to a topic of another Kafka cluster, with `acks=all`. The key is the event\'s subject (`user_id`, else `anonymous_id`), so the events of one subject are in one partition; the partitioner is that of Kafka\'s Java client. The value is `{ "id", "type": "event", "event", "rule_id", "destination_id", "attempt" }` as JSON.',
    'Headers: `delivery-id`, `message-id`, `workspace-id`, `type`, and of a replay `replay`. A record may be written more than once, always with the same `delivery-id`: Kafka does not deduplicate them.',
    'An unreachable cluster, a partition without a leader or with too few replicas, a topic that does not exist (yet) and a broken connection are retried. A batch that is refused because of its records, or without a reason, is sent again in parts at once: only a record that is refused alone is dead, or retried where there is no reason. Refused credentials and a missing permission are dead; so are fewer than 4,096 or more than 100,000 iterations of SCRAM.',
    'The connection test signs in and checks that the topic exists.',
  ].join('\n\n'),
  settingsSchema,
  secrets: secretNames(settingsSchema),
  harmless: ['topic'],
  safestFirst: { tls: [true, false], sasl_mechanism: ['scram-sha-512', 'scram-sha-256', 'plain'] },
  maxBatch: MAX_BATCH,
  hasTest: true,
  check: settingsFaults,
};

export const kafka: ConnectorKind = { description, create: createKafkaConnector };

/** Below a broker's default `message.max.bytes` of 1 MB, also when all records go to one partition. */
const LIMITS = { events: MAX_BATCH, bytes: 900_000 };
const MAX_CLIENTS = 100;

export function createKafkaConnector(context: ConnectorContext): Connector {
  return createClientConnector<KafkaSettings, TopicClient>(context, {
    readSettings,
    limits: () => LIMITS,
    async open(settings, { workspaceId }) {
      const { openTopicClient } = await import('./client.ts');
      return openTopicClient(context.egress, settings, { timeoutMs: context.timeoutMs, workspaceId });
    },
    maxClients: MAX_CLIENTS,
    keepsClient: () => false,
    classifyFailure: (error, { lastFailure }) => classifyKafkaFailure(error, lastFailure),

    send: (client, { topic }, batch, call) =>
      sendInParts(batch, {
        send: (part) => sendPart(client, topic, part, call),
        hasTimeToHalve: call.hasTimeToHalve,
      }),

    async test(client, { topic }, { deadline }) {
      await untilAborted(client.checkTopic(topic), deadline);
      return { ok: true };
    },
  });
}

async function sendPart(
  client: TopicClient,
  topic: string,
  part: Part,
  call: ConnectorCall,
): Promise<PartResult> {
  try {
    const throttleMs = await untilAborted(client.send(topic, part.map(messageOf)), call.deadline);
    return throttleMs > 0
      ? { ...delivered, result: { outcome: 'delivered', afterMs: throttleMs } }
      : delivered;
  } catch (error) {
    return refusedRecords(error) ?? failedWith(call.failed(error));
  }
}

const delivered: PartResult = { result: DELIVERED, mayBeSplit: false };

function failedWith(result: DeliveryResult): PartResult {
  return { result, mayBeSplit: false };
}

function messageOf(delivery: Delivery): Message {
  const { event } = delivery;
  return {
    key: event.user_id ?? event.anonymous_id ?? null,
    value: deliveryJson(delivery),
    headers: {
      'delivery-id': delivery.id,
      'message-id': delivery.message_id,
      'workspace-id': delivery.workspace_id,
      type: event.type,
      ...(delivery.replay === undefined ? {} : { replay: delivery.replay }),
    },
  };
}

/** Kafka errors about the configuration of the cluster, which no retry changes. */
const REFUSALS = new Map([
  ['TOPIC_AUTHORIZATION_FAILED', 'permission denied'],
  ['CLUSTER_AUTHORIZATION_FAILED', 'permission denied'],
  ['SASL_AUTHENTICATION_FAILED', 'not authenticated'],
  ['UNSUPPORTED_SASL_MECHANISM', 'not authenticated'],
  ['ILLEGAL_SASL_STATE', 'not authenticated'],
  ['INVALID_TOPIC_EXCEPTION', 'the topic is not valid'],
]);

/** Kafka errors that some records of a batch may have caused while others are fine. */
const ABOUT_RECORDS = new Map([
  ['MESSAGE_TOO_LARGE', 'the record is too large'],
  ['RECORD_LIST_TOO_LARGE', 'the record is too large'],
  ['CORRUPT_MESSAGE', 'the record is not valid'],
  ['INVALID_RECORD', 'the record is not valid'],
  ['INVALID_TIMESTAMP', 'the record is not valid'],
  ['POLICY_VIOLATION', 'the record is not valid'],
  ['UNSUPPORTED_FOR_MESSAGE_FORMAT', 'the record is not valid'],
]);

/** Unspecific errors of a broker, or of a proxy in front of it: some records may have caused them. */
const UNSPECIFIC = new Set(['UNKNOWN', 'KAFKAJS_UNKNOWN_ERROR_CODE']);

/** Errors of stale metadata, which a new client may not get again. */
const STALE_LEADER = new Set(['NOT_LEADER_FOR_PARTITION', 'LEADER_NOT_AVAILABLE', 'REPLICA_NOT_AVAILABLE']);

/** Messages of the driver, in errors of any class, for a connection that closed or timed out. */
const CONNECTION_LOST = /Closed connection|Connection error|disconnected|timed out|timeout/i;

/** The result of a refusal that some of the records may have caused; undefined for any other error. */
export function refusedRecords(error: unknown): PartResult | undefined {
  const type = typeOf(error) ?? '';
  const reason = ABOUT_RECORDS.get(type);
  if (reason !== undefined) return { result: { outcome: 'dead', reason }, mayBeSplit: true };
  return UNSPECIFIC.has(type) ? { result: classifyErrorType(type), mayBeSplit: true } : undefined;
}

/**
 * The result of a failed send. `lastFailure` is the error of the connection, which the driver wraps. Undefined for an error
 * that is neither of Kafka nor of the network.
 */
export function classifyKafkaFailure(
  error: unknown,
  lastFailure: Error | undefined,
): DeliveryResult | undefined {
  const type = typeOf(error);
  if (type !== undefined) return classifyErrorType(type);
  if (isAuthentication(error) && !CONNECTION_LOST.test(messageIn(error)))
    return { outcome: 'dead', reason: 'not authenticated' };
  const network = ofDriver(error) ? undefined : classifyNetworkFailure(error);
  if (network !== undefined) return network;
  const ofConnection = lastFailure === undefined ? undefined : classifyNetworkFailure(lastFailure);
  if (ofConnection !== undefined) return ofConnection;
  if (!ofDriver(error)) return undefined;
  if (/closed|disconnected|Connection error/i.test(messageIn(error))) return RESET;
  return { outcome: 'retry', reason: /time/i.test(messageIn(error)) ? 'timed out' : 'no broker answered' };
}

function classifyErrorType(type: string): DeliveryResult {
  const refusal = REFUSALS.get(type) ?? ABOUT_RECORDS.get(type);
  if (refusal !== undefined) return { outcome: 'dead', reason: refusal };
  const retry: DeliveryResult = { outcome: 'retry', reason: `the broker answered ${type}` };
  return STALE_LEADER.has(type) ? { ...retry, reset: true } : retry;
}

/** The protocol name of an error, searched in the causes of the driver's error. */
function typeOf(error: unknown): string | undefined {
  for (let at = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth++) {
    if ('type' in at && typeof at.type === 'string' && /^[A-Z_]{3,60}$/.test(at.type)) return at.type;
  }
  return undefined;
}

function isAuthentication(error: unknown): boolean {
  for (let at = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth++) {
    if (at.name === 'KafkaJSSASLAuthenticationError') return true;
  }
  return false;
}

function ofDriver(error: unknown): boolean {
  return error instanceof Error && error.name.startsWith('KafkaJS');
}

function messageIn(error: unknown): string {
  return error instanceof Error ? `${error.message} ${codeOf(error) ?? ''}` : '';
}
