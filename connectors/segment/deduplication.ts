import type { Json } from '@tributary/core';
import type { Subscription } from './messages.ts';

/** How a vendor recognizes an event that is sent again, as after an answer that was lost. */
interface Deduplication {
  /** The vendor's own key, for documents. */
  readonly key: string;
  /** Where the vendor documents it, for documents; undefined where only the pack sends it. */
  readonly document?: string;
  /** The field of the pack's actions for it. */
  readonly field?: string;
  /** The member of each event in the body of a request for it, where the actions have no field. */
  readonly member?: 'uuid' | 'idempotency_key';
}

/** By folder of the pack; those of 0.2.0, of which undefined ones have no key, or document none. */
export const DEDUPLICATION: Readonly<Record<string, Deduplication | undefined>> = {
  amplitude: {
    key: '`insert_id`, within 7 days',
    document: 'https://amplitude.com/docs/apis/analytics/http-v2',
    field: 'insert_id',
  },
  braze: undefined,
  'canny-functions': undefined,
  customerio: {
    key: '`id` of events, where it is a ULID',
    document: 'https://customer.io/docs/journeys/events/#deduplicating-events',
    field: 'event_id',
  },
  drip: undefined,
  // Its Ingest API documents no key.
  encharge: { key: '`messageId`', field: 'messageId' },
  iterable: {
    key: '`id` of events and purchases, which are updated',
    document: 'https://api.iterable.com/api/docs#events_track',
    field: 'id',
  },
  mixpanel: {
    key: '`$insert_id` of events and purchases',
    document: 'https://docs.mixpanel.com/reference/import-events',
    field: 'insert_id',
  },
  outfunnel: undefined,
  posthog: {
    key: '`uuid`, made from an id that is none, with the same event, time and `distinct_id`; some time later',
    document: 'https://posthog.com/docs/data/events',
    member: 'uuid',
  },
  pushwoosh: undefined,
  schematic: {
    key: '`idempotency_key`, within 24 hours: of its API; of the address that the pack sends to it is not documented',
    document: 'https://docs.schematichq.com/api-reference/events/create-event',
    member: 'idempotency_key',
  },
  usermaven: {
    key: '`event_id`',
    document: 'https://usermaven.com/docs/integrations/event-api',
    field: 'event_id',
  },
};

const MESSAGE_ID: Json = { '@path': '$.messageId' };

/** The subscription with the message id as the vendor's key, unless its mapping gives another value. */
export function withKey<S extends Pick<Subscription, 'mapping'>>(
  subscription: S,
  fields: Readonly<Record<string, unknown>> | undefined,
  destination: string,
): S {
  const field = DEDUPLICATION[destination]?.field;
  if (field === undefined || fields === undefined || !Object.hasOwn(fields, field)) return subscription;
  const { [field]: own } = subscription.mapping;
  // biome-ignore lint/suspicious/noThenProperty: a condition of Segment's mapping kit
  const key: Json = own === undefined ? MESSAGE_ID : { '@if': { exists: own, then: own, else: MESSAGE_ID } };
  return { ...subscription, mapping: { ...subscription.mapping, [field]: key } };
}
