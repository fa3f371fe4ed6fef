import type { Connector, Delivery, DeliveryResult } from '@tributary/core';
import type { Message } from 'kafkajs';
import { type Call, createClientConnector } from '../client-connector.ts';
import { untilAborted } from '../deadline.ts';
import { deliveryJson } from '../delivery-body.ts';
import type { ConnectorContext } from '../kind.ts';
import { type Part, type PartResult, sendInParts } from '../parts.ts';
import { DELIVERED } from '../verdicts.ts';
import type { TopicClient } from './client.ts';
import { type KafkaSettings, MAX_BATCH, readSettings } from './settings.ts';
import { refusedRecords, verdictOfKafkaFailure } from './verdict.ts';

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
