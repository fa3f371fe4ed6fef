import { type ConnectionTest, type DeliveryResult, TributaryError } from '@tributary/core';

/** A call took longer than it may. What it did at the destination is unknown. */
export class TimedOut extends TributaryError {
  readonly code = 'timed_out';
  readonly retryable = true;
}

/** Whoever asked does not wait any more: the partition is lost or the process leaves. */
export class Stopped extends TributaryError {
  readonly code = 'stopped';
  readonly retryable = true;
}

/** The connector was closed before the call began. */
export class Closed extends TributaryError {
  readonly code = 'closed';
  readonly retryable = true;
}

/** More came back on a connection than any honest answer is. */
export class TooMuchAnswered extends TributaryError {
  readonly code = 'too_much_answered';
  readonly retryable = true;
}

/** What came on a connection is nothing that the protocol allows for an answer to what was asked. */
export class AnswerRefused extends TributaryError {
  readonly code = 'answer_refused';
  readonly retryable = true;
}

/** A server asks for the password in clear on a connection that is not encrypted. */
export class PasswordInClear extends TributaryError {
  readonly code = 'password_in_clear';
  readonly retryable = false;
}

/** The address a name stands for, or a literal one, is not to be reached from here. */
export class AddressRefused extends TributaryError {
  readonly code = 'address_refused';
  readonly retryable = false;
}

/** A folder leads, or could lead, out of the place it must stay in. */
export class FolderRefused extends TributaryError {
  readonly code = 'folder_refused';
  readonly retryable = false;
}

/** The `code` of a system or library error: an identifier, so it is safe to show; undefined where there is none. */
export function codeOf(thrown: unknown): string | undefined {
  if (!(thrown instanceof Error) || !('code' in thrown) || typeof thrown.code !== 'string') return undefined;
  return /^[A-Za-z0-9_]{1,64}$/.test(thrown.code) ? thrown.code : undefined;
}

/** Why nothing is sent for settings that their schema would not have let through. */
export const NOT_VALID = 'the settings are not valid';

export const DELIVERED: DeliveryResult = { outcome: 'delivered' };

export const STOPPED: DeliveryResult = { outcome: 'retry', reason: 'stopped' };

/** What a connection test says whose message met with this. */
export function testedBy(result: DeliveryResult): ConnectionTest {
  const { status, response } = result;
  const shown = {
    ...(status === undefined ? {} : { status }),
    ...(response === undefined ? {} : { response }),
  };
  return result.outcome === 'delivered'
    ? { ok: true, ...shown }
    : { ok: false, reason: result.reason, ...shown };
}

/** What our own refusals mean, whatever the place; undefined for any other error. */
export function verdictOfOurs(error: unknown): DeliveryResult | undefined {
  if (error instanceof AddressRefused) return { outcome: 'dead', reason: 'address not allowed' };
  if (error instanceof TimedOut) return { outcome: 'retry', reason: 'timed out' };
  if (error instanceof TooMuchAnswered) return { outcome: 'retry', reason: 'the answer is too long' };
  if (error instanceof AnswerRefused) return { outcome: 'retry', reason: 'the answer cannot be understood' };
  if (error instanceof PasswordInClear)
    return { outcome: 'dead', reason: 'the server asks for the password in clear, without TLS' };
  if (error instanceof Stopped || error instanceof Closed) return STOPPED;
  return undefined;
}

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
