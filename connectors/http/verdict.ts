import type { DeliveryResult } from '@tributary/core';
import { errors } from 'undici';
import { verdictOfNetworkFailure } from '../network-failure.ts';
import { parseRetryAfter } from './retry-after.ts';

/** What a destination answered. */
export interface HttpAnswer {
  readonly status: number;
  readonly retryAfter: string | undefined;
  /** The start of the body, fit to be shown; empty when there was none. */
  readonly excerpt: string;
}

const PASSING_STATUSES = new Set([408, 425, 429]);
const STATUSES_THAT_SAY_WHEN = new Set([429, 503]);

/** What an answer means for the deliveries that were sent. `now` is epoch ms. */
export function verdictOfAnswer(answer: HttpAnswer, now: number): DeliveryResult {
  const { status } = answer;
  const shown = { status, ...(answer.excerpt === '' ? {} : { response: answer.excerpt }) };
  if (status >= 200 && status < 300) return { outcome: 'delivered', ...shown };
  if (PASSING_STATUSES.has(status) || (status >= 500 && status < 600)) {
    const says = STATUSES_THAT_SAY_WHEN.has(status) ? answer.retryAfter : undefined;
    const afterMs = says === undefined ? undefined : parseRetryAfter(says, now);
    const after = afterMs === undefined ? {} : { afterMs };
    return { outcome: 'retry', reason: `answered ${status}`, ...shown, ...after };
  }
  const reason = status < 400 ? 'redirects are not followed' : `answered ${status}`;
  return { outcome: 'dead', reason, ...shown };
}

/**
 * Refusals of the place as it is set up: its address (404, 405, 410), what lets one in (401, 402, 403, 407), the
 * format (415). No other body would fare better there.
 */
const STATUSES_ABOUT_THE_PLACE = new Set([401, 402, 403, 404, 405, 407, 410, 415]);

/**
 * True for a refusal that some of the deliveries in a batch may have caused while others are fine: 400, 413, 422, and
 * 500, with which a receiver answers what it stumbles over. Other 5xx speak of the place.
 */
export function mayBlameSome({ outcome, status = 0 }: DeliveryResult): boolean {
  if (outcome === 'retry') return status === 500;
  return outcome === 'dead' && status >= 400 && status < 500 && !STATUSES_ABOUT_THE_PLACE.has(status);
}

/** What a failed call means: no answer came. Undefined for an error that is not the network's. */
export function verdictOfFailure(error: unknown): DeliveryResult | undefined {
  if (error instanceof errors.HTTPParserError) return { outcome: 'retry', reason: 'the answer is not HTTP' };
  return verdictOfNetworkFailure(error);
}
