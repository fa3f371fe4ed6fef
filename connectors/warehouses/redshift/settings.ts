import type { JsonObject, WarehouseLimits } from '@tributary/core';
import { databaseFields } from '../../client/rows.ts';
import { bucketFaults, bucketFields } from '../../s3/settings.ts';
import type { SettingsOf } from '../../settings.ts';
import { loadFields, placeText, warehouseSettings } from '../kind.ts';

/** Bytes of an identifier. */
const NAME_LENGTH = 127;

const LIMITS: WarehouseLimits = {
  nameLength: NAME_LENGTH,
  // `numeric(38, 19)`: any integer of 64 bits, and most doubles.
  numeric: { whole: 19, fraction: 19 },
  textBytes: 65_535,
  holdsZero: false,
  parsesJson: true,
  // A table has 1,600.
  columns: 1_500,
  rowValues: undefined,
  batchBytes: 16 * 1_024 * 1_024,
};

/** The settings as users write them. */
const settingsSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  required: ['host', 'database', 'username', 'password', 'bucket', 'access_key_id', 'secret_access_key'],
  additionalProperties: false,
  properties: {
    ...databaseFields('The endpoint of the cluster or workgroup, without port and database.', 5439),
    schema: {
      type: 'string',
      title: 'Schema',
      description: placeText('schema'),
      pattern: '^[a-z_][a-z0-9_]{0,126}$',
    },
    ...bucketFields,
    iam_role: {
      type: 'string',
      title: 'IAM role',
      description:
        'The ARN of the role by which Redshift reads the bucket, or `default` for that of the cluster. Absent: it reads by the access key.',
      examples: ['arn:aws:iam::123456789012:role/redshift-reads-tributary'],
      maxLength: 2_048,
      pattern: '^(?:default|arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/:-]+)$',
    },
    ...loadFields,
  },
} as const satisfies JsonObject;

/** The type of the schema above. */
export type RedshiftSettings = SettingsOf<typeof settingsSchema>;

export const redshift = warehouseSettings<RedshiftSettings>({
  limits: LIMITS,
  type: 'warehouse-redshift',
  title: 'Amazon Redshift (warehouse)',
  description: [
    'Loads events and profiles into the tables that `warehouse-postgresql` has, by `COPY` from a bucket of S3. A batch is one file of JSON lines below `<prefix>/<destination>/<batch>/<attempt>/`, which a manifest names, and one transaction with its row of `_tributary_loads`. Files are deleted after the commit. A process that ends in between leaves them: give the prefix a lifecycle rule of a day.',
    'Columns are `boolean`, `bigint`, `numeric(38, 19)`, `timestamptz`, `varchar(65535)` and `super`. A column is widened by a second one that takes its place, in one transaction; where a view depends on it, it stays as it is. JSON of more than 65,535 bytes, with U+0000 or half of a surrogate pair, or with a number of more than 38 digits is in `discards`. `_unmapped` is text: `json_parse(_unmapped)`.',
    'Rows are inserted where their `id` is missing, and loads take turns by a lock of `_tributary_profiles`: let nothing else insert. Tables of events are distributed by `id` and sorted by `received_at`.',
    'The user needs the right to create the schema, or to create tables in it; the key needs `s3:PutObject` and `s3:DeleteObject` below the prefix, and `s3:GetObject` unless a role reads. No pooler may share sessions. The connection test makes a table and copies a row, and removes both.',
    'Tested on PostgreSQL with a translation of what Redshift has and lacks; not on the service itself.',
  ].join('\n\n'),
  settingsSchema,
  harmless: ['database', 'schema', 'prefix', 'load_every', 'max_event_tables'],
  place: { setting: 'schema', length: NAME_LENGTH },
  safestFirst: { tls: [true, false] },
  check: bucketFaults,
});
