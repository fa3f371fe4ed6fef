import type { JsonObject, WarehouseLimits } from '@tributary/core';
import { serverFields } from '../../postgres/server.ts';
import type { SettingsOf } from '../../settings.ts';
import { loadFields, placeText, warehouseSettings } from '../kind.ts';

/** Bytes of an identifier. */
const NAME_LENGTH = 63;

const LIMITS: WarehouseLimits = {
  nameLength: NAME_LENGTH,
  // `numeric` has 131,072 digits before the point and 16,383 behind it: no JSON number has more.
  numeric: undefined,
  textBytes: undefined,
  holdsZero: false,
  // A table has 1,600, and counts those that were dropped.
  columns: 1_500,
  // A row is in one page of 8 KiB; long values are elsewhere, for which a value of any type takes 24 bytes at most.
  rowValues: 320,
  batchBytes: 16 * 1_024 * 1_024,
};

/** The settings as users write them. */
const settingsSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  required: ['host', 'database', 'username'],
  additionalProperties: false,
  properties: {
    ...serverFields,
    schema: {
      type: 'string',
      title: 'Schema',
      description: placeText('schema'),
      minLength: 1,
      maxLength: NAME_LENGTH,
      pattern: '^[^\\u0000]+$',
    },
    ...loadFields,
  },
} as const satisfies JsonObject;

/** The type of the schema above. */
export type PostgresqlSettings = SettingsOf<typeof settingsSchema>;

export const postgresql = warehouseSettings<PostgresqlSettings>({
  limits: LIMITS,
  type: 'warehouse-postgresql',
  title: 'PostgreSQL (warehouse)',
  description: [
    'Loads events and profiles into tables of PostgreSQL as Segment and RudderStack lay them out.',
    'A batch is one transaction with its row of `_tributary_loads`. Columns are `boolean`, `bigint`, `numeric`, `timestamptz`, `text` and `json`. Where a view, a constraint or a missing right keeps a column from being widened, values that it does not hold are in `_unmapped` and `discards`. Of one event 320 values become columns.',
    'Rows that the server refuses (a constraint, a policy, a trigger) are discarded alone, with its reason.',
    'The user needs the right to create the schema, or to create tables in it. The connection test makes and removes a table.',
  ].join('\n\n'),
  settingsSchema,
  harmless: ['database', 'schema', 'load_every', 'max_event_tables'],
  place: { setting: 'schema', length: NAME_LENGTH },
  safestFirst: { tls: [true, false] },
});
