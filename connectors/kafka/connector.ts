import type { Connector, Delivery, DeliveryResult } from '@tributary/core';
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
import type { TopicClient } from './client.ts';
import { description, type KafkaSettings, MAX_BATCH, readSettings } from './settings.ts';

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
