import type { KeyObject } from 'node:crypto';
import { type ConnectorDescription, type JsonObject, namesParty } from '@tributary/core';
import { memoizeByObject, secretNames } from '../settings.ts';
import {
  DEFAULT_ROTATION_HOURS,
  formatSecret,
  isSecret,
  keyOf,
  MAX_PREVIOUS,
  MAX_ROTATION_HOURS,
  type PreviousSecret,
  previousSecrets,
  rotated,
  SECRET_BYTES,
} from './secrets.ts';

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
    url: {
      type: 'string',
      title: 'URL',
      description:
        'Where to POST: an absolute http or https URL without credentials. The name must stand for a public address.',
      examples: ['https://example.com/events'],
      maxLength: 2048,
      pattern: '^[hH][tT][tT][pP][sS]?://',
    },
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
export interface WebhookSettings {
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
  const faults: { path: string; message: string }[] = [];
  if (typeof settings.url === 'string') {
    const url = URL.parse(settings.url);
    const message = url === null ? 'must be an absolute URL' : urlFault(url);
    if (message !== undefined) faults.push({ path: '/url', message });
  }
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

function urlFault(url: URL): string | undefined {
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return 'must be http or https';
  if (url.username !== '' || url.password !== '') return 'must not hold credentials; use headers';
  return undefined;
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

export const description: ConnectorDescription = {
  type: 'webhook',
  title: 'Webhook',
  description: [
    'Sends each delivery as an HTTP POST of JSON, signed as [Standard Webhooks](https://www.standardwebhooks.com) says: any of its libraries verifies the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`.',
    'The body is `{ "id", "type": "event", "event", "rule_id", "destination_id", "attempt" }`. With a `batch_size` above 1 it is `{ "type": "batch", "deliveries": [<such bodies>] }`, whose response applies to all of them.',
    'A batch that is refused with a status that some of its deliveries may have caused (400, 409, 413, 422 and every other 4xx except 401, 402, 403, 404, 405, 407, 410 and 415, which are about the destination; and 500, which receivers return for an event they cannot handle) is sent again at once in parts, halves first and single deliveries when time is short, each in the form of a batch. Only a delivery that is refused alone is dead, or retried after a 500; deliveries that were not sent within the 10 seconds are retried. After a 500 for a batch and for six parts of it in a row, and then for seven single deliveries from all over the batch, nothing more of it is sent. A destination that accepted some deliveries of a batch that it refused receives them again, under the same `id`.',
    'A `secret` that is replaced continues to sign for `rotation_hours` (24 by default): `webhook-signature` holds the signature of the new secret first and, after a space, that of each replaced one, of which a receiver accepts any, also for retries. `rotation_until` shows when that ends. `"previous_secrets": null`, or `"rotation_hours": 0`, ends it at once.',
    'The connection test sends `{ "id", "type": "test", "workspace_id", "destination_id" }`, signed in the same way, and accepts any 2xx.',
    'A delivery may arrive more than once, always with the same `id`, also in a replay without `new_ids`; `webhook-id` and `idempotency-key` repeat it (of a batch: an id made from the ids in it).',
    'The status line decides, and it must arrive within 10 seconds: interim responses (1xx) before it are ignored, and so are faults behind it (long, malformed or repeated headers, an incomplete body). 2xx is delivered; 429, and 503 with `Retry-After`, set the pace of the destination, and the delivery is sent again; 408, 425, other 5xx, a timeout and a broken connection are retried; a 410 pauses the destination, whose deliveries wait until it is resumed; anything else is dead at once, also redirects: they are not followed. The first kilobyte of the response is kept for display, without the secret and the values of `headers`.',
    'Private, loopback, link-local and other special addresses are refused, also behind a name, unless the operator allowed their range (`TRIBUTARY_EGRESS_ALLOW`).',
  ].join('\n\n'),
  settingsSchema,
  secrets: secretNames(settingsSchema),
  exposing: namesParty('url'),
  maxBatch: MAX_BATCH,
  hasTest: true,
  generate: withSecret,
  rotation: { previous: 'previous_secrets', rotated },
  check: settingsFaults,
};
