import type { Connector, Delivery, DeliveryResult } from '@tributary/core';
import type { Message } from 'kafkajs';
import { type Call, createClientConnector } from '../client/client-connector.ts';
import { untilAborted } from '../client/deadlines.ts';
import { type Part, type PartResult, sendInParts } from '../client/partial-batches.ts';
import { deliveryJson } from '../delivery-body.ts';
import { codeOf, DELIVERED, RESET, verdictOfNetworkFailure } from '../failures.ts';
import type { ConnectorContext, ConnectorKind } from '../kind.ts';
import type { TopicClient } from './client.ts';
import { description, type KafkaSettings, MAX_BATCH, readSettings } from './settings.ts';

export const kafka: ConnectorKind = { description, create: createKafkaConnector };

/** Below the megabyte that a broker takes at once unless told otherwise, also when all go to one partition. */
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
    outlives: () => false,
    verdictOfFailure: (error, { lastFailure }) => verdictOfKafkaFailure(error, lastFailure),

    send: (client, { topic }, batch, call) =>
      sendInParts(batch, { send: (part) => sendPart(client, topic, part, call), mayHalve: call.mayHalve }),

    async test(client, { topic }, { deadline }) {
      await untilAborted(client.look(topic), deadline);
      return { ok: true };
    },
  });
}

async function sendPart(client: TopicClient, topic: string, part: Part, call: Call): Promise<PartResult> {
  try {
    await untilAborted(client.send(topic, part.map(messageOf)), call.deadline);
    return delivered;
  } catch (error) {
    return refusedRecords(error) ?? failedWith(call.failed(error));
  }
}

const delivered: PartResult = { result: DELIVERED, someToBlame: false };

function failedWith(result: DeliveryResult): PartResult {
  return { result, someToBlame: false };
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

/** Types of Kafka's errors about how the cluster is set up, which no other attempt heals by itself. */
const REFUSALS = new Map([
  ['TOPIC_AUTHORIZATION_FAILED', 'permission denied'],
  ['CLUSTER_AUTHORIZATION_FAILED', 'permission denied'],
  ['SASL_AUTHENTICATION_FAILED', 'not authenticated'],
  ['UNSUPPORTED_SASL_MECHANISM', 'not authenticated'],
  ['ILLEGAL_SASL_STATE', 'not authenticated'],
  ['INVALID_TOPIC_EXCEPTION', 'the topic is not valid'],
]);

/** What some records of a batch may have caused while others are fine. */
const ABOUT_RECORDS = new Map([
  ['MESSAGE_TOO_LARGE', 'the record is too large'],
  ['RECORD_LIST_TOO_LARGE', 'the record is too large'],
  ['CORRUPT_MESSAGE', 'the record is not valid'],
  ['INVALID_RECORD', 'the record is not valid'],
  ['INVALID_TIMESTAMP', 'the record is not valid'],
  ['POLICY_VIOLATION', 'the record is not valid'],
  ['UNSUPPORTED_FOR_MESSAGE_FORMAT', 'the record is not valid'],
]);

/** Of a broker, or a proxy before it, that says no more than that it failed: at some records, maybe. */
const UNEXPLAINED = new Set(['UNKNOWN', 'KAFKAJS_UNKNOWN_ERROR_CODE']);

/** Those that a client which asks again who leads may not meet again. */
const STALE_LEADER = new Set(['NOT_LEADER_FOR_PARTITION', 'LEADER_NOT_AVAILABLE', 'REPLICA_NOT_AVAILABLE']);

/** The driver's words, in an error of any kind, for a connection that ended or was silent. */
const BROKEN_OFF = /Closed connection|Connection error|disconnected|timed out|timeout/i;

/** A refusal that some of the records may have caused; undefined for any other error. */
export function refusedRecords(error: unknown): PartResult | undefined {
  const type = typeOf(error) ?? '';
  const reason = ABOUT_RECORDS.get(type);
  if (reason !== undefined) return { result: { outcome: 'dead', reason }, someToBlame: true };
  return UNEXPLAINED.has(type) ? { result: verdictOfType(type), someToBlame: true } : undefined;
}

/**
 * What a failed send means. `lastFailure` is what became of the connection, which the driver wraps. Undefined for an
 * error that is neither Kafka's nor the network's.
 */
export function verdictOfKafkaFailure(
  error: unknown,
  lastFailure: Error | undefined,
): DeliveryResult | undefined {
  const type = typeOf(error);
  if (type !== undefined) return verdictOfType(type);
  if (isAuthentication(error) && !BROKEN_OFF.test(messageIn(error)))
    return { outcome: 'dead', reason: 'not authenticated' };
  const network = ofDriver(error) ? undefined : verdictOfNetworkFailure(error);
  if (network !== undefined) return network;
  const ofConnection = lastFailure === undefined ? undefined : verdictOfNetworkFailure(lastFailure);
  if (ofConnection !== undefined) return ofConnection;
  if (!ofDriver(error)) return undefined;
  if (/closed|disconnected|Connection error/i.test(messageIn(error))) return RESET;
  return { outcome: 'retry', reason: /time/i.test(messageIn(error)) ? 'timed out' : 'no broker answered' };
}

function verdictOfType(type: string): DeliveryResult {
  const refusal = REFUSALS.get(type) ?? ABOUT_RECORDS.get(type);
  if (refusal !== undefined) return { outcome: 'dead', reason: refusal };
  const retry: DeliveryResult = { outcome: 'retry', reason: `the broker answered ${type}` };
  return STALE_LEADER.has(type) ? { ...retry, reset: true } : retry;
}

/** Kafka's name of an error, found in what the driver wrapped it in. */
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
