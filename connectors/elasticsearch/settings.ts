import { type ConnectorDescription, type JsonObject, namesParty } from '@tributary/core';
import {
  createSettingsReader,
  passwordField,
  type SettingsFault,
  secretNames,
  usernameField,
} from '../settings.ts';

/** Deliveries of one batch at most. */
export const MAX_BATCH = 500;

/** The settings as users write them. */
const settingsSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  required: ['url', 'index'],
  additionalProperties: false,
  properties: {
    url: {
      type: 'string',
      title: 'URL',
      description:
        'Where the cluster answers: an absolute http or https URL without credentials. The name must stand for a public address.',
      examples: ['https://search.example.com:9243'],
      maxLength: 2_048,
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
export interface ElasticsearchSettings {
  readonly url: string;
  readonly index: string;
  readonly api_key?: string;
  readonly username?: string;
  readonly password?: string;
}

/** Checks that JSON Schema cannot express. Paths are JSON pointers below the settings. */
function settingsFaults(settings: JsonObject): readonly SettingsFault[] {
  const faults: SettingsFault[] = [];
  const { url, username, password, api_key } = settings;
  if (typeof url === 'string') {
    const parsed = URL.parse(url);
    if (parsed === null) faults.push({ path: '/url', message: 'must be an absolute URL' });
    else if (parsed.username !== '' || parsed.password !== '') {
      faults.push({ path: '/url', message: 'must not hold credentials; use username and password' });
    }
  }
  if (password !== undefined && username === undefined) {
    faults.push({ path: '/username', message: 'is required with a password' });
  }
  if (api_key !== undefined && username !== undefined) {
    faults.push({ path: '/api_key', message: 'must not be given beside a user' });
  }
  return faults;
}

export const readSettings = createSettingsReader<ElasticsearchSettings>(settingsSchema, settingsFaults);

export const description: ConnectorDescription = {
  type: 'elasticsearch',
  title: 'Elasticsearch',
  description: [
    'Writes each delivery as one document, a batch of deliveries by one `_bulk` request. Works with OpenSearch as well. The document is `{ "@timestamp", "id", "type": "event", "event", "rule_id", "destination_id", "attempt" }`; `@timestamp` is the timestamp of the event.',
    'The `_id` of the document is the id of the delivery, and documents are only created: a delivery is one document, however often it is sent, and a written document is never changed. (In a data stream this holds for its newest index.)',
    'Each document has its own result: one that the mapping refuses is dead while the others are written. 429, also of single documents, sets the pace of the destination; 5xx and a broken connection are retried; after an incomplete response all deliveries of its batch are. 401, 403, a missing index that is not created automatically and other 4xx are dead.',
    'The connection test updates a document that does not exist, which needs the same permission and writes nothing.',
  ].join('\n\n'),
  settingsSchema,
  secrets: secretNames(settingsSchema),
  exposing: namesParty('url', 'username'),
  maxBatch: MAX_BATCH,
  hasTest: true,
  check: settingsFaults,
};
