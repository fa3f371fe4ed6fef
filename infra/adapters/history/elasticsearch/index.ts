import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Clock,
  groupIdOf,
  type History,
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
  MAX_HISTORY_FACETS,
  messageOf,
  repeat,
  Unavailable,
} from '@tributary/core';
import {
  type BulkAnswer,
  ElasticsearchConnection,
  type ElasticsearchStoreOptions,
  indexPrefix,
  refused,
  sendBulk,
} from '../../elasticsearch/index.ts';
import { formatCursor, type ListPosition, parseCursor } from '../cursor.ts';
import {
  DETAIL_FIELD,
  documentId,
  documentOf,
  entryOf,
  facetTerms,
  type HistoryDocument,
  PeriodIndices,
} from './period-indices.ts';

const RETENTION_EVERY_MS = 60 * 60 * 1000;

export interface ElasticsearchHistoryOptions extends ElasticsearchStoreOptions {
  readonly clock: Clock;
  /** Entries are kept for at least this long after their last put, ms. */
  readonly retentionMs: number;
  /** How often expired indices are dropped, ms, beginning at once. Default an hour; false: never. */
  readonly retentionEveryMs?: number | false;
}

/**
 * A `History` in Elasticsearch: an index for each period of `at` (a day, unless the retention is long), dropped whole once
 * nothing was put into it for the retention. `InvalidInput` when the credentials are wrong. Calls are `Unavailable` while
 * the cluster does not answer.
 */
export async function openElasticsearchHistory(options: ElasticsearchHistoryOptions): Promise<History> {
  const { prefix, clock, retentionMs, logger } = options;
  const connection = await ElasticsearchConnection.open(options);
  const base = `${indexPrefix(prefix)}history`;
  const indices = new PeriodIndices(connection, { base, clock, retentionMs, logger });
  const writer = new HistoryWriter(connection, indices);
  const reader = new HistoryReader(connection, indices, base);
  const { retentionEveryMs = RETENTION_EVERY_MS } = options;
  const drop = () =>
    indices
      .dropExpired()
      .catch((error) =>
        logger.warn(
          { error: messageOf(error) },
          'expired history could not be dropped; the next run tries again',
        ),
      );
  const dropping = retentionEveryMs === false ? undefined : repeat(drop, retentionEveryMs);
  let closed: Promise<void> | undefined;
  return {
    put: (entries) => writer.put(entries),
    list: (query) => reader.list(query),
    countByHour: (query) => reader.countByHour(query),
    groups: (query) => reader.groups(query),
    get: (kind, workspaceId, id) => reader.get(kind, workspaceId, id),
    close() {
      closed ??= Promise.all([writer.settled(), dropping?.close()]).then(() => connection.close());
      return closed;
    },
  };
}

/** Entries per search request; a larger page takes several. */
const ENTRIES_PER_SEARCH = 1_000;
/** Groups that each index is asked for: counts are exact while a workspace has no more. */
const COUNTED_GROUPS = 5_000;
const HOUR_MS = 3_600_000;
const INDEX_NOT_FOUND = 'index_not_found_exception';

/** A list sees entries after the next refresh, `get` sees them at once. */
class HistoryReader {
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

/** Bounds of one bulk request; building it blocks the thread for some ms. */
const BULK_DOCUMENTS = 500;
const BULK_CHARACTERS = 1_000_000;

/** A smaller request waits for no other. */
const LARGE_DOCUMENTS = 50;
/** The longest rest after a large request, ms. */
const LONGEST_REST_MS = 1_000;

/** Bound of ids: a term of an index has at most 32,766 bytes. */
const MAX_ID_LENGTH = 1_000;
/** The largest time of a `Date`. */
const MAX_TIME = 8.64e15;

/**
 * Puts each entry by its id into the index of its period. A lower version than the stored one is ignored. Large requests are
 * made one at a time, each followed by a rest of its own length: the same nodes write and search the profiles of others.
 */
export class HistoryWriter {
  readonly #connection: ElasticsearchConnection;
  readonly #indices: PeriodIndices;
  readonly #underWay = new Set<Promise<void>>();
  #lastLarge: Promise<unknown> = Promise.resolve();

  constructor(connection: ElasticsearchConnection, indices: PeriodIndices) {
    this.#connection = connection;
    this.#indices = indices;
  }

  put(entries: readonly HistoryEntry[]): Promise<void> {
    const done = this.#put(entries).finally(() => this.#underWay.delete(done));
    this.#underWay.add(done);
    return done;
  }

  /** Resolves when all puts under way have ended, successfully or not. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#underWay);
  }

  async #put(entries: readonly HistoryEntry[]): Promise<void> {
    for (const entry of entries) checkEntry(entry);
    const dated: DatedEntry[] = [];
    for (const entry of entries) dated.push({ entry, period: await this.#indices.periodOf(entry.at) });
    for (const bulk of bulksOf(latest(dated)))
      await (bulk.entries.length < LARGE_DOCUMENTS ? this.#send(bulk) : this.#sendInTurn(bulk));
  }

  #sendInTurn(bulk: Bulk): Promise<void> {
    let began = 0;
    const done = this.#lastLarge.then(() => {
      began = performance.now();
      return this.#send(bulk);
    });
    const rest = () => sleep(Math.min(LONGEST_REST_MS, performance.now() - began), undefined, { ref: false });
    this.#lastLarge = done.then(rest, rest);
    return done;
  }

  async #send(bulk: Bulk): Promise<void> {
    for (const period of new Set(bulk.entries.map((one) => one.period))) await this.#indices.open(period);
    const { withoutIndex, fault } = outcomeOf(await sendBulk(this.#connection, bulk.writes));
    for (const index of withoutIndex) this.#indices.forget(bulk.entries[index]?.period ?? '');
    if (fault !== undefined) throw fault;
  }
}

/** `InvalidInput` for an entry that could never be put. */
function checkEntry({ workspaceId, id, at, version, facets }: HistoryEntry): void {
  if (Object.keys(facets).length > MAX_HISTORY_FACETS)
    throw new InvalidInput(`an entry has at most ${MAX_HISTORY_FACETS} facets`);
  if (workspaceId.length > MAX_ID_LENGTH || id.length > MAX_ID_LENGTH)
    throw new InvalidInput(`the id and the workspace of an entry have at most ${MAX_ID_LENGTH} characters`);
  if (!Number.isInteger(at) || Math.abs(at) > MAX_TIME)
    throw new InvalidInput('the time of an entry is invalid');
  if (!Number.isSafeInteger(version) || version < 0)
    throw new InvalidInput('the version of an entry is a whole number from 0');
}

/** An entry and its period. */
interface DatedEntry {
  readonly entry: HistoryEntry;
  readonly period: string;
}

/** One bulk request. */
interface Bulk {
  readonly entries: readonly DatedEntry[];
  /** The lines of each. */
  readonly writes: readonly (readonly string[])[];
}

/** The highest version of each entry, the later of equal ones: the order within a request is not guaranteed. */
function latest(entries: readonly DatedEntry[]): readonly DatedEntry[] {
  const byId = new Map<string, DatedEntry>();
  for (const one of entries) {
    const { kind, workspaceId, id, version } = one.entry;
    const key = JSON.stringify([kind, workspaceId, id]);
    const before = byId.get(key);
    if (before === undefined || before.entry.version <= version) byId.set(key, one);
  }
  return [...byId.values()];
}

/** Requests of a bounded size, built lazily. */
function* bulksOf(entries: readonly DatedEntry[]): Generator<Bulk> {
  let start = 0;
  let characters = 0;
  let writes: (readonly string[])[] = [];
  for (const [index, one] of entries.entries()) {
    const document = JSON.stringify(documentOf(one.entry));
    writes.push([actionOf(one), document]);
    characters += document.length;
    const count = index + 1 - start;
    if (count < BULK_DOCUMENTS && characters < BULK_CHARACTERS && index + 1 < entries.length) continue;
    yield { entries: entries.slice(start, index + 1), writes };
    [start, characters, writes] = [index + 1, 0, []];
  }
}

/** A lower version than the stored one is refused; the same one replaces it. */
function actionOf({ entry, period }: DatedEntry): string {
  const { kind, workspaceId, id, version } = entry;
  return JSON.stringify({
    index: {
      _index: period,
      _id: documentId(kind, workspaceId, id),
      version,
      version_type: 'external_gte',
      require_alias: true,
    },
  });
}

interface BulkOutcome {
  /** The positions in the request of entries whose period has no index. */
  readonly withoutIndex: readonly number[];
  /** Absent when every entry was put, or ignored because a higher version is stored. */
  readonly fault?: InvalidInput | Unavailable;
}

const [CONFLICT, NOT_FOUND] = [409, 404];

/** `Unavailable` when any entry may succeed later: a repetition then finds those that never will. */
export function outcomeOf(answers: readonly (BulkAnswer | InvalidInput)[]): BulkOutcome {
  const withoutIndex: number[] = [];
  const faults: (InvalidInput | Unavailable)[] = [];
  for (const [index, answer] of answers.entries()) {
    if (answer instanceof InvalidInput) faults.push(answer);
    else if (answer.error !== undefined && answer.status !== CONFLICT) {
      faults.push(refused(answer.status, answer.error.type));
      if (answer.status === NOT_FOUND) withoutIndex.push(index);
    }
  }
  const fault = faults.find((one) => one instanceof Unavailable) ?? faults[0];
  return fault === undefined ? { withoutIndex } : { withoutIndex, fault };
}

/** Puts entries of another history as if they were put when they were put there, so that they expire as they would have. */
export interface HistoryImport {
  /** `putAt`: not before the last put of any of the entries, epoch ms. May be repeated. */
  put(entries: readonly HistoryEntry[], putAt: number): Promise<void>;
  /** Whether there is any index of a history. */
  exists(): Promise<boolean>;
  close(): Promise<void>;
}

export async function openHistoryImport(
  options: Omit<ElasticsearchHistoryOptions, 'clock' | 'retentionEveryMs'>,
): Promise<HistoryImport> {
  const { prefix, retentionMs, logger } = options;
  const connection = await ElasticsearchConnection.open(options);
  const base = `${indexPrefix(prefix)}history`;
  let now = 0;
  const indices = new PeriodIndices(connection, { base, clock: () => now, retentionMs, logger });
  const writer = new HistoryWriter(connection, indices);
  return {
    async put(entries, putAt) {
      now = putAt;
      await writer.put(entries);
    },
    exists: async () => (await indices.names()).length > 0,
    async close() {
      await writer.settled();
      await connection.close();
    },
  };
}
