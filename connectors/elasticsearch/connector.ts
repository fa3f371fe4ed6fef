import {
  type ConnectionTest,
  type Connector,
  type ConnectorDescription,
  canonicalTime,
  type DeliveryResult,
  isObject,
  type Json,
  type JsonObject,
  newId,
  objectIn,
} from '@tributary/core';
import type { Agent } from 'undici';
import {
  type ConnectorCall,
  createClientConnector,
  type Part,
  sendInParts,
} from '../client/client-connector.ts';
import { deliveryBody } from '../delivery-body.ts';
import { testResultOf } from '../failures.ts';
import {
  excerptOf,
  type HttpRequest,
  httpClient,
  mayConcernSome,
  resultOf,
  secretTexts,
} from '../http/client.ts';
import type { ConnectorContext, ConnectorKind } from '../kind.ts';
import type { SettingsOf } from '../settings.ts';
import {
  createSettingsReader,
  memoizeByObject,
  passwordField,
  type SettingsFault,
  secretNames,
  urlFaults,
  urlField,
  usernameField,
} from '../settings.ts';

/** Deliveries of one batch at most. */
const MAX_BATCH = 500;

/** The settings as users write them. */
const settingsSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  required: ['url', 'index'],
  additionalProperties: false,
  properties: {
    url: {
      ...urlField('Where the cluster answers', 'https://search.example.com:9243'),
      pattern: '^[hH][tT][tT][pP][sS]?://[^?#]+$',
    },
    index: {
      type: 'string',
      title: 'Index',
      description: 'The index, alias or data stream to write to.',
      examples: ['customer-events'],
      pattern: '^[a-z0-9][a-z0-9._-]{0,199}$',
    },
    api_key: {
      type: 'string',
      title: 'API key',
      description: 'The encoded form of an API key; in place of a user and a password.',
      writeOnly: true,
      maxLength: 1_024,
      pattern: '^[A-Za-z0-9+/_=-]+$',
    },
    username: usernameField,
    password: passwordField,
  },
} as const satisfies JsonObject;

/** The type of the schema above. */
type ElasticsearchSettings = SettingsOf<typeof settingsSchema>;

/** Checks that JSON Schema cannot express. Paths are JSON pointers below the settings. */
function settingsFaults(settings: JsonObject): readonly SettingsFault[] {
  const { url, username, password, api_key } = settings;
  const faults = [...urlFaults(url, 'username and password')];
  if (password !== undefined && username === undefined) {
    faults.push({ path: '/username', message: 'is required with a password' });
  }
  if (api_key !== undefined && username !== undefined) {
    faults.push({ path: '/api_key', message: 'must not be given beside a user' });
  }
  return faults;
}

const readSettings = createSettingsReader<ElasticsearchSettings>(settingsSchema, settingsFaults);

const description: ConnectorDescription = {
  type: 'elasticsearch',
  title: 'Elasticsearch',
  description: [
    'Writes each delivery as one document, a batch of deliveries by one `_bulk` request. Works with OpenSearch as well. The document is `{ "@timestamp", "id", "type": "event", "event", "rule_id", "destination_id", "attempt" }`; `@timestamp` is the timestamp of the event.',
    'The `_id` is the id of the delivery, and documents are only created: a delivery is one document, however often it is sent (in a data stream: within its newest index).',
    'Each document has its own result: one that the mapping refuses is dead while the others are written. 429, also of single documents, sets the pace of the destination; 5xx, a broken connection and an incomplete response are retried; other 4xx, such as a missing index, are dead.',
    'The connection test updates a document that does not exist, and writes nothing.',
  ].join('\n\n'),
  settingsSchema,
  secrets: secretNames(settingsSchema),
  harmless: ['index'],
  maxBatch: MAX_BATCH,
  hasTest: true,
  check: settingsFaults,
};

export const elasticsearch: ConnectorKind = { description, create: createElasticsearchConnector };

const LIMITS = { events: MAX_BATCH, bytes: 5 * 1_024 * 1_024 };
/** Bounds of a response; one that refuses every document at length is shorter. */
const RESPONSE_BYTES = 64 * 1_024;
const RESPONSE_BYTES_AN_ITEM = 8 * 1_024;
const MAX_RESPONSE_BYTES = RESPONSE_BYTES + MAX_BATCH * RESPONSE_BYTES_AN_ITEM;

function createElasticsearchConnector(context: ConnectorContext): Connector {
  /** The items of the response, or one result for all deliveries. */
  const sendBulk = (
    agent: Agent,
    request: HttpRequest,
    count: number,
    secrets: readonly string[],
    call: ConnectorCall,
  ) =>
    resultOf<readonly BulkItem[]>(agent, () => request, call, {
      secrets,
      clock: context.clock,
      keptBytes: RESPONSE_BYTES + count * RESPONSE_BYTES_AN_ITEM,
      read({ status, whole, start }) {
        if (status !== 200) return undefined;
        return (whole ? itemsIn(start, count) : undefined) ?? { ...NOT_WHOLE, status };
      },
    });

  return createClientConnector<ElasticsearchSettings, Agent>(context, {
    readSettings,
    limits: () => LIMITS,
    ...httpClient(context, 2 * MAX_RESPONSE_BYTES),

    async send(agent, settings, batch, call) {
      const secrets = secretsOf(settings);
      const byItem = new Map<string, DeliveryResult>();
      const results = await sendInParts(batch, {
        async send(part) {
          const response = await sendBulk(agent, createAll(settings, part), part.length, secrets, call);
          if (!isItems(response)) return { result: response, mayBeSplit: mayConcernSome(response) };
          part.forEach(({ id }, index) => {
            byItem.set(id, classifyItem(response[index] ?? NO_ITEM, secrets));
          });
          return { result: { outcome: 'delivered', status: 200 }, mayBeSplit: false };
        },
        hasTimeToHalve: call.hasTimeToHalve,
      });
      return batch.map(({ id }, index) => byItem.get(id) ?? results[index] ?? NOT_WHOLE);
    },

    async test(agent, settings, call) {
      const secrets = secretsOf(settings);
      const response = await sendBulk(agent, changeNothing(settings, newId()), 1, secrets, call);
      return isItems(response) ? testResultOfItem(response[0] ?? NO_ITEM, secrets) : testResultOf(response);
    },
  });
}

const NO_ITEM: BulkItem = { status: 0, type: undefined, reason: undefined };
const NOT_WHOLE: DeliveryResult = { outcome: 'retry', reason: 'the answer is not whole' };

function isItems(response: readonly BulkItem[] | DeliveryResult): response is readonly BulkItem[] {
  return Array.isArray(response);
}

const secretsOf = memoizeByObject((settings: ElasticsearchSettings) => {
  const authorization = authorizationOf(settings);
  const headers = authorization === undefined ? [] : [['authorization', authorization] as const];
  return secretTexts({ secret: settings.password ?? settings.api_key ?? '', headers });
});

/** The fields of the response that are requested. */
const FILTER = 'items.*.status,items.*.error.type,items.*.error.reason,error';

/** A `_bulk` request that creates a document for each delivery. */
function createAll(settings: ElasticsearchSettings, deliveries: Part): HttpRequest {
  const lines = deliveries.map((delivery) => {
    const { timestamp } = delivery.event;
    const document = { '@timestamp': canonicalTime(timestamp) ?? timestamp, ...deliveryBody(delivery) };
    return `${JSON.stringify({ create: { _id: delivery.id } })}\n${JSON.stringify(document)}\n`;
  });
  return bulk(settings, lines.join(''));
}

/** A `_bulk` request that updates a document that does not exist: it writes nothing and needs the same permission. */
function changeNothing(settings: ElasticsearchSettings, id: string): HttpRequest {
  return bulk(settings, `${JSON.stringify({ update: { _id: id } })}\n{"doc":{}}\n`);
}

function bulk(settings: ElasticsearchSettings, body: string): HttpRequest {
  const url = new URL(settings.url);
  url.pathname = `${url.pathname.replace(/\/$/, '')}/${settings.index}/_bulk`;
  url.search = `?filter_path=${FILTER}`;
  return { method: 'POST', url, headers: headersOf(settings), body };
}

function headersOf(settings: ElasticsearchSettings): string[] {
  const authorization = authorizationOf(settings);
  const headers = ['content-type', 'application/x-ndjson', 'accept', 'application/json'];
  return authorization === undefined ? headers : [...headers, 'authorization', authorization];
}

function authorizationOf({ api_key, username, password }: ElasticsearchSettings): string | undefined {
  if (api_key !== undefined) return `ApiKey ${api_key}`;
  if (username === undefined) return undefined;
  return `Basic ${Buffer.from(`${username}:${password ?? ''}`).toString('base64')}`;
}

const RETRYABLE_STATUSES = new Set([408, 425]);
const TOO_MANY_REQUESTS = 429;
/** The document exists: the delivery was sent before. */
const CONFLICT = 409;

/** The result of one action of a `_bulk` request. */
interface BulkItem {
  readonly status: number;
  readonly type: string | undefined;
  readonly reason: string | undefined;
}

/** The items of a response; undefined for an incomplete response or one with another number of items. */
export function itemsIn(response: Uint8Array, count: number): readonly BulkItem[] | undefined {
  const items = parsed(response)?.items;
  if (!Array.isArray(items) || items.length !== count) return undefined;
  return items.map(itemOf);
}

function parsed(response: Uint8Array): JsonObject | undefined {
  try {
    const value: Json = JSON.parse(new TextDecoder().decode(response));
    return isObject(value) ? value : undefined;
  } catch {
    return undefined; // not a response of Elasticsearch
  }
}

function itemOf(item: Json): BulkItem {
  const action = isObject(item) ? Object.values(item)[0] : undefined;
  const { status, error } = objectIn(action);
  const { type, reason } = objectIn(error);
  return {
    status: typeof status === 'number' ? status : 0,
    type: typeof type === 'string' && /^[a-z_]{1,80}$/.test(type) ? type : undefined,
    reason: typeof reason === 'string' ? reason : undefined,
  };
}

/** The result of a delivery, from its item. `secrets` are masked in the excerpt. */
export function classifyItem({ status, type, reason }: BulkItem, secrets: readonly string[]): DeliveryResult {
  if ((status >= 200 && status < 300) || status === CONFLICT) return { outcome: 'delivered', status };
  const shown = reason === undefined ? {} : { response: excerptOf(Buffer.from(reason), secrets) };
  const passes = RETRYABLE_STATUSES.has(status) || status >= 500 || status === 0;
  const why = type === undefined ? `answered ${status}` : `answered ${status} ${type}`;
  if (status === TOO_MANY_REQUESTS)
    return { outcome: 'retry', throttled: true, reason: why, status, ...shown };
  return { outcome: passes ? 'retry' : 'dead', reason: why, status, ...shown };
}

/** The result of a connection test, from the item of `changeNothing`. */
export function testResultOfItem(item: BulkItem, secrets: readonly string[]): ConnectionTest {
  const { status, type } = item;
  // A data stream refuses every update, after it has authenticated the request.
  const reached = type === 'document_missing_exception' || type === 'illegal_argument_exception';
  if (reached || status < 300) return { ok: true };
  const verdict = classifyItem(item, secrets);
  const { response } = verdict;
  const why = 'reason' in verdict ? verdict.reason : `answered ${status}`;
  return { ok: false, reason: why, status, ...(response === undefined ? {} : { response }) };
}
