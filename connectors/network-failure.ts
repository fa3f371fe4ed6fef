import type { DeliveryResult } from '@tributary/core';
import { codeOf } from './errors.ts';
import { verdictOfOurs } from './verdicts.ts';

const RESETS = new Set(['ECONNRESET', 'EPIPE', 'ECONNABORTED', 'UND_ERR_SOCKET']);

/** Codes that say the request itself is malformed, which another attempt does not heal. */
const MALFORMED = new Set(['UND_ERR_INVALID_ARG', 'UND_ERR_NOT_SUPPORTED']);

const REASONS = new Map([
  ['ECONNREFUSED', 'connection refused'],
  ['ETIMEDOUT', 'connection timed out'],
  ['UND_ERR_CONNECT_TIMEOUT', 'connection timed out'],
  ['EHOSTUNREACH', 'host unreachable'],
  ['ENETUNREACH', 'network unreachable'],
  ['ENOTFOUND', 'name not resolved'],
  ['ENODATA', 'name not resolved'],
  ['EAI_AGAIN', 'name not resolved'],
  ['UND_ERR_CLOSED', 'stopped'],
  ['UND_ERR_DESTROYED', 'stopped'],
]);

/** A connection that ended before its answer: whether the place took what was sent is unknown. */
export const RESET: DeliveryResult = {
  outcome: 'retry',
  reason: 'connection closed before an answer',
  reset: true,
};

/**
 * What a failed call means: no answer came, whatever else happened. Made from codes alone, since messages of the
 * network hold addresses and URLs. Undefined for an error that has none: it is not the network's.
 */
export function verdictOfNetworkFailure(error: unknown): DeliveryResult | undefined {
  const ours = verdictOfOurs(error);
  if (ours !== undefined) return ours;
  const code = codeOf(error);
  if (code === undefined) return undefined;
  if (MALFORMED.has(code)) return { outcome: 'dead', reason: 'the settings make no valid request' };
  if (RESETS.has(code)) return RESET;
  if (/CERT|^ERR_TLS_|^UNABLE_TO_/.test(code)) {
    return { outcome: 'retry', reason: `certificate not accepted (${code})` };
  }
  return { outcome: 'retry', reason: REASONS.get(code) ?? `network error (${code})` };
}
