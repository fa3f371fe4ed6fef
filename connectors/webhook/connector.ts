import { createHmac, createSecretKey, type KeyObject } from 'node:crypto';
import {
  type Connector,
  type ConnectorDescription,
  type ConnectorDestination,
  type Json,
  type JsonObject,
  nameId,
  newId,
} from '@tributary/core';
import type { Agent } from 'undici';
import {
  type ConnectorCall,
  createClientConnector,
  type Part,
  type PartResult,
  sendInParts,
} from '../client/client-connector.ts';
import { deliveryJson } from '../delivery-body.ts';
import { testResultOf } from '../failures.ts';
import { type HttpRequest, httpClient, mayConcernSome, resultOf, secretTexts } from '../http/client.ts';
import type { ConnectorContext, ConnectorKind } from '../kind.ts';
import manifest from '../package.json' with { type: 'json' };
import { memoizeByObject, secretNames, urlFaults, urlField } from '../settings.ts';

const DEFAULT_ROTATION_HOURS = 24;
const MAX_ROTATION_HOURS = 168;
/** Each adds a signature to every request. */
const MAX_PREVIOUS = 4;

/** Deliveries of one request at most. */
const MAX_BATCH = 100;

const SECRET_PATTERN = '^whsec_[A-Za-z0-9+/]+={0,2}$';

/** The settings as users write them. */
const settingsSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  required: ['url'],
  additionalProperties: false,
  properties: {
    url: urlField('Where to POST', 'https://example.com/events'),
    secret: {
      type: 'string',
      title: 'Signing secret',
      description:
        'Signing secret of Standard Webhooks: `whsec_` and the base64 of 24 to 64 bytes. Made, and shown once, when absent.',
      writeOnly: true,
      maxLength: 100,
      pattern: SECRET_PATTERN,
    },
    rotation_hours: {
      type: 'integer',
      title: 'Hours both secrets sign',
      description:
        'How long a signing secret that is replaced signs beside the new one. 0: not at all, as after a leak, which also ends what signs beside it now.',
      minimum: 0,
      maximum: MAX_ROTATION_HOURS,
      default: DEFAULT_ROTATION_HOURS,
    },
    previous_secrets: {
      type: 'array',
      title: 'Replaced signing secrets',
      description:
        'Signing secrets that sign beside the present one until their time. Kept when the secret is replaced; `null` ends them at once.',
      writeOnly: true,
      maxItems: MAX_PREVIOUS,
      items: {
        type: 'object',
        required: ['secret', 'until'],
        additionalProperties: false,
        properties: {
          secret: { type: 'string', maxLength: 100, pattern: SECRET_PATTERN },
          until: { type: 'string', maxLength: 40, pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{5,16}Z$' },
        },
      },
    },
    rotation_until: {
      type: 'string',
      title: 'End of the rotation',
      description:
        'When the last replaced secret ceases to sign. Set with them; what is stated here is not used.',
      readOnly: true,
      maxLength: 40,
    },
    headers: {
      type: 'object',
      title: 'Request headers',
      description:
        'Further request headers, for example `authorization`. Not those of the connection, `content-type`, `idempotency-key` or `webhook-*`.',
      writeOnly: true,
      examples: [{ authorization: 'Bearer your-token' }],
      maxProperties: 50,
      propertyNames: { type: 'string', maxLength: 256, pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$" },
      additionalProperties: { type: 'string', maxLength: 4096, pattern: '^[\\t -~]*$' },
    },
    batch_size: {
      type: 'integer',
      title: 'Deliveries a request',
      description: 'Deliveries one request takes at most; above 1 the body is always a batch.',
      minimum: 1,
      maximum: MAX_BATCH,
      default: 1,
    },
  },
} as const satisfies JsonObject;

/** The settings as the connector uses them. */
interface WebhookSettings {
  readonly url: URL;
  readonly secret: string;
  /** The key of `secret`. */
  readonly key: KeyObject;
  /** Replaced secrets that may still sign, newest first. */
  readonly previous: readonly (PreviousSecret & { readonly key: KeyObject })[];
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly batchSize: number;
}

/** Undefined for settings that `settingsSchema` or `settingsFaults` refuse. */
export const readSettings = memoizeByObject((settings: JsonObject): WebhookSettings | undefined => {
  if (settingsFaults(settings).length > 0) return undefined;
  const { secret, headers = {}, batch_size: batchSize = 1 } = settings;
  const url = typeof settings.url === 'string' ? URL.parse(settings.url) : null;
  if (url === null || typeof secret !== 'string' || typeof headers !== 'object') return undefined;
  if (typeof batchSize !== 'number' || !(batchSize >= 1)) return undefined;
  const pairs = Object.entries(headers ?? {}).map(([name, value]) => [name, String(value)] as const);
  return {
    url,
    secret,
    key: keyOf(secret),
    previous: previousSecrets(settings).map((one) => ({ ...one, key: keyOf(one.secret) })),
    headers: pairs,
    batchSize: Math.min(Math.floor(batchSize), MAX_BATCH),
  };
});

/** Checks that JSON Schema cannot express. Paths are JSON pointers below the settings. */
export function settingsFaults(settings: JsonObject): readonly { path: string; message: string }[] {
  const faults = [...urlFaults(settings.url, 'headers')];
  if (typeof settings.secret === 'string' && !isSecret(settings.secret)) {
    faults.push({ path: '/secret', message: 'must be whsec_ and the base64 of 24 to 64 bytes' });
  }
  return [...faults, ...previousFaults(settings.previous_secrets), ...headerFaults(settings.headers)];
}

function previousFaults(previous: JsonObject[string] | undefined) {
  const stated = Array.isArray(previous) ? previous.length : 0;
  return previousSecrets({ previous_secrets: previous ?? [] }).length === stated
    ? []
    : [
        {
          path: '/previous_secrets',
          message: 'must each be whsec_ and the base64 of 24 to 64 bytes, and a time',
        },
      ];
}

function headerFaults(headers: JsonObject[string] | undefined): readonly { path: string; message: string }[] {
  if (typeof headers !== 'object' || headers === null) return [];
  const seen = new Set<string>();
  return Object.keys(headers).flatMap((name) => {
    const lower = name.toLowerCase();
    const message = headerFault(name) ?? (seen.has(lower) ? 'is given twice' : undefined);
    seen.add(lower);
    const pointer = name.replaceAll('~', '~0').replaceAll('/', '~1');
    return message === undefined ? [] : [{ path: `/headers/${pointer}`, message }];
  });
}

/** The settings with a generated signing secret where they have none. */
export function withSecret(settings: JsonObject, random: (bytes: number) => Uint8Array): JsonObject {
  if (settings.secret !== undefined) return settings;
  return { ...settings, secret: formatSecret(random(SECRET_BYTES)) };
}

/** Headers of the connection and the framing, which the HTTP client sets. */
const TRANSPORT = new Set([
  'connection',
  'content-encoding',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Headers that this connector sets. */
const OURS = new Set(['content-type', 'idempotency-key']);

/** Why users must not set a header; undefined where they may. */
function headerFault(name: string): string | undefined {
  const lower = name.toLowerCase();
  if (TRANSPORT.has(lower)) return 'must not be set: it belongs to the connection';
  if (OURS.has(lower) || lower.startsWith('webhook-'))
    return 'must not be set: every message carries its own';
  return undefined;
}

const description: ConnectorDescription = {
  type: 'webhook',
  title: 'Webhook',
  description: [
    'Sends each delivery as an HTTP POST of JSON, signed as [Standard Webhooks](https://www.standardwebhooks.com) says. Its headers are `webhook-id`, `webhook-timestamp` and `webhook-signature`.',
    'The body is `{ "id", "type": "event", "event", "rule_id", "destination_id", "attempt" }`. With a `batch_size` above 1 it is `{ "type": "batch", "deliveries": [<such bodies>] }`, whose response applies to all of them.',
    'A batch that is refused with 500 or a 4xx (except 401, 402, 403, 404, 405, 407, 410 and 415, which are about the destination) is sent again at once in parts, each in the form of a batch: only a delivery that is refused alone is dead, or retried after a 500; those not sent within 10 seconds are retried. A destination that accepted some deliveries of a refused batch receives them again, under the same `id`.',
    'A `secret` that is replaced continues to sign for `rotation_hours` (24 by default): `webhook-signature` holds the new signature first and, after a space, that of each replaced secret. `"previous_secrets": null`, or `"rotation_hours": 0`, ends it at once.',
    'The connection test sends `{ "id", "type": "test", "workspace_id", "destination_id" }`, signed alike, and accepts any 2xx.',
    'A delivery may arrive more than once, always with the same `id`, also in a replay without `new_ids`; `webhook-id` and `idempotency-key` repeat it (of a batch: an id made from the ids in it).',
    'The status line decides, and must arrive within 10 seconds. 2xx is delivered; 429, and 503 with `Retry-After`, set the pace of the destination; 408, 425, other 5xx, a timeout and a broken connection are retried; a 410 pauses the destination; anything else is dead, also redirects. The first kilobyte of the response is kept for display, without the secret and the values of `headers`.',
    'Private and other special addresses are refused, also behind a name, unless the operator allows them (`TRIBUTARY_EGRESS_ALLOW`).',
  ].join('\n\n'),
  settingsSchema,
  secrets: secretNames(settingsSchema),
  harmless: ['batch_size', 'rotation_hours', 'rotation_until'],
  maxBatch: MAX_BATCH,
  hasTest: true,
  generate: withSecret,
  rotation: { previous: 'previous_secrets', rotated },
  check: settingsFaults,
};

export const webhook: ConnectorKind = { description, create: createWebhookConnector };

const secretsOf = memoizeByObject((settings: WebhookSettings) => [
  ...settings.previous.map(({ secret }) => secret),
  ...secretTexts(settings),
]);

function createWebhookConnector(context: ConnectorContext): Connector {
  const { clock } = context;

  const send = async (
    agent: Agent,
    settings: WebhookSettings,
    compose: () => HttpRequest,
    call: ConnectorCall,
  ): Promise<PartResult> => {
    const result = await resultOf(agent, compose, call, { secrets: secretsOf(settings), clock });
    return { result, mayBeSplit: mayConcernSome(result) };
  };

  return createClientConnector<WebhookSettings, Agent>(context, {
    readSettings,
    limits: ({ batchSize }) => ({ events: batchSize }),
    ...httpClient(context),

    send: (agent, settings, batch, call) =>
      sendInParts(batch, {
        send: (part) => {
          const traceparent = part.map(call.traceparentOf).find((context) => context !== undefined);
          return send(agent, settings, () => composeMessage(settings, part, clock(), traceparent), call);
        },
        hasTimeToHalve: call.hasTimeToHalve,
      }),

    async test(agent, settings, call) {
      const message = composeTest(settings, newId(), call.destination, clock());
      const { result } = await send(agent, settings, () => message, call);
      return { ...testResultOf(result), request: requestText(message, settings) };
    },
  });
}

const USER_AGENT = `tributary/${manifest.version}`;

/**
 * The signed request of some deliveries. `now` is epoch ms and becomes the signed timestamp. A request of several
 * deliveries continues the trace of the first that is sampled.
 */
export function composeMessage(
  settings: WebhookSettings,
  deliveries: Part,
  now: number,
  traceparent?: string,
): HttpRequest {
  const batch = settings.batchSize > 1;
  const id = batch ? nameId(...deliveries.map((delivery) => delivery.id)) : deliveries[0].id;
  const body = batch
    ? `{"type":"batch","deliveries":[${deliveries.map(deliveryJson).join(',')}]}`
    : deliveryJson(deliveries[0]);
  const message = signed(settings, id, body, now);
  const { replay } = deliveries[0];
  if (replay !== undefined && deliveries.every((delivery) => delivery.replay === replay))
    message.headers.push('tributary-replay', replay);
  // A header of the settings goes before.
  if (traceparent !== undefined && !message.headers.includes('traceparent'))
    message.headers.push('traceparent', traceparent);
  return message;
}

/** The signed request of a connection test with its own `id`. */
function composeTest(
  settings: WebhookSettings,
  id: string,
  { id: destination_id, workspaceId: workspace_id }: ConnectorDestination,
  now: number,
): HttpRequest {
  return signed(settings, id, JSON.stringify({ id, type: 'test', workspace_id, destination_id }), now);
}

function signed(settings: WebhookSettings, id: string, text: string, now: number): HttpRequest {
  const body = Buffer.from(text);
  const timestamp = String(Math.floor(now / 1_000));
  const signing = [
    settings.key,
    ...settings.previous.filter(({ until }) => until > now).map(({ key }) => key),
  ];
  // The current secret's signature first, then those of replaced secrets: a receiver accepts any.
  const signature = signing.map((key) => signatureOf(key, `${id}.${timestamp}.`, body)).join(' ');
  const own = ['idempotency-key', id, 'webhook-id', id, 'webhook-timestamp', timestamp];
  const headers = [...standingHeaders(settings), ...own, 'webhook-signature', signature];
  return { method: 'POST', url: settings.url, headers, body };
}

const MASKED = '********';

/** A request as text for people. The values of the headers that the settings state are masked: they are secret. */
function requestText(
  { method, url, headers, body = '' }: HttpRequest,
  { headers: stated }: Pick<WebhookSettings, 'headers'>,
): string {
  const secret = new Set(stated.map(([name]) => name.toLowerCase()));
  const lines = [`${method} ${url.href}`];
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] ?? '';
    lines.push(`${name}: ${secret.has(name) && name !== 'content-type' ? MASKED : headers[at + 1]}`);
  }
  return [...lines, '', Buffer.from(body).toString()].join('\n');
}

/** The headers of all messages to a destination; its settings may replace the user agent. */
const standingHeaders = memoizeByObject(({ headers }: WebhookSettings): readonly string[] => {
  const standing = new Map([['user-agent', USER_AGENT]]);
  for (const [name, value] of headers) standing.set(name.toLowerCase(), value);
  standing.set('content-type', 'application/json');
  return [...standing].flat();
});

const PREFIX = 'whsec_';
const MIN_BYTES = 24;
const MAX_BYTES = 64;

/** Bytes of a generated secret. */
const SECRET_BYTES = 32;

/** The Standard Webhooks form of a signing secret: the prefix and the key in base64. */
function formatSecret(key: Uint8Array): string {
  return PREFIX + Buffer.from(key).toString('base64');
}

/** Whether a text is the prefix and the canonical base64 of 24 to 64 bytes. */
function isSecret(text: string): boolean {
  const key = Buffer.from(text.slice(PREFIX.length), 'base64');
  return formatSecret(key) === text && key.length >= MIN_BYTES && key.length <= MAX_BYTES;
}

/** The key of a secret. Signing with a key object costs a fifth of signing with bytes. */
function keyOf(secret: string): KeyObject {
  return createSecretKey(secret.slice(PREFIX.length), 'base64');
}

/** The Standard Webhooks signature of `<id>.<timestamp>.` and the body, version 1: HMAC-SHA256 in base64. */
function signatureOf(key: KeyObject, start: string, body: Uint8Array): string {
  return `v1,${createHmac('sha256', key).update(start).update(body).digest('base64')}`;
}

const HOUR_MS = 3_600_000;

/** A replaced secret and the time until which it signs, epoch ms. */
interface PreviousSecret {
  readonly secret: string;
  readonly until: number;
}

/** The well-formed replaced secrets of settings. */
function previousSecrets(settings: JsonObject): readonly PreviousSecret[] {
  const { previous_secrets: previous } = settings;
  return Array.isArray(previous) ? previous.flatMap(previousSecret) : [];
}

function previousSecret(value: Json): readonly PreviousSecret[] {
  if (typeof value !== 'object' || value === null || !('secret' in value)) return [];
  const { secret, until } = value;
  if (typeof secret !== 'string' || !isSecret(secret) || typeof until !== 'string') return [];
  const at = Date.parse(until);
  return Number.isNaN(at) ? [] : [{ secret, until: at }];
}

/**
 * The settings to store after a change: a replaced secret keeps signing beside the new one for `rotation_hours`, and
 * expired ones are removed. With 0 hours all replaced secrets are removed.
 */
export function rotated(before: JsonObject, after: JsonObject, now: number): JsonObject {
  const { previous_secrets: _, rotation_until: __, ...settings } = after;
  const { rotation_hours: hours = DEFAULT_ROTATION_HOURS, secret } = settings;
  const overlapMs = typeof hours === 'number' ? hours * HOUR_MS : 0;
  if (overlapMs <= 0) return settings;
  const isReplaced = typeof before.secret === 'string' && before.secret !== secret;
  const replaced = isReplaced ? [{ secret: String(before.secret), until: now + overlapMs }] : [];
  const kept = [...replaced, ...previousSecrets(after)]
    .filter((one, at, all) => one.until > now && one.secret !== secret && isFirst(one, at, all))
    .slice(0, MAX_PREVIOUS);
  if (kept.length === 0) return settings;
  return {
    ...settings,
    previous_secrets: kept.map((one) => ({ secret: one.secret, until: new Date(one.until).toISOString() })),
    rotation_until: new Date(Math.max(...kept.map(({ until }) => until))).toISOString(),
  };
}

function isFirst({ secret }: PreviousSecret, at: number, all: readonly PreviousSecret[]): boolean {
  return all.findIndex((other) => other.secret === secret) === at;
}
