import type { ConnectionTest, DeliveryResult, Json, JsonObject } from '@tributary/core';
import { excerptOf } from '../http/excerpt.ts';
import { isObject } from '../json.ts';

const PASSING_STATUSES = new Set([408, 425, 429]);
/** The document is there already: a delivery that was sent before. */
const CONFLICT = 409;

/** What became of one action of a bulk request. */
export interface BulkItem {
  readonly status: number;
  readonly type: string | undefined;
  readonly reason: string | undefined;
}

/** The items of an answer; undefined for one that is not whole, or not of this many. */
export function itemsIn(answer: Uint8Array, count: number): readonly BulkItem[] | undefined {
  const items = parsed(answer)?.items;
  if (!Array.isArray(items) || items.length !== count) return undefined;
  return items.map(itemOf);
}

function parsed(answer: Uint8Array): JsonObject | undefined {
  try {
    const value: Json = JSON.parse(new TextDecoder().decode(answer));
    return isObject(value) ? value : undefined;
  } catch {
    return undefined; // not JSON: no answer of Elasticsearch
  }
}

function itemOf(item: Json): BulkItem {
  const action = isObject(item) ? Object.values(item)[0] : undefined;
  const { status, error } = isObject(action) ? action : {};
  const { type, reason } = isObject(error) ? error : {};
  return {
    status: typeof status === 'number' ? status : 0,
    type: typeof type === 'string' && /^[a-z_]{1,80}$/.test(type) ? type : undefined,
    reason: typeof reason === 'string' ? reason : undefined,
  };
}

/** What an item means for its delivery. `secrets` are masked in what is shown. */
export function verdictOfItem(
  { status, type, reason }: BulkItem,
  secrets: readonly string[],
): DeliveryResult {
  if ((status >= 200 && status < 300) || status === CONFLICT) return { outcome: 'delivered', status };
  const shown = reason === undefined ? {} : { response: excerptOf(Buffer.from(reason), secrets) };
  const passes = PASSING_STATUSES.has(status) || status >= 500 || status === 0;
  const why = type === undefined ? `answered ${status}` : `answered ${status} ${type}`;
  return { outcome: passes ? 'retry' : 'dead', reason: why, status, ...shown };
}

/** What an item of `changeNothing` says about the index. */
export function testedByItem(item: BulkItem, secrets: readonly string[]): ConnectionTest {
  const { status, type } = item;
  // A data stream refuses every change, once it knows who asks.
  const reached = type === 'document_missing_exception' || type === 'illegal_argument_exception';
  if (reached || status < 300) return { ok: true };
  const verdict = verdictOfItem(item, secrets);
  const { response } = verdict;
  const why = 'reason' in verdict ? verdict.reason : `answered ${status}`;
  return { ok: false, reason: why, status, ...(response === undefined ? {} : { response }) };
}
