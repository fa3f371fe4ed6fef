import { InvalidInput, type TributaryError, Unavailable } from '@tributary/core';
import { describeRefusal, isNever } from '../../elasticsearch/index.ts';

/** What Elasticsearch answers to one entry of a bulk. */
export interface ItemAnswer {
  readonly status: number;
  readonly error?: { readonly type: string };
}

export interface BulkOutcome {
  /** Indices of the entries whose period has no index. */
  readonly homeless: readonly number[];
  /** Absent where every entry was put, or ignored as a higher version is stored. */
  readonly fault?: TributaryError;
}

const [CONFLICT, NOT_FOUND] = [409, 404];

/** One entry that may be taken later makes the whole `Unavailable`: what can never be taken is told once it is alone. */
export function outcomeOf(items: readonly ItemAnswer[]): BulkOutcome {
  const failed = [...items.entries()].filter(
    ([, { status, error }]) => error !== undefined && status !== CONFLICT,
  );
  const homeless = failed.flatMap(([index, { status }]) => (status === NOT_FOUND ? [index] : []));
  const later = failed.find(([, { status }]) => !isNever(status));
  const [, first] = later ?? failed[0] ?? [];
  if (first === undefined) return { homeless };
  const message = describeRefusal(first.status, first.error?.type);
  return { homeless, fault: later === undefined ? new InvalidInput(message) : new Unavailable(message) };
}
