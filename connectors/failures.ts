import { type ConnectionTest, type DeliveryResult, TributaryError } from '@tributary/core';

/** A call timed out. Its effect at the destination is unknown. */
export class TimedOut extends TributaryError {
  readonly code = 'timed_out';
  readonly retryable = true;
}

/** The caller cancelled the call: the partition was revoked or the process stops. */
export class Stopped extends TributaryError {
  readonly code = 'stopped';
  readonly retryable = true;
}

/** The connector was closed before the call began. */
export class Closed extends TributaryError {
  readonly code = 'closed';
  readonly retryable = true;
}

/** A connection received more bytes than any legitimate response has. */
export class ResponseTooLarge extends TributaryError {
  readonly code = 'too_much_answered';
  readonly retryable = true;
}

/** A connection received data that the protocol does not allow as a response to the request. */
export class ResponseRefused extends TributaryError {
  readonly code = 'answer_refused';
  readonly retryable = true;
}

/** A server requests the password in clear on an unencrypted connection. */
export class PasswordInClear extends TributaryError {
  readonly code = 'password_in_clear';
  readonly retryable = false;
}

/** The egress guard refused a literal address, or a name of this machine. */
export class AddressRefused extends TributaryError {
  readonly code = 'address_refused';
  readonly retryable = false;
}

/** A path leads, or could lead, out of the folder that it must stay in. */
export class FolderRefused extends TributaryError {
  readonly code = 'folder_refused';
  readonly retryable = false;
}

/** The `code` of a system or library error: an identifier, so it is safe to show; undefined where there is none. */
export function codeOf(thrown: unknown): string | undefined {
  if (!(thrown instanceof Error) || !('code' in thrown) || typeof thrown.code !== 'string') return undefined;
  return /^[A-Za-z0-9_]{1,64}$/.test(thrown.code) ? thrown.code : undefined;
}

/** The reason of deliveries whose settings the schema refuses. */
export const NOT_VALID = 'the settings are not valid';

export const DELIVERED: DeliveryResult = { outcome: 'delivered' };

export const STOPPED: DeliveryResult = { outcome: 'retry', reason: 'stopped' };

/** The result of a connection test, from the delivery result of its message. */
export function testResultOf(result: DeliveryResult): ConnectionTest {
  const { status, response } = result;
  const shown = {
    ...(status === undefined ? {} : { status }),
    ...(response === undefined ? {} : { response }),
  };
  return result.outcome === 'delivered'
    ? { ok: true, ...shown }
    : { ok: false, reason: result.reason, ...shown };
}

/** The result of an error class of this file; undefined for any other error. */
export function classifyOwnError(error: unknown): DeliveryResult | undefined {
  if (error instanceof AddressRefused) return { outcome: 'dead', reason: 'address not allowed' };
  if (error instanceof TimedOut) return { outcome: 'retry', reason: 'timed out' };
  if (error instanceof ResponseTooLarge) return { outcome: 'retry', reason: 'the answer is too long' };
  if (error instanceof ResponseRefused)
    return { outcome: 'retry', reason: 'the answer cannot be understood' };
  if (error instanceof PasswordInClear)
    return { outcome: 'dead', reason: 'the server asks for the password in clear, without TLS' };
  if (error instanceof Stopped || error instanceof Closed) return STOPPED;
  return undefined;
}

const RESETS = new Set(['ECONNRESET', 'EPIPE', 'ECONNABORTED', 'UND_ERR_SOCKET']);

/** Codes of malformed requests, which no retry changes. */
const MALFORMED = new Set(['UND_ERR_INVALID_ARG', 'UND_ERR_NOT_SUPPORTED']);

/**
 * Also the reason of a name with refused addresses only: a tenant cannot find out by it which names the resolver of the
 * installation knows.
 */
const NO_ADDRESS = 'the name has no address that may be reached';

const REASONS = new Map([
  ['ECONNREFUSED', 'connection refused'],
  ['ETIMEDOUT', 'connection timed out'],
  ['UND_ERR_CONNECT_TIMEOUT', 'connection timed out'],
  ['EHOSTUNREACH', 'host unreachable'],
  ['ENETUNREACH', 'network unreachable'],
  ['ENOTFOUND', NO_ADDRESS],
  ['ENODATA', NO_ADDRESS],
  ['EAI_AGAIN', NO_ADDRESS],
  ['UND_ERR_CLOSED', 'stopped'],
  ['UND_ERR_DESTROYED', 'stopped'],
]);

/** A connection that ended before the response: whether the destination took the request is unknown. */
export const RESET: DeliveryResult = {
  outcome: 'retry',
  reason: 'connection closed before an answer',
  reset: true,
};

/**
 * The result of a call that got no response. Made from error codes alone, as messages of network errors contain
 * addresses and URLs. Undefined for an error without a code: it is not a network error.
 */
export function classifyNetworkFailure(error: unknown): DeliveryResult | undefined {
  const ours = classifyOwnError(error);
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
