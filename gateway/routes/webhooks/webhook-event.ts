import type { IncomingHttpHeaders } from 'node:http';
import { canonicalTime, isObject, type JsonObject, nameId, type SourceWebhook } from '@tributary/core';
import { type Change, noteOf } from '../../ingestion/changes.ts';
import { MAX_MESSAGE_ID, withNote } from '../../ingestion/event.ts';
import { headerOf } from './signature.ts';

/** Where a kind has what an event needs. A place is a JSON pointer into the payload, or the name of a header. */
interface KindOfWebhook {
  /** An id that is the vendor's own, and so unique among all senders. */
  readonly id?: string;
  /** The texts at all of these are the event's name, with a point between. */
  readonly event: readonly string[];
  readonly timestamp: readonly string[];
  /** Further headers that `context.webhook` has. */
  readonly headers: readonly string[];
}

const UNDESCRIBED: KindOfWebhook = { event: [], timestamp: [], headers: [] };

const KINDS: Readonly<Record<SourceWebhook['kind'], KindOfWebhook>> = {
  github: {
    id: 'X-GitHub-Delivery',
    event: ['X-GitHub-Event', '/action'],
    timestamp: [],
    headers: [
      'X-GitHub-Event',
      'X-GitHub-Hook-ID',
      'X-GitHub-Hook-Installation-Target-Type',
      'X-GitHub-Hook-Installation-Target-ID',
    ],
  },
  stripe: { id: '/id', event: ['/type'], timestamp: ['/created'], headers: [] },
  shopify: {
    id: 'X-Shopify-Webhook-Id',
    event: ['X-Shopify-Topic'],
    timestamp: ['X-Shopify-Triggered-At'],
    headers: ['X-Shopify-Topic', 'X-Shopify-Shop-Domain', 'X-Shopify-API-Version', 'X-Shopify-Event-Id'],
  },
  standard: {
    id: 'webhook-id',
    event: ['/type'],
    timestamp: ['/timestamp', 'webhook-timestamp'],
    headers: ['webhook-timestamp'],
  },
  hmac: UNDESCRIBED,
  none: UNDESCRIBED,
};

/** The name of an event of which nothing tells a name. */
const UNNAMED = 'Webhook Received';

export interface ReceivedWebhook {
  readonly webhook: Omit<SourceWebhook, 'secrets' | 'hmac'>;
  readonly sourceId: string;
  readonly headers: IncomingHttpHeaders;
  /** SHA-256 of the body, hex; of one payload of several with its index behind. */
  readonly digest: string;
  readonly changes: readonly Change[];
}

/**
 * A payload as an item of the batch API. The sender cannot correct anything, so what is not there or cannot be used is
 * replaced by the next best:
 *
 * - `message_id`: that of the vendor, as it is; one at a place that the source names, which may be unique within the sender alone,
 *   together with the source; else one made of the body. A repeated request has the same, and so is a duplicate.
 * - `anonymous_id`, where no place holds an id: `<kind>:<source id>`.
 * - `timestamp`, where no place holds a time: the server's.
 */
export function webhookItem(payload: JsonObject, received: ReceivedWebhook): JsonObject {
  const { webhook, sourceId, headers, digest } = received;
  const kind = KINDS[webhook.kind];
  const textAt = (place: string | undefined) =>
    place === undefined ? undefined : textOf(valueAt(place, payload, headers));

  const changes = [...received.changes];
  const ownId = textAt(webhook.message_id);
  const vendorId = ownId === undefined ? textAt(kind.id) : undefined;
  const isLong = vendorId !== undefined && vendorId.length > MAX_MESSAGE_ID;
  if (isLong) changes.push({ path: kind.id ?? '', change: 'id_shortened' });
  const timestamp = timeAt(webhook, payload, headers, changes);
  const userId = textAt(webhook.user_id);
  const anonymousId =
    textAt(webhook.anonymous_id) ?? (userId === undefined ? `${webhook.kind}:${sourceId}` : undefined);
  const context = { webhook: contextOf(received, ownId ?? vendorId) };
  return {
    type: 'track',
    event: textAt(webhook.event) ?? joined(kind.event.map(textAt)) ?? UNNAMED,
    message_id:
      ownId !== undefined
        ? nameId('webhook', sourceId, ownId)
        : vendorId === undefined
          ? nameId('webhook body', sourceId, digest)
          : isLong
            ? nameId('message', vendorId)
            : vendorId,
    ...(userId !== undefined && { user_id: userId }),
    ...(anonymousId !== undefined && { anonymous_id: anonymousId }),
    ...(timestamp !== undefined && { timestamp }),
    properties: payload,
    context: changes.length === 0 ? context : withNote(context, noteOf(changes)),
  };
}

function joined(texts: readonly (string | undefined)[]): string | undefined {
  const found = texts.filter((text) => text !== undefined);
  return found.length === 0 ? undefined : found.join('.');
}

function contextOf(received: ReceivedWebhook, id: string | undefined): JsonObject {
  const headers = shownHeaders(received);
  return {
    kind: received.webhook.kind,
    ...(id !== undefined && { id }),
    ...(Object.keys(headers).length > 0 && { headers }),
  };
}

export function shownHeaders({
  webhook,
  headers,
}: Pick<ReceivedWebhook, 'webhook' | 'headers'>): Readonly<Record<string, string>> {
  const { kind, message_id, event, user_id, anonymous_id, timestamp } = webhook;
  const places = [message_id, event, user_id, anonymous_id, timestamp].filter((place) => place !== undefined);
  const shown = [...KINDS[kind].headers, ...places.filter((place) => !isPointer(place))];
  return Object.fromEntries(
    shown.flatMap((name) => {
      const value = headerOf(headers, name);
      return value === undefined ? [] : [[name.toLowerCase(), value] as const];
    }),
  );
}

/** ISO 8601; undefined where no place holds a time that can be read. */
function timeAt(
  { kind, timestamp }: Pick<SourceWebhook, 'kind' | 'timestamp'>,
  payload: JsonObject,
  headers: IncomingHttpHeaders,
  changes: Change[],
): string | undefined {
  for (const place of [...(timestamp === undefined ? [] : [timestamp]), ...KINDS[kind].timestamp]) {
    const text = textOf(valueAt(place, payload, headers));
    if (text === undefined) continue;
    const time = readTime(text);
    if (time !== undefined) return time;
    changes.push({ path: place, change: 'time_unreadable' });
  }
  return undefined;
}

const EPOCH = /^\d{1,15}(?:\.\d{1,9})?$/;
/** Numbers below are seconds, others milliseconds: in seconds the year 5138, in milliseconds 1973. */
const MILLISECONDS_FROM = 1e11;
const LATEST = Date.parse('9999-12-31T23:59:59.999Z');

/** ISO 8601, or seconds or milliseconds since 1970. */
function readTime(text: string): string | undefined {
  if (!EPOCH.test(text)) return canonicalTime(text);
  const number = Number(text);
  const at = number < MILLISECONDS_FROM ? number * 1_000 : number;
  return at > LATEST ? undefined : new Date(at).toISOString();
}

/** Whether a place is in the payload. No name of a header begins so. */
function isPointer(place: string): boolean {
  return place.startsWith('/');
}

const INDEX = /^\d+$/;

function valueAt(place: string, payload: JsonObject, headers: IncomingHttpHeaders): unknown {
  if (!isPointer(place)) return headerOf(headers, place);
  let value: unknown = payload;
  for (const segment of place.slice(1).split('/')) {
    const name = segment.replaceAll('~1', '/').replaceAll('~0', '~');
    if (Array.isArray(value)) value = INDEX.test(name) ? value[Number(name)] : undefined;
    else value = isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
  }
  return value;
}

/** A text that is not empty, or the digits of a number. Nothing else is an id, a name or a time. */
function textOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value === '' ? undefined : value;
  if (typeof value === 'number') return String(value);
  return JSON.isRawJSON(value) ? value.rawJSON : undefined;
}
