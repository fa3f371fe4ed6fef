import type { DeliveryResult } from '@tributary/core';
import { RESET, verdictOfNetworkFailure } from '../network-failure.ts';

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
