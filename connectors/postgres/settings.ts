import type { JsonObject } from '@tributary/core';
import { caField, hostField, passwordField, portField, tlsField, usernameField } from '../setting-fields.ts';
import { createSettingsReader } from '../settings-reader.ts';

const NAME = '[A-Za-z_][A-Za-z0-9_]{0,62}';

/** Deliveries of one call at most. */
export const MAX_BATCH = 500;

/** What a user writes. */
export const settingsSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  required: ['host', 'database', 'username'],
  additionalProperties: false,
  properties: {
    host: hostField('The PostgreSQL server (12 or newer).'),
    port: portField(5432),
    tls: tlsField,
    ca: caField,
    database: {
      type: 'string',
      title: 'Database',
      description: 'The name of the database.',
      minLength: 1,
      maxLength: 63,
    },
    username: usernameField,
    password: passwordField,
    table: {
      type: 'string',
      title: 'Table',
      description: 'Where to insert: `table` or `schema.table`, in the case it was made in.',
      default: 'tributary_events',
      pattern: `^${NAME}([.]${NAME})?$`,
    },
    create_table: {
      type: 'boolean',
      title: 'Make the table',
      description: 'Make the table when it is not there.',
      default: true,
    },
  },
} as const satisfies JsonObject;

/** The same as the connector reads it. */
export interface PostgresSettings {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
  readonly ca?: string;
  readonly database: string;
  readonly username: string;
  readonly password?: string;
  readonly table: string;
  readonly create_table: boolean;
}

export const readSettings = createSettingsReader<PostgresSettings>(settingsSchema);
