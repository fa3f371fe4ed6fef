import { type ConnectorDescription, type JsonObject, namesParty, protects } from '@tributary/core';
import {
  caField,
  createSettingsReader,
  hostField,
  passwordField,
  portField,
  secretNames,
  tlsField,
  usernameField,
} from '../settings.ts';

/** Deliveries of one batch at most. */
export const MAX_BATCH = 500;

/** The settings as users write them. */
const settingsSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  required: ['host', 'stream'],
  additionalProperties: false,
  properties: {
    host: hostField('The Redis server (6.2 or newer), no cluster.'),
    port: portField(6379),
    tls: tlsField,
    ca: caField,
    username: usernameField,
    password: passwordField,
    database: {
      type: 'integer',
      title: 'Database',
      description: 'The number of the database.',
      minimum: 0,
      maximum: 1_000,
      default: 0,
    },
    stream: {
      type: 'string',
      title: 'Stream',
      description: 'Key of the stream; made by the first delivery.',
      examples: ['tributary:events'],
      pattern: '^[\\x21-\\x7e]{1,200}$',
    },
    max_length: {
      type: 'integer',
      title: 'Entries kept',
      description: 'The stream is cut to about so many entries, the oldest first. Absent: it is never cut.',
      minimum: 1_000,
      maximum: 1_000_000_000,
    },
    remember_hours: {
      type: 'integer',
      title: 'Hours to remember',
      description:
        'For so long a delivery that comes again adds no second entry. About 100 bytes of memory for each delivery in that time; 0 remembers none.',
      minimum: 0,
      maximum: 168,
      default: 25,
    },
  },
} as const satisfies JsonObject;

/** The type of the schema above. */
export interface RedisSettings {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
  readonly ca?: string;
  readonly username?: string;
  readonly password?: string;
  readonly database: number;
  readonly stream: string;
  readonly max_length?: number;
  readonly remember_hours: number;
}

export const readSettings = createSettingsReader<RedisSettings>(settingsSchema);

export const description: ConnectorDescription = {
  type: 'redis',
  title: 'Redis stream',
  description: [
    'Adds each delivery as one entry to a stream (`XADD`): the fields `id`, `type`, `message_id` and `body`, which is `{ "id", "type": "event", "event", "rule_id", "destination_id", "attempt" }` as JSON. The entries of a batch are added together by one script.',
    'The same script keeps the ids of the last hours in a sorted set beside the stream, `{<stream>}:delivered`, and skips deliveries whose ids are in it: within `remember_hours` a delivery adds one entry, however often it is sent.',
    'A server that is out of memory or loading its data, a replica and a broken connection are retried. A batch that is refused in any other way is sent again in parts at once: only an entry that is refused alone is dead. A wrong password, a missing permission, a key that is no stream and a server that is part of a cluster are dead.',
    'The connection test signs in, reads the length of the stream and runs the script without entries.',
  ].join('\n\n'),
  settingsSchema,
  secrets: secretNames(settingsSchema),
  exposing: [...namesParty('host', 'port', 'ca', 'username'), protects('tls', true, false)],
  maxBatch: MAX_BATCH,
  hasTest: true,
};
