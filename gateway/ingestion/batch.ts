import { EVENT_TYPES, type EventType, iso, type WriteKey } from '@tributary/core';
import { Ajv, type ErrorObject } from 'ajv';
import { Type } from 'typebox';
import type { GatewayDependencies } from '../dependencies.ts';
import type { ErrorDetail } from '../errors/api-error.ts';
import { describeValidation } from '../errors/error-handler.ts';
import { detailOf, type TolerantBody } from '../request-body/parse-json.ts';
import { DOCUMENTED } from '../server/create-server.ts';
import {
  batchItems,
  type EventBody,
  type ItemSchemas,
  type ShapedEvent,
  shapeEvent,
  typesIn,
} from './event.ts';
import { TOO_LARGE } from './ingest.ts';

export const detail = Type.Object({ path: Type.String(), message: Type.String() });

/** The rejected items of a batch, as responses list them. */
export const rejectedItems = Type.Array(
  Type.Object({
    index: Type.Integer({ description: 'Place in the batch, from 0.' }),
    error: Type.String(),
    details: Type.Array(detail),
  }),
);

/** An item of a batch that is rejected, with the reason. Other items are accepted. */
export interface RejectedItem {
  readonly index: number;
  readonly error: string;
  readonly details: readonly ErrorDetail[];
}

export interface BatchEvent extends ShapedEvent {
  readonly index: number;
}

/** The items of a batch, both lists in the order of the batch. */
export interface ReadBatch {
  readonly events: readonly BatchEvent[];
  readonly rejected: readonly RejectedItem[];
}

export interface BatchOptions {
  /** ISO 8601. Default: now. */
  readonly receivedAt?: string;
  /** Whether the items may hold exact numbers. */
  readonly isExact?: boolean;
  /** Faults in the JSON text of an item, by its index: the item is rejected. */
  readonly itemFaults?: TolerantBody['itemFaults'];
  /** The original items, when `items` were converted from them, and bytes that count as part of each. */
  readonly sent?: { readonly items: readonly unknown[]; readonly besideBytes: number };
}

type BatchReader = (items: readonly unknown[], key: WriteKey, options?: BatchOptions) => ReadBatch;

const ajv = new Ajv({ allErrors: true, allowUnionTypes: true, keywords: [DOCUMENTED] });

/** Validates the items of a batch, each by the schema of its type. */
export function createBatchReader(
  { clock }: Pick<GatewayDependencies, 'clock'>,
  schemas: ItemSchemas = batchItems,
): BatchReader {
  return (items, key, { receivedAt = iso(clock()), isExact = false, itemFaults, sent } = {}) => {
    const events: BatchEvent[] = [];
    const rejected: RejectedItem[] = [];
    const read = (item: unknown, index: number): ReturnType<typeof shapeEvent> => {
      const faults = itemFaults?.get(index);
      if (faults !== undefined) return invalid(faults.map(detailOf));
      const type = typeOf(item);
      const schema = type && schemas[type];
      if (type === undefined || schema === undefined)
        return invalid([{ path: '/type', message: `must be one of ${typesIn(schemas)}` }]);
      // Compiled for the first item of its type, as compiling takes long compared with the rest of a start, and then kept by Ajv.
      const validate = ajv.compile<EventBody>(schema);
      if (!validate(item)) return invalid(describeValidation(findings(validate.errors), 'body'));
      const asSent = sent && { item: sent.items[index], besideBytes: sent.besideBytes };
      return shapeEvent(type, item, key, receivedAt, isExact, asSent);
    };
    for (const [index, item] of items.entries()) {
      const shaped = read(item, index);
      if (shaped.ok) events.push({ ...shaped, index });
      else rejected.push({ index, error: shaped.error, details: shaped.details });
    }
    return { events, rejected };
  };
}

function invalid(details: readonly ErrorDetail[]) {
  return { ok: false, error: 'invalid request', details } as const;
}

/** The message id of each item of a batch, in its order; null for a rejected item. */
export function messageIds(items: number, events: readonly BatchEvent[]): readonly (string | null)[] {
  const ids = new Map(events.map(({ index, event }) => [index, event.message_id]));
  return Array.from({ length: items }, (_, index) => ids.get(index) ?? null);
}

/** Makes the events of a batch durable: how many, and the rejected items with those that are too large for the log. */
export async function ingestBatch(
  { events, rejected }: ReadBatch,
  ingest: (events: readonly BatchEvent[]) => Promise<readonly number[]>,
): Promise<{ readonly accepted: number; readonly rejected: readonly RejectedItem[] }> {
  const refused = events.length === 0 ? [] : await ingest(events);
  const tooLarge = refused.flatMap((at) => {
    const index = events[at]?.index;
    if (index === undefined) return [];
    return [{ index, error: 'payload too large', details: [{ path: '', message: TOO_LARGE }] }];
  });
  return {
    accepted: events.length - refused.length,
    rejected: [...rejected, ...tooLarge].sort((a, b) => a.index - b.index),
  };
}

function typeOf(item: unknown): EventType | undefined {
  if (typeof item !== 'object' || item === null || !('type' in item)) return undefined;
  return EVENT_TYPES.find((type) => type === item.type);
}

function findings(errors: readonly ErrorObject[] | null | undefined) {
  return (errors ?? []).map((error) => ({ ...error, message: error.message ?? '' }));
}
