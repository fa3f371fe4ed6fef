import type { Connector, ConnectorDescription, JsonObject } from '@tributary/core';
import {
  type ColumnTypes,
  columnsText,
  createRowConnector,
  createTableField,
  databaseField,
  MAX_ROWS,
  type RowErrors,
} from '../client/rows.ts';
import { codeOf, RESET } from '../failures.ts';
import type { ConnectorContext, ConnectorKind } from '../kind.ts';
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
import type { PostgresSettings } from './client.ts';

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
    host: hostField('The PostgreSQL server (12 or newer).'),
    port: portField(5432),
    tls: tlsField,
    ca: caField,
    database: databaseField,
    username: usernameField,
    password: passwordField,
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
    'A batch that some rows cause to be refused (a value, a constraint, a policy, a trigger) is sent again in parts at once: a row that is refused alone is dead with the SQLSTATE and the message of the server, or retried where the SQLSTATE is transient (classes 08, 25, 40, 53, 55, 57, 58, F0, HV, XX). A server that is unreachable, starting, full or read-only, and a broken connection are retried. A wrong password, a missing permission or database, and a table that does not fit are dead; so is a server that asks for the password in clear without TLS, or for fewer than 4,096 or more than 100,000 iterations of SCRAM.',
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

/** The SQLSTATE of an error of the server; undefined for any other error. */
function sqlStateOf(error: unknown): string | undefined {
  const code = codeOf(error);
  const severe = error instanceof Error && 'severity' in error;
  return severe && code !== undefined && /^[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

/**
 * Classes of SQLSTATEs about the server: resources, operator intervention, system errors; and, unless a trigger raised
 * them, credentials and database. https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
const ABOUT_THE_SERVER = /^(53|57P|58)/;
const ABOUT_SIGNING_IN = /^(28|3D)/;

export const ERRORS: RowErrors = {
  codeOf: sqlStateOf,
  tableMissing: '42P01',
  tableThere: ['23505', '42P07', '42710'],
  mayConcernRows(error) {
    const sqlState = sqlStateOf(error);
    if (sqlState === undefined || ABOUT_THE_SERVER.test(sqlState)) return false;
    const { severity } = error as { readonly severity?: unknown };
    // Errors that end the connection have another severity.
    return severity === 'ERROR' || !ABOUT_SIGNING_IN.test(sqlState);
  },
  aboutTheRate: ['53300', '53400'],
  refusals: [
    ['28', 'not authenticated'],
    ['42501', 'permission denied'],
    ['42P01', 'the table is not there'],
    ['3D', 'the database is not there'],
    ['3F', 'the schema is not there'],
    ['42', 'the table does not fit'],
    ['22', 'a value is not taken'],
    ['23', 'a constraint is violated'],
    ['44', 'a check option is violated'],
    ['54000', 'a value is not taken'],
  ],
  refusalsOfRows: [
    ['42501', 'a policy refuses the row'],
    ['P0', 'a trigger refuses the row'],
    ['22', 'a value is not taken'],
    ['23', 'a constraint is violated'],
    ['44', 'a check option is violated'],
    ['54', 'a value is not taken'],
  ],
  // Connections, transactions, resources, locks, operator intervention, system, internal errors.
  transient: /^(08|25|40|53|55|57|58|F0|HV|XX)/,
  driver: [
    [/^Connection terminated|^Client has encountered a connection error/, RESET],
    [/^timeout e/, { outcome: 'retry', reason: 'connection timed out' }],
    [/does not support SSL/, { outcome: 'dead', reason: 'the server speaks no TLS' }],
    [/SSL connection$/, { outcome: 'retry', reason: 'no TLS connection' }],
    [/SASL|SCRAM|password must be/, { outcome: 'dead', reason: 'not authenticated' }],
  ],
};
