import type { Connector, ConnectorDescription, JsonObject } from '@tributary/core';
import {
  type ColumnTypes,
  columnsText,
  createRowConnector,
  createTableField,
  MAX_ROWS,
} from '../client/rows.ts';
import type { ConnectorContext, ConnectorKind } from '../kind.ts';
import { createSettingsReader, secretNames } from '../settings.ts';
import type { PostgresSettings } from './client.ts';
import { ERRORS, serverFields } from './server.ts';

const TYPES: ColumnTypes = {
  id: 'uuid',
  text: 'text',
  time: 'timestamptz',
  integer: 'integer',
  json: 'jsonb',
};

const NAME = '[A-Za-z_][A-Za-z0-9_]{0,62}';

/** The settings as users write them. */
const settingsSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  required: ['host', 'database', 'username'],
  additionalProperties: false,
  properties: {
    ...serverFields,
    table: {
      type: 'string',
      title: 'Table',
      description: 'Where to insert: `table` or `schema.table`, in the case it was made in.',
      default: 'tributary_events',
      pattern: `^${NAME}([.]${NAME})?$`,
    },
    create_table: createTableField,
  },
} as const satisfies JsonObject;

const description: ConnectorDescription = {
  type: 'postgres',
  title: 'PostgreSQL',
  description: [
    'Inserts each delivery as one row, a batch in one statement with `on conflict (delivery_id) do nothing`: a delivery is one row, however often it is sent.',
    `The columns are ${columnsText(TYPES)} A table of your own needs these columns and a unique index on \`delivery_id\`; it may have more, with defaults, and \`delivery_id\` may be \`text\`.`,
    'A batch that some rows cause to be refused (a value, a constraint, a policy, a trigger) is sent again in parts: a row that is refused alone is dead with the SQLSTATE and the message, or retried where the SQLSTATE is transient (classes 08, 25, 40, 53, 55, 57, 58, F0, HV, XX). A server that is unreachable, starting, full or read-only, and a broken connection are retried. A wrong password, a missing permission or database, and a table that does not fit are dead; so is a server that asks for the password in clear without TLS, or for fewer than 4,096 or more than 100,000 iterations of SCRAM.',
    'The connection test signs in, creates the table where `create_table` is set, and inserts no rows.',
  ].join('\n\n'),
  settingsSchema,
  secrets: secretNames(settingsSchema),
  harmless: ['database', 'table', 'create_table'],
  safestFirst: { tls: [true, false] },
  maxBatch: MAX_ROWS,
  hasTest: true,
};

export const postgres: ConnectorKind = { description, create: createPostgresConnector };

const readSettings = createSettingsReader<PostgresSettings>(settingsSchema);

export function createPostgresConnector(context: ConnectorContext): Connector {
  return createRowConnector<PostgresSettings>(context, {
    readSettings,
    maxBytes: 8 * 1_024 * 1_024,
    async open(settings, { workspaceId }) {
      const { openTableClient } = await import('./client.ts');
      return openTableClient(context.egress, settings, TYPES, { timeoutMs: context.timeoutMs, workspaceId });
    },
    errors: ERRORS,
  });
}
