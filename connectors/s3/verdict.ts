import type { DeliveryResult } from '@tributary/core';
import { verdictOfAnswer } from '../http/verdict.ts';
import { verdictOfNetworkFailure } from '../network-failure.ts';

/**
 * Codes of troubles that pass, with whatever status: the object was damaged or cut off on its way, others write to the
 * same name, this machine's clock is wrong for a moment, or the service asks for patience.
 */
const PASSING = new Set([
  'BadDigest',
  'ConditionalRequestConflict',
  'IncompleteBody',
  'OperationAborted',
  'RequestExpired',
  'RequestThrottled',
  'RequestTimeTooSkewed',
  'RequestTimeout',
  'SlowDown',
  'Throttling',
  'ThrottlingException',
  'TooManyRequestsException',
  'XAmzContentSHA256Mismatch',
]);

/** Names of errors in place of a code that the service did not give. */
const NO_CODES = new Set(['Error', 'Unknown', 'UnknownError']);

/**
 * What a failed put means. `lastFailure` is what became of a connection. `now` is epoch ms. Undefined for an error that
 * is neither the service's nor the network's.
 */
export function verdictOfS3Failure(
  error: unknown,
  lastFailure: Error | undefined,
  now: number,
): DeliveryResult | undefined {
  const status = statusOf(error);
  if (status !== undefined && error instanceof Error) {
    const answer = { status, retryAfter: retryAfterOf(error), excerpt: '' };
    const ofStatus = verdictOfAnswer(answer, now);
    const passes = ofStatus.outcome === 'dead' && PASSING.has(error.name);
    const verdict = passes ? ({ ...ofStatus, outcome: 'retry' } as const) : ofStatus;
    const code = /^[A-Za-z]{3,60}$/.test(error.name) && !NO_CODES.has(error.name) ? ` ${error.name}` : '';
    if (verdict.outcome === 'delivered')
      return { outcome: 'retry', reason: 'the answer is not whole', status };
    return { ...verdict, reason: `${verdict.reason}${code}` };
  }
  const network = verdictOfNetworkFailure(error);
  if (network !== undefined) return network;
  return lastFailure === undefined ? undefined : verdictOfNetworkFailure(lastFailure);
}

function statusOf(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('$metadata' in error)) return undefined;
  const metadata = error.$metadata;
  if (typeof metadata !== 'object' || metadata === null || !('httpStatusCode' in metadata)) return undefined;
  return typeof metadata.httpStatusCode === 'number' ? metadata.httpStatusCode : undefined;
}

function retryAfterOf(error: Error): string | undefined {
  const response = '$response' in error ? error.$response : undefined;
  if (typeof response !== 'object' || response === null || !('headers' in response)) return undefined;
  const { headers } = response;
  if (typeof headers !== 'object' || headers === null || !('retry-after' in headers)) return undefined;
  return String(headers['retry-after']);
}
