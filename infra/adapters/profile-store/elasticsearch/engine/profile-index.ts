import { setTimeout as pause } from 'node:timers/promises';
import type { ProfileScope } from '@tributary/core';
import {
  type ElasticsearchClient,
  type ElasticsearchConnection,
  errorTypeOf,
  refused,
} from '../../../elasticsearch/index.ts';
import { type DocumentSource, profileDocumentOf } from '../documents.ts';

/** Another process has created the index meanwhile. */
const EXISTS = 'resource_already_exists_exception';

/** How long to wait for the shards of a new index. Shards missing after that may be lost; requests will show it. */
const SHARDS_WITHIN_MS = 2_000;
const POLL_EVERY_MS = 50;

/**
 * The fields of the index, for the queries of the sweeper. `body` is a text that is only stored, so that nothing in it
 * (depth, field names, long values) can be refused. Fields that are not listed are stored as well.
 */
const MAPPING = {
  dynamic: false,
  properties: {
    state: { type: 'keyword' },
    dirty: { type: 'boolean' },
    pending_by: { type: 'keyword' },
    pending_n: { type: 'long' },
    updated_ts: { type: 'long' },
    org: { type: 'long', index: false },
    region: { type: 'keyword', index: false },
    body: { type: 'object', enabled: false },
  },
} as const;

type NewIndex = Parameters<ElasticsearchClient['indices']['create']>[0];

export interface ProfileIndexOptions {
  /** The alias for all reads and writes. */
  readonly alias: string;
  /** Primary shards of a new index. */
  readonly shards: number;
}

/**
 * Creates the index and its alias unless they exist, and returns whether it did; several processes may try at once. An
 * installation without the right to create indices needs one with these fields under this alias beforehand.
 */
export async function ensureIndex(
  connection: ElasticsearchConnection,
  { alias, shards }: ProfileIndexOptions,
): Promise<boolean> {
  const { statusCode } = await connection.call((client) =>
    client.indices.getAlias({ name: alias }, { ignore: [404], meta: true }),
  );
  const isCreated = statusCode === 404 && (await createIndex(connection, indexOf(alias, shards)));
  await awaitShards(connection, alias);
  return isCreated;
}

async function createIndex(connection: ElasticsearchConnection, index: NewIndex): Promise<boolean> {
  const { statusCode, body } = await connection.call((client) =>
    client.indices.create(index, { ignore: [400], meta: true }),
  );
  const type = errorTypeOf(body);
  if (statusCode === 400 && type !== EXISTS) throw refused(400, type);
  return statusCode !== 400;
}

/**
 * Waits, for a bounded time, until all shards can be read: a new index exists before its shards do, and requests fail
 * meanwhile. A search needs no right beyond the use of the index, where the cluster's health would.
 */
async function awaitShards(connection: ElasticsearchConnection, alias: string): Promise<void> {
  for (const until = performance.now() + SHARDS_WITHIN_MS; performance.now() < until; ) {
    const { statusCode } = await connection.call((client) =>
      client.search(
        { index: alias, size: 0, track_total_hits: false, allow_partial_search_results: false },
        { ignore: [503], meta: true },
      ),
    );
    if (statusCode !== 503) return;
    await pause(POLL_EVERY_MS);
  }
}

/** Refreshed every 5 s, as only the sweeper searches. One replica where there is a second node. */
function indexOf(alias: string, shards: number): NewIndex {
  return {
    index: `${alias}-1`,
    aliases: { [alias]: { is_write_index: true } },
    mappings: MAPPING,
    settings: { number_of_shards: shards, refresh_interval: '5s', auto_expand_replicas: '0-1' },
  };
}

type Filter = NonNullable<NonNullable<Parameters<ElasticsearchClient['search']>[0]>['query']>;

const LIVE: Filter = { terms: { state: ['live', 'redirect'] } };
const PAGE = 500;
const KEEP_PAGES = '1m';

/**
 * Whether the index has a live profile, in the scope if one is given. `org` and `region` are not indexed but have doc
 * values, which suffice for a query that is narrowed by the state. Documents of early releases have neither field and are
 * read one by one, until they are written again.
 */
export async function holdsLive(
  connection: ElasticsearchConnection,
  index: string,
  scope: ProfileScope | undefined,
): Promise<boolean> {
  await connection.call((client) => client.indices.refresh({ index }));
  const exists = async (filter: readonly Filter[]) => {
    const { hits } = await connection.call((client) =>
      client.search({
        index,
        size: 1,
        _source: false,
        terminate_after: 1,
        track_total_hits: false,
        allow_partial_search_results: false,
        query: { bool: { filter: [LIVE, ...filter] } },
      }),
    );
    return hits.hits.length > 0;
  };
  if (scope === undefined) return exists([]);
  const { org, region } = scope;
  if (await exists([{ term: { org } }, { term: { region } }])) return true;
  return isAmongUnscoped(connection, index, scope);
}

async function isAmongUnscoped(
  connection: ElasticsearchConnection,
  index: string,
  scope: ProfileScope,
): Promise<boolean> {
  let page = await connection.call((client) =>
    client.search<DocumentSource>({
      index,
      size: PAGE,
      scroll: KEEP_PAGES,
      sort: ['_doc'],
      allow_partial_search_results: false,
      query: { bool: { filter: [LIVE], must_not: [{ exists: { field: 'org' } }] } },
    }),
  );
  for (;;) {
    const { hits, _scroll_id: scroll_id } = page;
    const isFound = hits.hits.some(({ _source }) => _source !== undefined && isIn(scope, _source));
    if (isFound || hits.hits.length < PAGE || scroll_id === undefined) return isFound;
    page = await connection.call((client) =>
      client.scroll<DocumentSource>({ scroll_id, scroll: KEEP_PAGES }),
    );
  }
}

function isIn({ org, region }: ProfileScope, source: DocumentSource): boolean {
  const document = profileDocumentOf({ version: { seqNo: 0, primaryTerm: 0 }, source });
  if (document?.state !== 'live' && document?.state !== 'redirect') return false;
  const { profile } = document.content;
  return profile.org === org && profile.region === region;
}
