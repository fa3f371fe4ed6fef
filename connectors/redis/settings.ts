import type { JsonObject } from '@tributary/core';
import { caField, hostField, passwordField, portField, tlsField, usernameField } from '../setting-fields.ts';
import { createSettingsReader } from '../settings-reader.ts';

/** Deliveries of one call at most. */
export const MAX_BATCH = 500;

/** What a user writes. */
export const settingsSchema = {
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

/** The same as the connector reads it. */
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
