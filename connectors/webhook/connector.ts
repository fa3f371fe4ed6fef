import {
  type Connector,
  type ConnectorDestination,
  type DeliveryResult,
  MAX_CONCURRENCY,
  newId,
} from '@tributary/core';
import { Agent } from 'undici';
import { withDeadline } from '../deadline.ts';
import type { ConnectorContext } from '../kind.ts';
import { NOT_VALID, testedBy } from '../verdicts.ts';
import { DestinationAgents } from './agents.ts';
import { excerptOf, secretTexts } from './excerpt.ts';
import { exchange } from './exchange.ts';
import { composeMessage, composeTest, type WebhookMessage } from './message.ts';
import { type Part, partsOf, sendInParts } from './parts.ts';
import { readSettings, type WebhookSettings } from './settings.ts';
import { verdictOfAnswer, verdictOfFailure } from './verdict.ts';

/** An idle connection is kept this long, ms, unless the destination says less. */
const KEEP_ALIVE_MS = 10_000;
/** The agent of a destination is kept this long after its last call, ms. */
const AGENT_IDLE_MS = 3 * 60_000;
/** Agents of destinations that are kept for further calls. */
const MAX_AGENTS = 1_000;
/** After this part of the time a refused batch is sent on one by one, so that every call settles some of it. */
const HALVING_PART = 1 / 4;

export function createWebhookConnector(context: ConnectorContext): Connector {
  const { egress, timeoutMs, clock } = context;
  const connect = egress.connector(timeoutMs);
  const agents = new DestinationAgents({
    open: () => openAgent(connect),
    idleMs: AGENT_IDLE_MS,
    maxKept: MAX_AGENTS,
  });
  let closing: Promise<void> | undefined;

  const send = async (
    agent: Agent,
    settings: WebhookSettings,
    compose: () => WebhookMessage,
    deadline: AbortSignal,
  ) => {
    try {
      deadline.throwIfAborted();
      const message = compose();
      const { status, retryAfter, start } = await exchange(agent, settings.url, message, deadline);
      const excerpt = excerptOf(start, secretTexts(settings));
      return verdictOfAnswer({ status, retryAfter, excerpt }, clock());
    } catch (error) {
      return verdictOrThrow(error);
    }
  };

  /** One deadline for the batch and whatever parts of it are sent. */
  const sendBatch = async (
    destination: ConnectorDestination,
    settings: WebhookSettings,
    batch: Part,
    signal: AbortSignal,
  ): Promise<readonly DeliveryResult[]> => {
    const halvingEndsAt = clock() + timeoutMs * HALVING_PART;
    try {
      return await agents.use(destination, (agent) =>
        withDeadline(signal, timeoutMs, (deadline) =>
          sendInParts(batch, {
            send: (part) => send(agent, settings, () => composeMessage(settings, part, clock()), deadline),
            mayHalve: () => clock() < halvingEndsAt,
          }),
        ),
      );
    } catch (error) {
      const verdict = verdictOrThrow(error);
      return batch.map(() => verdict);
    }
  };

  const sendTest = async (
    destination: ConnectorDestination,
    settings: WebhookSettings,
    compose: () => WebhookMessage,
    signal: AbortSignal,
  ): Promise<DeliveryResult> => {
    try {
      return await agents.use(destination, (agent) =>
        withDeadline(signal, timeoutMs, (deadline) => send(agent, settings, compose, deadline)),
      );
    } catch (error) {
      return verdictOrThrow(error);
    }
  };

  return {
    batchLimits: ({ settings }) => ({ events: readSettings(settings)?.batchSize ?? 1 }),

    async deliver(destination, deliveries, { signal }) {
      const settings = readSettings(destination.settings);
      if (settings === undefined) {
        return deliveries.map(() => ({ outcome: 'dead', reason: NOT_VALID }));
      }
      const results: DeliveryResult[] = [];
      for (const batch of partsOf(deliveries, settings.batchSize)) {
        results.push(...(await sendBatch(destination, settings, batch, signal)));
      }
      return results;
    },

    async test(destination, { signal }) {
      const settings = readSettings(destination.settings);
      if (settings === undefined) return { ok: false, reason: NOT_VALID };
      const compose = () => composeTest(settings, newId(), destination, clock());
      return testedBy(await sendTest(destination, settings, compose, signal));
    },

    close() {
      closing ??= agents.close();
      return closing;
    },
  };
}

function openAgent(connect: ReturnType<ConnectorContext['egress']['connector']>): Agent {
  return new Agent({
    connect,
    // One for each of the calls that are made to a destination at a time; they are opened as they are needed.
    connections: MAX_CONCURRENCY,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // The deadline of the whole call ends slow headers and slow bodies.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
}

function verdictOrThrow(error: unknown): DeliveryResult {
  const verdict = verdictOfFailure(error);
  if (verdict === undefined) throw error;
  return verdict;
}
