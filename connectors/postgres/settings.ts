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
import { COLUMNS } from './table.ts';

const NAME = '[A-Za-z_][A-Za-z0-9_]{0,62}';

/** Deliveries of one batch at most. */
export const MAX_BATCH = 500;

/** The settings as users write them. */
const settingsSchema = {
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

/** The type of the schema above. */
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

const columns = COLUMNS.map(([name, type]) => `\`${name}\` ${type}`).join(', ');

export const description: ConnectorDescription = {
  type: 'postgres',
  title: 'PostgreSQL',
  description: [
    'Inserts each delivery as one row, a batch in one statement with `on conflict (delivery_id) do nothing`: a delivery is one row, however often it is sent.',
    `The columns are ${columns} and \`inserted_at\`. \`name\` is the event's \`event\`, \`name\` or \`group_id\`; \`event\` is the whole event, with U+FFFD in place of U+0000, which PostgreSQL cannot store. A table of your own needs these columns and a unique index on \`delivery_id\`; it may have more, with defaults, and \`delivery_id\` may be \`text\`.`,
    'When the server refuses a batch, an insert of no rows tests whether the table accepts any row. If it does, some rows caused the refusal (by a value, a constraint, a policy of row-level security, a trigger that raises): the batch is sent again in parts at once, the others are delivered, and a row that is refused alone is dead with the SQLSTATE and the message of the server, or retried where the SQLSTATE is transient (classes 08, 25, 40, 53, 55, 57, 58, F0, HV, XX). A server that is unreachable, starting, full or read-only, and a broken connection are retried. A wrong password, a missing permission or database, and a table that does not fit are dead; so is a server that asks for the password in clear without TLS, or for fewer than 4,096 or more than 100,000 iterations of SCRAM.',
    'The connection test signs in, creates the table where `create_table` is set, and inserts no rows.',
  ].join('\n\n'),
  settingsSchema,
  secrets: secretNames(settingsSchema),
  exposing: [...namesParty('host', 'port', 'ca', 'username'), protects('tls', true, false)],
  maxBatch: MAX_BATCH,
  hasTest: true,
};
