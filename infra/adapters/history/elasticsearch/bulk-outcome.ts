import { type InvalidInput, Unavailable } from '@tributary/core';
import { refused } from '../../elasticsearch/index.ts';

/** What Elasticsearch answers to one entry of a bulk. */
export interface ItemAnswer {
  readonly status: number;
  readonly error?: { readonly type: string };
}

export interface BulkOutcome {
  /** Indices of the entries whose period has no index. */
  readonly homeless: readonly number[];
  /** Absent where every entry was put, or ignored as a higher version is stored. */
  readonly fault?: InvalidInput | Unavailable;
}

const [CONFLICT, NOT_FOUND] = [409, 404];

/** One entry that may be taken later makes the whole `Unavailable`: what can never be taken is told once it is alone. */
export function outcomeOf(items: readonly ItemAnswer[]): BulkOutcome {
  const failed = [...items.entries()].filter(
    ([, { status, error }]) => error !== undefined && status !== CONFLICT,
  );
  const homeless = failed.flatMap(([index, { status }]) => (status === NOT_FOUND ? [index] : []));
  const faults = failed.map(([, { status, error }]) => refused(status, error?.type));
  const fault = faults.find((one) => one instanceof Unavailable) ?? faults[0];
  return fault === undefined ? { homeless } : { homeless, fault };
}
