import { EVENT_TYPES, type EventType, iso, type WriteKey } from '@tributary/core';
import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import { type TSchema, Type } from 'typebox';
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
const validators = new Map<TSchema, ValidateFunction<EventBody>>();

/** Compiled for the first item of its type, as compiling takes long compared with the rest of a start. */
function validatorOf(schema: TSchema): ValidateFunction<EventBody> {
  let validate = validators.get(schema);
  if (validate === undefined) {
    validate = ajv.compile<EventBody>(schema);
    validators.set(schema, validate);
  }
  return validate;
}

/** Validates the items of a batch, each by the schema of its type. */
export function createBatchReader(
  { clock }: Pick<GatewayDependencies, 'clock'>,
  schemas: ItemSchemas = batchItems,
): BatchReader {
  return (items, key, { receivedAt = iso(clock()), isExact = false, itemFaults, sent } = {}) => {
    const events: BatchEvent[] = [];
    const rejected: RejectedItem[] = [];
    items.forEach((item, index) => {
      const faults = itemFaults?.get(index);
      if (faults !== undefined) {
        rejected.push({ index, error: 'invalid request', details: faults.map(detailOf) });
        return;
      }
      const type = typeOf(item);
      const schema = type && schemas[type];
      if (type === undefined || schema === undefined) {
        const message = `must be one of ${typesIn(schemas)}`;
        rejected.push({ index, error: 'invalid request', details: [{ path: '/type', message }] });
        return;
      }
      const validate = validatorOf(schema);
      if (!validate(item)) {
        rejected.push({
          index,
          error: 'invalid request',
          details: describeValidation(findings(validate.errors), 'body'),
        });
        return;
      }
      const asSent = sent && { item: sent.items[index], besideBytes: sent.besideBytes };
      const shaped = shapeEvent(type, item, key, receivedAt, isExact, asSent);
      if (!shaped.ok) {
        rejected.push({ index, error: shaped.error, details: shaped.details });
        return;
      }
      events.push({ ...shaped, index });
    });
    return { events, rejected };
  };
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
