import type { JsonObject, WarehouseLimits } from '@tributary/core';
import type { SettingsOf } from '../../settings.ts';
import { type SettingsFault, urlFaults, urlField } from '../../settings.ts';
import { loadFields, placeText, warehouseSettings } from '../kind.ts';

/** Characters of an identifier. */
const NAME_LENGTH = 255;

const LIMITS: WarehouseLimits = {
  nameLength: NAME_LENGTH,
  // `number(38, 19)`: any integer of 64 bits, and most doubles.
  numeric: { whole: 19, fraction: 19 },
  // A text has 16 MiB, an event less.
  textBytes: undefined,
  holdsZero: false,
  parsesJson: true,
  columns: 1_500,
  rowValues: undefined,
  batchBytes: 16 * 1_024 * 1_024,
};

/** A name as people write it in SQL without quotes. */
const NAME = '^[A-Za-z_][A-Za-z0-9_$]{0,254}$';

/** The settings as users write them. */
const settingsSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  required: ['account', 'username', 'warehouse', 'database'],
  additionalProperties: false,
  properties: {
    account: {
      type: 'string',
      title: 'Account',
      description: 'The account identifier: `<organization>-<account>`, or a locator with its region.',
      examples: ['myorg-analytics', 'xy12345.eu-central-1'],
      pattern: '^[A-Za-z0-9][A-Za-z0-9_.-]{0,250}$',
    },
    url: {
      ...urlField('The server, where it is not `https://<account>.snowflakecomputing.com`', ''),
      examples: ['https://myorg-analytics.privatelink.snowflakecomputing.com'],
    },
    username: {
      type: 'string',
      title: 'User',
      description: 'The user to sign in as, best one of `TYPE = SERVICE`.',
      minLength: 1,
      maxLength: 255,
    },
    private_key: {
      type: 'string',
      title: 'Private key',
      description: 'PEM of the RSA key whose public half is `RSA_PUBLIC_KEY` of the user.',
      writeOnly: true,
      maxLength: 20_000,
      pattern: '^-----BEGIN (?:ENCRYPTED |RSA )?PRIVATE KEY-----',
    },
    private_key_passphrase: {
      type: 'string',
      title: 'Passphrase',
      description: 'The passphrase of the private key, where it has one.',
      writeOnly: true,
      minLength: 1,
      maxLength: 1_024,
    },
    password: {
      type: 'string',
      title: 'Password',
      description: 'The password, for a user without a private key. Snowflake ends these for services.',
      writeOnly: true,
      minLength: 1,
      maxLength: 1_024,
    },
    role: {
      type: 'string',
      title: 'Role',
      description: 'The role to load with. Absent: the default role of the user.',
      pattern: NAME,
    },
    warehouse: {
      type: 'string',
      title: 'Warehouse',
      description: 'The virtual warehouse that runs the loads.',
      examples: ['LOADING'],
      pattern: NAME,
    },
    database: {
      type: 'string',
      title: 'Database',
      description: 'The database of the schema; it must be there.',
      examples: ['ANALYTICS'],
      pattern: NAME,
    },
    schema: {
      type: 'string',
      title: 'Schema',
      description: placeText('schema'),
      pattern: NAME,
    },
    ...loadFields,
  },
} as const satisfies JsonObject;

/** The type of the schema above. */
export type SnowflakeSettings = SettingsOf<typeof settingsSchema>;

/** Checks that JSON Schema cannot express. */
function settingsFaults({ url, private_key, password }: JsonObject): readonly SettingsFault[] {
  const hasOne = (private_key === undefined) !== (password === undefined);
  return [
    ...urlFaults(url, '`private_key` or `password`'),
    ...(hasOne ? [] : [{ path: '/private_key', message: 'or /password must be set, and only one of them' }]),
  ];
}

export const snowflake = warehouseSettings<SnowflakeSettings>({
  limits: LIMITS,
  type: 'warehouse-snowflake',
  title: 'Snowflake (warehouse)',
  description: [
    'Loads events and profiles into the tables that `warehouse-postgresql` has, in upper case, so that `select user_id from tracks` finds them without quotes.',
    'A batch is one file, put into the internal stage `_TRIBUTARY_STAGE` (encrypted by Snowflake, `SNOWFLAKE_SSE`), copied into a temporary table, and from there one transaction with its row of `_TRIBUTARY_LOADS`. Files are removed after the commit.',
    'Columns are `boolean`, `number(38, 0)`, `number(38, 19)`, `timestamp_tz` in UTC, `varchar` and `variant`. A list or object with U+0000 or half of a surrogate pair, or with a number of more than 38 digits, is in `_UNMAPPED` and `DISCARDS`. `_UNMAPPED` is text: `parse_json(_unmapped)`. A column is widened by a second one that takes its place.',
    'Rows are inserted where their `id` is missing, and loads take turns by an update of `_TRIBUTARY_LOCK`: let nothing else insert. After a process that ended during a load the next one begins within five minutes.',
    'Each load wakes the virtual warehouse, billed for a minute at least; a `load_every` below its `AUTO_SUSPEND` keeps it running.',
    'The role needs `USAGE` of the warehouse and the database, and `CREATE SCHEMA`, or in a schema that is there `USAGE`, `CREATE TABLE` and `CREATE STAGE`. The connection test makes a table and copies a row, and removes both.',
    'It speaks the protocol of Snowflake’s drivers. Tested on an emulation of the service (`fakesnow`); not on the service itself.',
  ].join('\n\n'),
  settingsSchema,
  harmless: ['role', 'warehouse', 'database', 'schema', 'load_every', 'max_event_tables'],
  place: { setting: 'schema', length: NAME_LENGTH },
  check: settingsFaults,
});
