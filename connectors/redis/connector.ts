import type { Connector, DeliveryResult } from '@tributary/core';
import { type Call, createClientConnector } from '../client/client-connector.ts';
import { untilAborted } from '../client/deadlines.ts';
import { memoize, type Part, type PartResult, sendInParts } from '../client/partial-batches.ts';
import { deliveryJson } from '../delivery-body.ts';
import { DELIVERED, RESET, verdictOfNetworkFailure } from '../failures.ts';
import type { ConnectorContext, ConnectorKind } from '../kind.ts';
import type { StreamClient } from './client.ts';
import { description, MAX_BATCH, type RedisSettings, readSettings } from './settings.ts';

export const redis: ConnectorKind = { description, create: createRedisConnector };

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
  await client.addOnce(stream, [String(remember_hours), String(max_length), ...args]);
}

/** First words of Redis's errors that say how the place is set up, which no other attempt heals by itself. */
const REFUSALS = new Map([
  ['NOAUTH', 'not authenticated'],
  ['WRONGPASS', 'not authenticated'],
  ['NOPERM', 'permission denied'],
  ['WRONGTYPE', 'the key holds no stream'],
  ['MOVED', 'the server is part of a cluster'],
  ['ASK', 'the server is part of a cluster'],
  ['CROSSSLOT', 'the server is part of a cluster'],
  ['ERR', 'the server refused the command'],
]);

/**
 * What a failed command means. `lastFailure` is what became of the connection, which the driver tells in words of its
 * own. Undefined for an error that is neither Redis's nor the network's.
 */
export function verdictOfRedisFailure(
  error: unknown,
  lastFailure: Error | undefined,
): DeliveryResult | undefined {
  const network = verdictOfNetworkFailure(error);
  if (network !== undefined) return network;
  if (!(error instanceof Error)) return undefined;
  if (error.name === 'ReplyError') return verdictOfReply(error.message);
  if (lastFailure?.name === 'ReplyError') return verdictOfReply(lastFailure.message);
  const ofConnection = lastFailure === undefined ? undefined : verdictOfNetworkFailure(lastFailure);
  if (ofConnection !== undefined) return ofConnection;
  // The driver's words for a connection that ended under a command.
  return /^Connection is closed|^Stream isn't writeable|max retries/i.test(error.message) ? RESET : undefined;
}

/** Replies that say how the server is, now or as it is set up. */
const ABOUT_THE_SERVER = new Set([
  ...[...REFUSALS.keys()].filter((word) => word !== 'ERR'),
  'BUSY',
  'CLUSTERDOWN',
  'LOADING',
  'MASTERDOWN',
  'MISCONF',
  'NOREPLICAS',
  'OOM',
  'READONLY',
  'TRYAGAIN',
]);

/** Whether an entry may have caused a refusal: `ERR`, which says nothing, or an error that a proxy made up. */
export function mayBlameEntries(error: unknown): boolean {
  if (!(error instanceof Error) || error.name !== 'ReplyError') return false;
  return !isAboutClients(error.message) && !ABOUT_THE_SERVER.has(causeIn(error.message));
}

function verdictOfReply(message: string): DeliveryResult {
  if (message.includes('max number of clients')) return { outcome: 'retry', reason: 'too many clients' };
  if (isAboutClients(message)) return { outcome: 'retry', reason: 'too many requests' };
  const cause = causeIn(message);
  const refusal = REFUSALS.get(cause);
  return refusal === undefined
    ? { outcome: 'retry', reason: `the server answered ${cause}` }
    : { outcome: 'dead', reason: refusal };
}

function isAboutClients(message: string): boolean {
  return message.includes('max number of clients') || /^ERR max (?:\w+ )?requests? limit/.test(message);
}

/** Redis begins with a word in capitals; what stands before it, and has lost it, may speak in any words. */
function causeIn(message: string): string {
  return scriptCause(message) ?? /^[A-Z]{2,20}\b/.exec(message)?.[0] ?? 'an error of its own';
}

/** Before Redis 7 an error inside a script is `ERR Error running script …: @user_script: <n>: <ERROR> …`. */
function scriptCause(message: string): string | undefined {
  return /@user_script: ?\d+: (?:-)?([A-Z]{2,20})\b/.exec(message)?.[1];
}
