import { type ConnectorDescription, type JsonObject, namesParty } from '@tributary/core';
import { createSettingsReader, type SettingsFault, secretNames } from '../settings.ts';

/** Deliveries of one object at most. */
const MAX_BATCH = 10_000;

/** The settings as users write them. */
const settingsSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  required: ['bucket', 'access_key_id', 'secret_access_key'],
  additionalProperties: false,
  properties: {
    endpoint: {
      type: 'string',
      title: 'Endpoint',
      description:
        'Where an S3-compatible service answers: an absolute http or https URL. Absent: AWS in the region. The name must stand for a public address.',
      examples: ['https://s3.example.com'],
      maxLength: 2_048,
      pattern: '^[hH][tT][tT][pP][sS]?://[^?#@]+$',
    },
    region: {
      type: 'string',
      title: 'Region',
      description: 'The region of the bucket; services other than AWS often take any.',
      default: 'us-east-1',
      pattern: '^[a-z0-9-]{1,40}$',
    },
    bucket: {
      type: 'string',
      title: 'Bucket',
      description: 'The bucket to write to; it must be there.',
      examples: ['customer-events'],
      pattern: '^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$',
    },
    prefix: {
      type: 'string',
      title: 'Prefix',
      description: 'What the name of every object begins with, a `/` after it.',
      examples: ['tributary/production'],
      default: 'tributary',
      pattern: '^[A-Za-z0-9_=-][A-Za-z0-9_=.-]{0,99}(/[A-Za-z0-9_=-][A-Za-z0-9_=.-]{0,99}){0,7}$',
    },
    path_style: {
      type: 'boolean',
      title: 'Bucket in the path',
      description:
        'Name the bucket in the path instead of the host name, as many services other than AWS ask for.',
      default: false,
    },
    access_key_id: {
      type: 'string',
      title: 'Access key id',
      description: 'Of a key that may put objects below the prefix.',
      minLength: 1,
      maxLength: 200,
      pattern: '^[\\x21-\\x7e]+$',
    },
    secret_access_key: {
      type: 'string',
      title: 'Secret access key',
      description: 'The secret of that key.',
      writeOnly: true,
      minLength: 1,
      maxLength: 200,
      pattern: '^[\\x21-\\x7e]+$',
    },
    batch_size: {
      type: 'integer',
      title: 'Deliveries an object',
      description: 'Deliveries that one object holds at most.',
      minimum: 1,
      maximum: MAX_BATCH,
      default: 1_000,
    },
    batch_seconds: {
      type: 'integer',
      title: 'Seconds an object',
      description:
        'How long the first delivery of an object may wait for others; never longer than the shortest step of retries.',
      minimum: 0,
      maximum: 60,
      default: 5,
    },
  },
} as const satisfies JsonObject;

/** The type of the schema above. */
export interface S3Settings {
  readonly endpoint?: string;
  readonly region: string;
  readonly bucket: string;
  readonly prefix: string;
  readonly path_style: boolean;
  readonly access_key_id: string;
  readonly secret_access_key: string;
  readonly batch_size: number;
  readonly batch_seconds: number;
}

/** Checks that JSON Schema cannot express. Paths are JSON pointers below the settings. */
function settingsFaults({ endpoint }: JsonObject): readonly SettingsFault[] {
  if (typeof endpoint !== 'string' || URL.parse(endpoint) !== null) return [];
  return [{ path: '/endpoint', message: 'must be an absolute URL' }];
}

export const readSettings = createSettingsReader<S3Settings>(settingsSchema, settingsFaults);

export const description: ConnectorDescription = {
  type: 's3',
  title: 'S3 objects',
  description: [
    'Puts a batch of deliveries as one object of lines of JSON, gzip-compressed: `<prefix>/<YYYY>/<MM>/<DD>/<HH>/<id>.ndjson.gz`. A line is `{ "id", "type": "event", "event", "rule_id", "destination_id", "attempt" }`. For AWS and compatible services.',
    'The key is derived from the deliveries in the object: the hour (UTC) is that of the oldest, the id is made from their ids. The same deliveries sent again replace their object instead of adding one. After a crash, or where the put takes longer than half a second and another process continues, they may be sent in another batch, and then a delivery is in two objects, under the same `id`; with a `batch_size` of 1 it is always in one.',
    '429, 5xx and a broken connection are retried. An object that is refused because of its size or its content is put again in parts, where the bucket accepts others (which is tested with an empty object under the key of the connection test). A bucket that does not exist, refused credentials and a missing permission are dead; so are redirects to another region.',
    'The connection test puts an empty object, `<prefix>/.connection-test`, the same every time.',
  ].join('\n\n'),
  settingsSchema,
  secrets: secretNames(settingsSchema),
  // The bucket is part of the host name unless it is in the path.
  exposing: namesParty('endpoint', 'region', 'bucket', 'path_style', 'access_key_id'),
  maxBatch: MAX_BATCH,
  hasTest: true,
  check: settingsFaults,
};
