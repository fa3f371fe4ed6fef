import { type InvalidInput, Unavailable } from '@tributary/core';
import { refused } from '../../elasticsearch/index.ts';
import type { WriteResult } from './documents.ts';

/** What Elasticsearch answers to one write of a bulk. */
export interface BulkItem {
  readonly status: number;
  readonly _seq_no?: number;
  readonly _primary_term?: number;
  readonly error?: { readonly type?: string };
}

const [CONFLICT, NOT_FOUND] = [409, 404];

/** The result of one write, or why there is none: `Unavailable` when it may be done later or has been. */
export function resultOf(item: BulkItem): WriteResult | InvalidInput | Unavailable {
  const { status, _seq_no: seqNo, _primary_term: primaryTerm, error } = item;
  // A removal of what is gone is told as 404 without an error; a missing index as one with it.
  if (status === CONFLICT || (status === NOT_FOUND && error === undefined)) return 'conflict';
  if (error !== undefined || seqNo === undefined || primaryTerm === undefined)
    return status === NOT_FOUND
      ? new Unavailable('the index of the profiles is missing')
      : refused(status, error?.type);
  return { seqNo, primaryTerm };
}
