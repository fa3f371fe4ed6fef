import type { JsonObject } from '@tributary/core';
import type { SettingsFault } from '../../../settings.ts';

/** Settings of lakes with the format `iceberg` alone. */
export const icebergFields = {
  catalog_url: {
    type: 'string',
    title: 'Catalog',
    description:
      'Iceberg: where the REST catalog answers, an absolute http or https URL without `/v1`. It must be public.',
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

/** The settings of a catalog of Iceberg. */
export interface CatalogSettings {
  readonly catalog_url: string;
  readonly catalog_warehouse?: string;
  readonly catalog_token?: string;
  readonly catalog_client_id?: string;
  readonly catalog_client_secret?: string;
  readonly catalog_oauth_url?: string;
  readonly catalog_scope: string;
  readonly namespace: string;
}
