import type { Connector, Delivery, DeliveryResult } from '@tributary/core';
import { Agent } from 'undici';
import { withDeadline } from '../deadline.ts';
import type { ConnectorContext } from '../kind.ts';
import { excerptOf, secretTexts } from './excerpt.ts';
import { exchange } from './exchange.ts';
import { composeMessage } from './message.ts';
import { readSettings, type WebhookSettings } from './settings.ts';
import { verdictOfAnswer, verdictOfFailure } from './verdict.ts';

/** Connections to one origin at most: enough for a busy destination, and one that hangs cannot take every socket. */
const MAX_CONNECTIONS = 256;
/** An idle connection is kept this long, ms, unless the destination says less. */
const KEEP_ALIVE_MS = 10_000;

export function createWebhookConnector(context: ConnectorContext): Connector {
  const { egress, timeoutMs, clock } = context;
  const agent = new Agent({
    connect: egress.connector(timeoutMs),
    connections: MAX_CONNECTIONS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // The deadline of the whole call ends slow headers and slow bodies.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  let closing: Promise<void> | undefined;

  const send = async (
    settings: WebhookSettings,
    deliveries: readonly [Delivery, ...Delivery[]],
    signal: AbortSignal,
  ): Promise<DeliveryResult> => {
    try {
      const { status, retryAfter, start } = await withDeadline(signal, timeoutMs, (deadline) =>
        exchange(agent, settings.url, composeMessage(settings, deliveries, clock()), deadline),
      );
      const excerpt = excerptOf(start, secretTexts(settings));
      return verdictOfAnswer({ status, retryAfter, excerpt }, clock());
    } catch (error) {
      const verdict = verdictOfFailure(error);
      if (verdict === undefined) throw error;
      return verdict;
    }
  };

  return {
    batchSize: ({ settings }) => readSettings(settings)?.batchSize ?? 1,

    async deliver(destination, deliveries, { signal }) {
      const settings = readSettings(destination.settings);
      if (settings === undefined) {
        return deliveries.map(() => ({ outcome: 'dead', reason: 'the settings are not valid' }));
      }
      const results: DeliveryResult[] = [];
      for (let at = 0; at < deliveries.length; at += settings.batchSize) {
        const [first, ...rest] = deliveries.slice(at, at + settings.batchSize);
        if (first === undefined) break;
        const result = await send(settings, [first, ...rest], signal);
        results.push(result, ...rest.map(() => result));
      }
      return results;
    },

    close() {
      closing ??= agent.close();
      return closing;
    },
  };
}
