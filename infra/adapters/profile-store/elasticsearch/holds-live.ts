import type { ProfileScope } from '@tributary/core';
import type { ElasticsearchClient, ElasticsearchConnection } from '../../elasticsearch/index.ts';
import { profileDocumentOf } from './document-forms.ts';
import type { DocumentSource } from './documents.ts';

type Filter = NonNullable<NonNullable<Parameters<ElasticsearchClient['search']>[0]>['query']>;

const LIVE: Filter = { terms: { state: ['live', 'redirect'] } };
const PAGE = 500;
const KEEP_PAGES = '1m';

/**
 * Whether the index has a live profile in the scope, or any at all. `org` and `region` have no index but doc values, by
 * which a query that is narrowed by the state can be answered. Documents of releases that wrote neither are read one by
 * one: there are none left once they were all written again.
 */
export async function holdsLive(
  connection: ElasticsearchConnection,
  index: string,
  scope: ProfileScope | undefined,
): Promise<boolean> {
  await connection.call((client) => client.indices.refresh({ index }));
  const isThere = async (filter: readonly Filter[]) => {
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
  if (scope === undefined) return isThere([]);
  const { org, region } = scope;
  if (await isThere([{ term: { org } }, { term: { region } }])) return true;
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
