import type { DeliveryResult } from '@tributary/core';
import { excerptOf } from '../http/excerpt.ts';
import { verdictOfAnswer } from '../http/verdict.ts';
import type { ActionOutcome } from './messages.ts';

/** What was seen of the network while an event's actions ran. */
export interface Seen {
  /** What the last request that got no answer met with. */
  readonly failure: DeliveryResult | undefined;
  /** Of the last answer. */
  readonly status: number | undefined;
  readonly retryAfter: string | undefined;
}

/** What the actions of an event mean for its delivery: the worst of them counts. `now` is epoch ms. */
export function verdictOfActions(
  outcomes: readonly ActionOutcome[],
  seen: Seen,
  secrets: readonly string[],
  now: number,
): DeliveryResult {
  const failed = outcomes.flatMap(({ action, error }) =>
    error === undefined ? [] : [verdictOfError(action, error, seen, secrets, now)],
  );
  const worst = failed.find(({ outcome }) => outcome === 'retry') ?? failed[0];
  if (worst !== undefined) return worst;
  const status = seen.status === undefined ? {} : { status: seen.status };
  return outcomes.length === 0
    ? { outcome: 'delivered', response: 'no action takes this event' }
    : { outcome: 'delivered', ...status };
}

function verdictOfError(
  action: string,
  { name, status, message }: NonNullable<ActionOutcome['error']>,
  seen: Seen,
  secrets: readonly string[],
  now: number,
): DeliveryResult {
  const excerpt = excerptOf(Buffer.from(message), secrets);
  if (status !== undefined && status >= 300) {
    const verdict = verdictOfAnswer({ status, retryAfter: seen.retryAfter, excerpt }, now);
    return 'reason' in verdict ? { ...verdict, reason: `${action} ${verdict.reason}` } : verdict;
  }
  if (seen.failure !== undefined) return seen.failure;
  // The pack has a deadline of its own, which may be shorter than a call's.
  if (name === 'TimeoutError') return { outcome: 'retry', reason: 'timed out' };
  const why = /^[A-Za-z]{1,60}$/.test(name) ? name : 'Error';
  // What an action makes of an event is the same every time.
  return {
    outcome: 'dead',
    reason: `${action} failed (${why})`,
    ...(excerpt === '' ? {} : { response: excerpt }),
  };
}
