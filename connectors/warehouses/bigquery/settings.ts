import { createPrivateKey, type KeyObject } from 'node:crypto';
import { type JsonObject, objectIn, type WarehouseLimits } from '@tributary/core';
import type { SettingsFault, SettingsOf } from '../../settings.ts';
import { loadFields, placeText, warehouseSettings } from '../kind.ts';
import { jsonIn } from '../tables.ts';

/** Letters of a name. BigQuery has 300 for columns; fewer keep the statements of a wide table within 1 MB. */
const NAME_LENGTH = 128;

const LIMITS: WarehouseLimits = {
  nameLength: NAME_LENGTH,
  // BIGNUMERIC.
  numeric: { whole: 38, fraction: 38 },
  textBytes: undefined,
  holdsZero: false,
  // A table has 10,000.
  columns: 5_000,
  rowValues: undefined,
  batchBytes: 16 * 1_024 * 1_024,
};

/** The settings as users write them. */
const settingsSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  required: ['project', 'service_account_key'],
  additionalProperties: false,
  properties: {
    project: {
      type: 'string',
      title: 'Project',
      description: 'The id of the project that has the dataset, and that pays for jobs.',
      examples: ['my-project-123'],
      pattern: '^(?:[a-z0-9.-]{1,100}:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$',
    },
    dataset: {
      type: 'string',
      title: 'Dataset',
      description: placeText('dataset'),
      pattern: '^[A-Za-z0-9_]{1,1024}$',
    },
    location: {
      type: 'string',
      title: 'Location',
      description: 'Where the dataset is made. One that is there stays where it is.',
      examples: ['EU', 'europe-west3'],
      default: 'US',
      pattern: '^[A-Za-z0-9-]{1,40}$',
    },
    service_account_key: {
      type: 'string',
      title: 'Service account key',
      description:
        'The JSON of a key of a service account with the roles `roles/bigquery.jobUser` in the project and `roles/bigquery.dataEditor` on the dataset, or in the project where the dataset is to be made.',
      writeOnly: true,
      minLength: 1,
      maxLength: 20_000,
    },
    match_days: {
      type: 'integer',
      title: 'Days of matching ids',
      description:
        'Rows that are there already are looked for among those received so many days before the first row of a load to so many days after its last one. Absent: in the whole table, which reads the column `id` of all rows.',
      minimum: 1,
      maximum: 3_650,
    },
    endpoint: {
      type: 'string',
      title: 'Endpoint',
      description: 'Where the API answers, for a private endpoint. Absent: at Google. It must be public.',
      examples: ['https://bigquery.europe-west3.rep.googleapis.com'],
      maxLength: 2_048,
      pattern: '^[hH][tT][tT][pP][sS]?://[^?#@/]+/?$',
    },
    ...loadFields,
    load_every: {
      ...loadFields.load_every,
      description: 'How often events are loaded: `1m` to `24h`.',
      pattern: '^(?:[1-9][0-9]{0,3}m|(?:1[0-9]|2[0-4]|[1-9])h)$',
    },
  },
} as const satisfies JsonObject;

/** The type of the schema above. */
export type BigquerySettings = SettingsOf<typeof settingsSchema>;

/** A key of a service account. */
export interface ServiceAccount {
  readonly email: string;
  readonly keyId: string;
  readonly key: KeyObject;
  /** Where tokens are issued. */
  readonly tokenUrl: URL;
}

const GOOGLE_TOKENS = 'https://oauth2.googleapis.com/token';
/** Bits of an RSA key: this thread computes with it. */
const KEY_BITS = { min: 2_048, max: 4_096 };

/** The key of a service account in its JSON; undefined where it is none. */
export function serviceAccountIn(text: string): ServiceAccount | undefined {
  const { type, client_email, private_key_id, private_key, token_uri } = objectIn(jsonIn(text));
  const tokenUrl = URL.parse(typeof token_uri === 'string' ? token_uri : GOOGLE_TOKENS);
  if (type !== 'service_account' || typeof client_email !== 'string' || typeof private_key !== 'string')
    return undefined;
  if (tokenUrl === null || !/^https?:$/.test(tokenUrl.protocol)) return undefined;
  const key = privateKeyIn(private_key);
  if (key === undefined) return undefined;
  return {
    email: client_email,
    keyId: typeof private_key_id === 'string' ? private_key_id : '',
    key,
    tokenUrl,
  };
}

function privateKeyIn(pem: string): KeyObject | undefined {
  try {
    const key = createPrivateKey(pem);
    const { modulusLength = 0 } = key.asymmetricKeyDetails ?? {};
    const isUsable = key.asymmetricKeyType === 'rsa' && modulusLength >= KEY_BITS.min;
    return isUsable && modulusLength <= KEY_BITS.max ? key : undefined;
  } catch {
    // Any text that is no key in PEM.
    return undefined;
  }
}

/** Checks that JSON Schema cannot express. */
function settingsFaults({ service_account_key: key, endpoint }: JsonObject): readonly SettingsFault[] {
  const faults: SettingsFault[] = [];
  if (typeof key === 'string' && serviceAccountIn(key) === undefined)
    faults.push({
      path: '/service_account_key',
      message: 'must be the JSON of a key of a service account, with an RSA key of 2,048 to 4,096 bits',
    });
  if (typeof endpoint === 'string' && URL.parse(endpoint) === null)
    faults.push({ path: '/endpoint', message: 'must be an absolute URL' });
  return faults;
}

export const bigquery = warehouseSettings<BigquerySettings>({
  limits: LIMITS,
  type: 'warehouse-bigquery',
  title: 'BigQuery (warehouse)',
  description: [
    'Loads events and profiles into tables of BigQuery as Segment and RudderStack lay them out.',
    'A batch is staged by one load job (free of charge) in a table of its own, which ends by itself after a day, and becomes rows by one transaction with its row of `_tributary_loads`. A transaction changes 100 tables at most; of a batch with more, the first tables get their rows a few seconds earlier, and none twice.',
    'Columns are `BOOL`, `INT64`, `BIGNUMERIC`, `FLOAT64`, `TIMESTAMP` and `STRING`; JSON is a `STRING` with the description `JSON`, as the type `JSON` of BigQuery rounds numbers. A column that becomes `STRING` is written anew: BigQuery bills the table once for that, and no load runs meanwhile.',
    'Tables of events are partitioned by the day of `received_at` and clustered by `id`. Each load reads the column `id` of each table that it loads, 10 MB a table at least; with `match_days` only of some partitions. `load_every` is a minute at least, as BigQuery queues `INSERT`s of a table beyond 1,500 a day.',
    'The account needs `bigquery.jobs.create` in the project, and on the dataset the rights to make, read and write tables. The connection test makes and removes a table and inserts a row. A dataset with a default expiration of tables is refused: the ledger would expire.',
  ].join('\n\n'),
  settingsSchema,
  harmless: ['dataset', 'location', 'match_days', 'load_every', 'max_event_tables'],
  place: { setting: 'dataset', length: NAME_LENGTH },
  check: settingsFaults,
});
