import {
  groupIdOf,
  type HistoryCount,
  type HistoryCountQuery,
  type HistoryEntry,
  type HistoryGroup,
  type HistoryGroups,
  type HistoryGroupsQuery,
  type HistoryKind,
  type HistoryPage,
  type HistoryQuery,
  InvalidInput,
  Unavailable,
} from '@tributary/core';
import type { ElasticsearchConnection } from '../../elasticsearch/index.ts';
import { formatCursor, type ListPosition, parseCursor } from '../cursor.ts';
import { DETAIL_FIELD, documentId, entryOf, facetTerms, type HistoryDocument } from './document.ts';
import type { PeriodIndices } from './period-indices.ts';

/** Entries per search request; a larger page takes several. */
const ENTRIES_PER_SEARCH = 1_000;
/** Groups that each index is asked for: counts are exact while a workspace has no more. */
const COUNTED_GROUPS = 5_000;
const HOUR_MS = 3_600_000;
const INDEX_NOT_FOUND = 'index_not_found_exception';

/** A list sees entries after the next refresh, `get` sees them at once. */
export class HistoryReader {
  readonly #connection: ElasticsearchConnection;
  readonly #indices: PeriodIndices;
  readonly #all: string;

  constructor(connection: ElasticsearchConnection, indices: PeriodIndices, all: string) {
    this.#connection = connection;
    this.#indices = indices;
    this.#all = all;
  }

  /** Reads from every index in one request, as the id does not determine the period. */
  async get(kind: HistoryKind, workspaceId: string, id: string): Promise<HistoryEntry | undefined> {
    const names = await this.#indices.names();
    if (names.length === 0) return undefined;
    const _id = documentId(kind, workspaceId, id);
    const { docs } = await this.#connection.call((client) =>
      client.mget<HistoryDocument>({ docs: names.map((_index) => ({ _index, _id })) }),
    );
    for (const doc of docs) {
      if ('error' in doc) {
        // An index may be dropped after it was listed.
        if (doc.error.type !== INDEX_NOT_FOUND) throw new Unavailable(`Elasticsearch: ${doc.error.type}`);
      } else if (doc.found && doc._source !== undefined) return entryOf(doc._source);
    }
    return undefined;
  }

  async list(query: HistoryQuery): Promise<HistoryPage> {
    const { limit, cursor } = query;
    if (!(limit >= 1)) throw new InvalidInput('a page holds at least one entry');
    const found: HistoryEntry[] = [];
    let after = cursor === undefined ? undefined : parseCursor(cursor);
    while (found.length <= limit) {
      const size = Math.min(limit + 1 - found.length, ENTRIES_PER_SEARCH);
      const some = await this.#search(query, size, after);
      found.push(...some);
      const last = some.at(-1);
      if (last === undefined || some.length < size) return { entries: found };
      after = { at: last.at, id: last.id };
    }
    const entries = found.slice(0, limit);
    const last = entries.at(-1);
    return last === undefined ? { entries } : { entries, next: formatCursor(last) };
  }

  async countByHour({ fromHour, toHour, ...wanted }: HistoryCountQuery): Promise<readonly HistoryCount[]> {
    const { aggregations } = await this.#connection.call((client) =>
      client.search<unknown, { hours: { buckets: readonly { key: number; doc_count: number }[] } }>({
        index: this.#all,
        ignore_unavailable: true,
        allow_partial_search_results: false,
        query: { bool: { filter: filterOf({ ...wanted, since: fromHour, until: toHour + HOUR_MS }) } },
        size: 0,
        track_total_hits: false,
        aggs: { hours: { histogram: { field: 'at', interval: HOUR_MS, min_doc_count: 1 } } },
      }),
    );
    return (aggregations?.hours.buckets ?? []).map(({ key, doc_count }) => ({ hour: key, count: doc_count }));
  }

  async groups({ kind, workspaceId, values = {}, limit }: HistoryGroupsQuery): Promise<HistoryGroups> {
    const { aggregations } = await this.#connection.call((client) =>
      client.search<unknown, { groups: { buckets: readonly GroupBucket[] } }>({
        index: this.#all,
        ignore_unavailable: true,
        allow_partial_search_results: false,
        query: { bool: { filter: filterOf({ kind, workspaceId, facets: values }) } },
        size: 0,
        track_total_hits: false,
        aggs: {
          groups: {
            terms: { field: 'group', size: limit + 1, shard_size: COUNTED_GROUPS },
            aggs: {
              first: { min: { field: 'at' } },
              newest: {
                top_hits: {
                  size: 1,
                  sort: [{ at: 'desc' }, { id: 'desc' }],
                  _source: false,
                  docvalue_fields: ['at', 'id'],
                },
              },
            },
          },
        },
      }),
    );
    const found = (aggregations?.groups.buckets ?? []).map(groupOf);
    found.sort((a, b) => b.count - a.count || (a.id < b.id ? -1 : 1));
    return { groups: found.slice(0, limit), more: found.length > limit };
  }

  async #search(
    query: HistoryQuery,
    size: number,
    after: ListPosition | undefined,
  ): Promise<readonly HistoryEntry[]> {
    const { hits } = await this.#connection.call((client) =>
      client.search<HistoryDocument>({
        index: this.#all,
        ignore_unavailable: true, // there is no index before the first put
        allow_partial_search_results: false,
        ...(query.details === true ? {} : { _source_excludes: DETAIL_FIELD }),
        query: { bool: { filter: filterOf(query) } },
        sort: [{ at: 'desc' }, { id: 'desc' }],
        size,
        track_total_hits: false,
        ...(after === undefined ? {} : { search_after: [after.at, after.id] }),
      }),
    );
    return hits.hits.flatMap(({ _source }) => (_source === undefined ? [] : [entryOf(_source)]));
  }
}

interface GroupBucket {
  readonly key: string;
  readonly doc_count: number;
  readonly first: { readonly value: number };
  readonly newest: { readonly hits: { readonly hits: readonly { readonly fields?: NewestFields }[] } };
}

interface NewestFields {
  readonly at: readonly number[];
  readonly id: readonly string[];
}

function groupOf({ key, doc_count, first, newest }: GroupBucket): HistoryGroup {
  const values = JSON.parse(key) as HistoryGroup['values'];
  const fields = newest.hits.hits[0]?.fields;
  return {
    id: groupIdOf(values),
    values,
    count: doc_count,
    firstAt: first.value,
    lastAt: fields?.at[0] ?? first.value,
    newest: fields?.id[0] ?? '',
  };
}

function filterOf({
  kind,
  workspaceId,
  facets = {},
  group,
  since,
  until,
}: Omit<HistoryQuery, 'limit' | 'cursor'>) {
  return [
    { term: { workspace_id: workspaceId } },
    { term: { kind } },
    ...facetTerms(facets, group).map((term) => ({ term: { facets: term } })),
    {
      range: {
        at: {
          ...(since === undefined ? {} : { gte: since }),
          ...(until === undefined ? {} : { lt: until }),
        },
      },
    },
  ];
}
