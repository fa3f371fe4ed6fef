import type { JsonObject, WarehouseLimits } from '@tributary/core';
import type { SettingsOf } from '../../settings.ts';
import { caField, hostField, passwordField, portField, tlsField, usernameField } from '../../settings.ts';
import { loadFields, placeText, warehouseSettings } from '../kind.ts';
import { DECIMAL } from './sql.ts';

/** Letters of a name: tables and columns are files, whose names have 255 bytes with those of the database and of a UUID. */
const NAME_LENGTH = 127;
const DATABASE_LENGTH = 63;

const LIMITS: WarehouseLimits = {
  nameLength: NAME_LENGTH,
  numeric: { whole: DECIMAL.precision - DECIMAL.scale, fraction: DECIMAL.scale },
  years: { first: 1900, last: 2299 },
  textBytes: undefined,
  holdsZero: true,
  // More are possible, but each column is a file of each part, and each merge of parts reads all of them.
  columns: 1_500,
  rowValues: undefined,
  batchBytes: 16 * 1_024 * 1_024,
};

/** The settings as users write them. */
const settingsSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  required: ['host'],
  additionalProperties: false,
  properties: {
    host: hostField('The ClickHouse server, or the service of ClickHouse Cloud.'),
    port: { ...portField(8443), description: 'Its port for HTTP: usually 8443 with TLS, 8123 without.' },
    tls: tlsField,
    ca: caField,
    database: {
      type: 'string',
      title: 'Database',
      description: placeText('database'),
      minLength: 1,
      maxLength: DATABASE_LENGTH,
      pattern: '^[^\\u0000]+$',
    },
    username: { ...usernameField, default: 'default' },
    password: passwordField,
    ...loadFields,
  },
} as const satisfies JsonObject;

/** The type of the schema above. */
export type ClickHouseSettings = SettingsOf<typeof settingsSchema>;

export const clickhouse = warehouseSettings<ClickHouseSettings>({
  limits: LIMITS,
  type: 'warehouse-clickhouse',
  title: 'ClickHouse (warehouse)',
  description: [
    'Loads events and profiles into tables of ClickHouse as Segment and RudderStack lay them out.',
    'ClickHouse has no transaction over tables: the rows of a batch appear table by table, and then its row of `_tributary_loads`. A batch that was cut off is loaded again, and rows whose `id` is there are left alone, so no query counts a row twice, also without `FINAL`. `users` and `identity_map` are views of the newest versions in `_tributary_users` and `_tributary_identity_map`.',
    `Columns are \`Bool\`, \`Int64\`, \`Decimal(${DECIMAL.precision}, ${DECIMAL.scale})\`, \`Float64\` for numbers beyond, \`DateTime64(6, 'UTC')\` and \`String\` (also for JSON, whose numbers keep their digits there), all \`Nullable\`, and are widened before the load that needs it. A column that cannot be changed (a key, an index, a constraint, a missing right) stays as it is: values that it does not hold are in \`_unmapped\` and \`discards\`. Times before 1900 or after 2299 are texts.`,
    'Tables are `MergeTree` in the order of `received_at`, with a projection by which ids are found. Rows that a constraint refuses are discarded alone, with its reason; a materialized view that fails does not hold up the load.',
    'The database must be of the engine Atomic (the usual one), Replicated with one shard, or that of ClickHouse Cloud. The user needs `CREATE DATABASE` (only where it is missing), `CREATE TABLE`, `CREATE VIEW`, `DROP TABLE`, `DROP VIEW`, `ALTER`, `SELECT` and `INSERT` in it. The connection test makes and removes a table. Needs ClickHouse 24.3 or newer.',
  ].join('\n\n'),
  settingsSchema,
  harmless: ['database', 'load_every', 'max_event_tables'],
  place: { setting: 'database', length: DATABASE_LENGTH },
  safestFirst: { tls: [true, false] },
});
