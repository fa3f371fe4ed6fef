import type { Connector, DeliveryResult } from '@tributary/core';
import { type Call, createClientConnector } from '../client-connector.ts';
import { untilAborted } from '../deadline.ts';
import { deliveryJson } from '../delivery-body.ts';
import type { ConnectorContext } from '../kind.ts';
import { memoize, type Part, type PartResult, sendInParts } from '../parts.ts';
import { DELIVERED } from '../verdicts.ts';
import type { StreamClient } from './client.ts';
import { deliveredKey } from './script.ts';
import { MAX_BATCH, type RedisSettings, readSettings } from './settings.ts';
import { mayBlameEntries, verdictOfRedisFailure } from './verdict.ts';

/** A script runs alone on its server: few enough to take a moment. */
const LIMITS = { events: MAX_BATCH, bytes: 4 * 1_024 * 1_024 };
const MAX_CLIENTS = 200;

export function createRedisConnector(context: ConnectorContext): Connector {
  return createClientConnector<RedisSettings, StreamClient>(context, {
    readSettings,
    limits: () => LIMITS,
    async open(settings) {
      const { openStreamClient } = await import('./client.ts');
      return openStreamClient(context.egress, settings);
    },
    maxClients: MAX_CLIENTS,
    outlives: () => false,
    verdictOfFailure: (error, { lastFailure }) => verdictOfRedisFailure(error, lastFailure),

    send(client, settings, batch, call) {
      const refusalOfAll = memoize(() => refusalOfNothing(client, settings, call));
      return sendInParts(batch, {
        send: (part) => sendPart(client, settings, part, call, refusalOfAll),
        mayHalve: call.mayHalve,
      });
    },

    async test(client, settings, { deadline }) {
      await untilAborted(look(client, settings), deadline);
      return { ok: true };
    },
  });
}

async function sendPart(
  client: StreamClient,
  settings: RedisSettings,
  part: Part,
  call: Call,
  refusalOfAll: () => Promise<DeliveryResult | undefined>,
): Promise<PartResult> {
  const args = part.flatMap((delivery) => [
    delivery.id,
    delivery.event.type,
    delivery.message_id,
    deliveryJson(delivery),
  ]);
  try {
    await untilAborted(add(client, settings, args), call.deadline);
    return { result: DELIVERED, someToBlame: false };
  } catch (error) {
    if (!mayBlameEntries(error)) return { result: call.failed(error), someToBlame: false };
    const ofAll = await refusalOfAll();
    // The connection is as good as before.
    const ofEntry = verdictOfRedisFailure(error, undefined);
    return { result: ofAll ?? ofEntry ?? call.failed(error), someToBlame: ofAll === undefined };
  }
}

/** Why the server takes no entry at all; undefined where it would. */
async function refusalOfNothing(
  client: StreamClient,
  settings: RedisSettings,
  call: Call,
): Promise<DeliveryResult | undefined> {
  try {
    await untilAborted(look(client, settings), call.deadline);
    return undefined;
  } catch (error) {
    return call.failed(error);
  }
}

async function look(client: StreamClient, settings: RedisSettings): Promise<void> {
  await add(client, settings, []);
  await client.length(settings.stream);
}

async function add(client: StreamClient, settings: RedisSettings, args: readonly string[]): Promise<void> {
  const { stream, remember_hours, max_length = 0 } = settings;
  await client.ready();
  await client.addOnce([stream, deliveredKey(stream)], [String(remember_hours), String(max_length), ...args]);
}
