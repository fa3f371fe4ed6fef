import type { JsonObject, WarehouseLimits } from '@tributary/core';
import { type DatabaseSettings, databaseFields } from '../../client/rows.ts';
import { folderFaults, folderField } from '../../folder.ts';
import { type BucketSettings, bucketFaults, bucketFields } from '../../s3/settings.ts';
import type { FieldsOf, SettingsFault } from '../../settings.ts';
import { loadFields, warehouseSettings } from '../kind.ts';
import { DECIMAL } from './cells.ts';

const LIMITS: WarehouseLimits = {
  nameLength: 63,
  numeric: DECIMAL,
  textBytes: undefined,
  holdsZero: true,
  // Each has a page in every file.
  columns: 1_500,
  rowValues: undefined,
  batchBytes: 16 * 1_024 * 1_024,
};

/** Of the server that has the catalog of a DuckLake. */
const serverFields = databaseFields(
  'The PostgreSQL server (12 or newer) with the catalog of a DuckLake.',
  5432,
);
const serverCatalogFields: Readonly<Record<string, JsonObject>> = Object.fromEntries(
  Object.entries(serverFields).map(([name, field]) => [
    `catalog_${name}`,
    { ...field, title: `Catalog: ${field.title}` },
  ]),
);

/** Settings of lakes with the format `iceberg` alone. */
export const icebergFields = {
  catalog_url: {
    type: 'string',
    title: 'Catalog',
    description:
      'Iceberg: where the REST catalog answers, an absolute http or https URL without `/v1`. The name must stand for a public address.',
    examples: ['https://catalog.example.com/api/catalog'],
    maxLength: 2_048,
    pattern: '^[hH][tT][tT][pP][sS]?://[^?#@]+$',
  },
  catalog_warehouse: {
    type: 'string',
    title: 'Warehouse',
    description: 'Iceberg: the warehouse, where the catalog has several.',
    minLength: 1,
    maxLength: 500,
  },
  catalog_token: {
    type: 'string',
    title: 'Token',
    description: 'Iceberg: a bearer token of the catalog. Either this or a client.',
    writeOnly: true,
    minLength: 1,
    maxLength: 8_000,
    pattern: '^[\\x21-\\x7e]+$',
  },
  catalog_client_id: {
    type: 'string',
    title: 'Client id',
    description: 'Iceberg: the client that gets tokens by OAuth 2 (client credentials).',
    minLength: 1,
    maxLength: 500,
  },
  catalog_client_secret: {
    type: 'string',
    title: 'Client secret',
    description: 'Iceberg: the secret of that client.',
    writeOnly: true,
    minLength: 1,
    maxLength: 2_000,
  },
  catalog_oauth_url: {
    type: 'string',
    title: 'Token URL',
    description: 'Iceberg: where that client gets tokens. Default: `v1/oauth/tokens` of the catalog.',
    maxLength: 2_048,
    pattern: '^[hH][tT][tT][pP][sS]?://[^#@]+$',
  },
  catalog_scope: {
    type: 'string',
    title: 'Scope',
    description: 'Iceberg: the scope of the tokens. Polaris takes `PRINCIPAL_ROLE:ALL`.',
    maxLength: 1_000,
    default: 'catalog',
  },
  namespace: {
    type: 'string',
    title: 'Namespace',
    description: 'Iceberg: the namespace of the tables, of one level, which is made when it is not there.',
    pattern: '^[a-z0-9_]{1,63}$',
    default: 'tributary',
  },
} as const satisfies JsonObject;

/** The settings of a catalog of Iceberg. */
export type CatalogSettings = FieldsOf<typeof icebergFields, 'catalog_url'>;

/** The settings as users write them. */
const settingsSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  additionalProperties: false,
  properties: {
    format: {
      type: 'string',
      title: 'Format',
      description:
        '`parquet`: plain files. `ducklake`: the same files with a catalog, in which a load is one snapshot of all tables. `iceberg`: tables of Apache Iceberg, in a REST catalog.',
      enum: ['parquet', 'ducklake', 'iceberg'],
      default: 'parquet',
    },
    folder: {
      ...folderField,
      description: `${folderField.description} Either this or a bucket.`,
      examples: ['lake'],
    },
    ...bucketFields,
    ...serverCatalogFields,
    catalog_schema: {
      type: 'string',
      title: 'Catalog: Schema',
      description: 'The schema of the tables of the catalog, which is made when it is not there.',
      minLength: 1,
      maxLength: 63,
      pattern: '^[^\\u0000]+$',
      default: 'public',
    },
    ...icebergFields,
    ...loadFields,
  },
} as const satisfies JsonObject;

interface ServerCatalogSettings {
  readonly catalog_host?: string;
  readonly catalog_port: number;
  readonly catalog_tls: boolean;
  readonly catalog_ca?: string;
  readonly catalog_database?: string;
  readonly catalog_username?: string;
  readonly catalog_password?: string;
  readonly catalog_schema: string;
}

/** The type of the schema above, for a lake in a folder or in a bucket. */
export type LakeSettings = FieldsOf<typeof loadFields> &
  ServerCatalogSettings &
  ({ readonly format: 'parquet' | 'ducklake' } | ({ readonly format: 'iceberg' } & CatalogSettings)) &
  ({ readonly folder: string } | (BucketSettings & { readonly folder?: undefined }));

const OF_BUCKETS = ['bucket', 'access_key_id', 'secret_access_key'] as const;
const OF_CATALOGS = ['catalog_host', 'catalog_database', 'catalog_username'] as const;

/** The server that has the catalog; undefined for a file in the folder of the lake. */
export function catalogOf(settings: LakeSettings): DatabaseSettings | undefined {
  const { catalog_host: host, catalog_database: database, catalog_username: username } = settings;
  if (host === undefined || database === undefined || username === undefined) return undefined;
  const { catalog_port: port, catalog_tls: tls, catalog_ca: ca, catalog_password: password } = settings;
  const maybe = { ...(ca === undefined ? {} : { ca }), ...(password === undefined ? {} : { password }) };
  return { host, port, tls, database, username, ...maybe };
}

/** Checks that JSON Schema cannot express. Paths are JSON pointers below the settings. */
function settingsFaults(settings: JsonObject): readonly SettingsFault[] {
  return [...placeFaults(settings), ...serverCatalogFaults(settings), ...icebergFaults(settings)];
}

function serverCatalogFaults(settings: JsonObject): readonly SettingsFault[] {
  const hasFormat = settings.format === 'ducklake';
  const isNamed = OF_CATALOGS.some((name) => settings[name] !== undefined);
  if (!hasFormat)
    return isNamed
      ? [{ path: '/catalog_host', message: 'only the format `ducklake` has a catalog on a server' }]
      : [];
  if (!isNamed && settings.bucket === undefined) return [];
  const missing = OF_CATALOGS.filter((name) => settings[name] === undefined);
  return missing.map((name) => ({
    path: `/${name}`,
    message: 'the catalog of a DuckLake in a bucket needs it',
  }));
}

function placeFaults(settings: JsonObject): readonly SettingsFault[] {
  const { folder, bucket } = settings;
  if (folder !== undefined && bucket !== undefined)
    return [{ path: '/bucket', message: 'a lake is in a folder or in a bucket, not in both' }];
  if (folder !== undefined) return folderFaults(settings);
  if (bucket === undefined) return [{ path: '/folder', message: 'a lake needs a folder or a bucket' }];
  const missing = OF_BUCKETS.filter((name) => settings[name] === undefined);
  return [
    ...missing.map((name) => ({ path: `/${name}`, message: 'a bucket needs it' })),
    ...bucketFaults(settings),
  ];
}

export const lake = warehouseSettings<LakeSettings>({
  limits: LIMITS,
  type: 'lake',
  title: 'Lake of Parquet files',
  description: [
    'Writes events and profiles as Parquet files, which DuckDB, Spark, pandas and others read without a server: in a folder of the machine, `<data folder>/lake/<workspace id>/<folder>`, or in a bucket. The tables are those of other warehouses: `<table>/received_date=<YYYY-MM-DD>/<...>.parquet`, by the day (UTC) at which events were received.',
    'A load that was cut short is completed and not repeated. Readers of `<table>/**/*.parquet` see only whole files, and no row twice. Columns are added, so readers must unite them by name (`union_by_name`). In a table of more than 2 GiB a column is not widened: values that it does not hold are in `_unmapped` and `discards`.',
    'Once an hour small files whose rows are older than six hours are merged: in this moment readers may miss them. A folder belongs to the machine that loads it: on a cluster use a bucket. A bucket must know `If-None-Match` on writes, which the connection test checks; the key needs the rights to list, get, put and delete below the prefix.',
    'With `format: ducklake` the files of all tables are in a catalog, by the specification 1.0 of DuckLake (DuckDB 1.5): `metadata.sqlite` in the folder, or, with `catalog_host` and the settings beside it, a schema of a PostgreSQL server, which a lake in a bucket needs. A load is one snapshot. Another format is another lake: it begins with the events that the log still has.',
    'With `format: iceberg` the tables are tables of Apache Iceberg, format version 2, in a namespace of a REST catalog. The files are written with the key of the settings: neither keys that a catalog vends nor SigV4 are used. A load is one commit for each table. A deletion of people removes all earlier snapshots with their files. Run with Iceberg’s own REST catalog 1.10.1, and read by pyiceberg 0.12.0 and DuckDB 1.5.5; not with other catalogs.',
    'Files of other names are left alone. A removed file is not made again.',
  ].join('\n\n'),
  settingsSchema,
  // Not the bucket, which is part of the host name unless it is in the path.
  harmless: [
    'format',
    'folder',
    'prefix',
    'namespace',
    'catalog_database',
    'catalog_schema',
    'load_every',
    'max_event_tables',
  ],
  safestFirst: { catalog_tls: [true, false] },
  check: settingsFaults,
});

/** Checks that JSON Schema cannot express. */
export function icebergFaults(settings: JsonObject): readonly SettingsFault[] {
  const { catalog_url, catalog_oauth_url, catalog_token, catalog_client_id, catalog_client_secret } =
    settings;
  if (settings.format !== 'iceberg')
    return catalog_url === undefined
      ? []
      : [{ path: '/catalog_url', message: 'only the format `iceberg` has a REST catalog' }];
  if (catalog_url === undefined) return [{ path: '/catalog_url', message: 'Iceberg needs a catalog' }];
  if (catalog_token !== undefined && catalog_client_id !== undefined)
    return [{ path: '/catalog_token', message: 'a catalog takes a token or a client, not both' }];
  if ((catalog_client_id === undefined) !== (catalog_client_secret === undefined))
    return [{ path: '/catalog_client_secret', message: 'a client has an id and a secret' }];
  return Object.entries({ catalog_url, catalog_oauth_url }).flatMap(([name, url]) =>
    typeof url === 'string' && URL.parse(url) === null
      ? [{ path: `/${name}`, message: 'must be an absolute URL' }]
      : [],
  );
}
