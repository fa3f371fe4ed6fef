import type { Connector } from '@tributary/core';
import { createClientConnector } from '../client-connector.ts';
import { untilAborted } from '../deadline.ts';
import { deliveryJson } from '../delivery-body.ts';
import type { ConnectorContext } from '../kind.ts';
import { DELIVERED } from '../verdicts.ts';
import type { StreamClient } from './client.ts';
import { deliveredKey } from './script.ts';
import { MAX_BATCH, type RedisSettings, readSettings } from './settings.ts';
import { verdictOfRedisFailure } from './verdict.ts';

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

    async send(client, settings, batch, { deadline }) {
      const args = batch.flatMap((delivery) => [
        delivery.id,
        delivery.event.type,
        delivery.message_id,
        deliveryJson(delivery),
      ]);
      await untilAborted(add(client, settings, args), deadline);
      return batch.map(() => DELIVERED);
    },

    async test(client, settings, { deadline }) {
      const looked = add(client, settings, []).then(() => client.length(settings.stream));
      await untilAborted(looked, deadline);
      return { ok: true };
    },
  });
}

async function add(client: StreamClient, settings: RedisSettings, args: readonly string[]): Promise<void> {
  const { stream, remember_hours, max_length = 0 } = settings;
  await client.ready();
  await client.addOnce([stream, deliveredKey(stream)], [String(remember_hours), String(max_length), ...args]);
}
