import { setTimeout as pause } from 'node:timers/promises';
import {
  InvalidInput,
  isInScope,
  type Logger,
  NO_LOGGER,
  Overloaded,
  type ProfileScope,
  Unavailable,
} from '@tributary/core';
import {
  type BulkAnswer,
  type ElasticsearchClient,
  type ElasticsearchConnection,
  errorTypeOf,
  refused,
  sendBulk,
} from '../../elasticsearch/index.ts';
import {
  type DocumentQuery,
  type DocumentSource,
  type Documents,
  type DocumentWrite,
  profileDocumentOf,
  type StoredDocument,
  type WriteResult,
} from './documents.ts';

/** Concurrent requests of one kind: the next one fills while one is carried out. */
const IN_FLIGHT = 2;
/** From this size on, a request costs no more per item than a larger one. */
const MIN_CONCURRENT_ITEMS = 64;
/** Several times the usual duration of a request. */
const SLOW_AFTER_MS = 10;
const WRITES_A_REQUEST = 500;
const CHARACTERS_A_REQUEST = 4_000_000;
const READS_A_REQUEST = 1_000;
/** Limits of the queues while Elasticsearch is slow: characters of writes, and documents to be read. */
const MAX_QUEUED_CHARACTERS = 64 * 1024 * 1024;
const MAX_QUEUED_READS = 50_000;

/** The one error of a document after which the index is created again. */
const MISSING = 'index_not_found_exception';

/** A write with the lines of its bulk request, which are made once even if it is sent again alone. */
interface PreparedWrite {
  readonly lines: readonly string[];
  readonly characters: number;
}

/** The requests that share connections' turns: reads and writes that are under way together. */
interface Lane {
  readonly reads: SharedRequests<string, StoredDocument | undefined>;
  readonly writes: SharedRequests<PreparedWrite, WriteResult | Error>;
}

interface LaneOptions {
  /** Concurrent requests of each kind. */
  readonly inFlight: number;
  readonly reads: number;
  readonly characters: number;
}

/** An owner with large documents: a request of it occupies the event loop for a few ms. */
const APART: LaneOptions = { inFlight: 1, reads: 8, characters: 1_000_000 };

interface FoundDocument {
  readonly found?: boolean;
  readonly _seq_no?: number;
  readonly _primary_term?: number;
  readonly _source?: DocumentSource;
  readonly error?: { readonly type?: string };
}

/**
 * Documents in an index of Elasticsearch. Concurrent reads share `_mget` requests, and concurrent writes `_bulk` requests.
 * Nothing is retried, with one exception: the writes of a bulk that was refused as a whole are sent again one by one, so
 * that an invalid write fails alone.
 */
export class ElasticsearchDocuments implements Documents {
  readonly #connection: ElasticsearchConnection;
  readonly #index: ProfileIndexOptions;
  readonly #lane: Lane;
  /** Lanes of owners with large documents that have requests. */
  readonly #apart = new Map<string, Lane>();
  readonly #logger: Logger;
  #ensured: Promise<void> | undefined;
  /** The index has existed. If it has to be created again, it was removed from outside. */
  #wasThere = false;

  constructor(connection: ElasticsearchConnection, index: ProfileIndexOptions, logger: Logger = NO_LOGGER) {
    this.#connection = connection;
    this.#logger = logger;
    this.#index = index;
    this.#lane = this.#openLane({
      inFlight: IN_FLIGHT,
      reads: READS_A_REQUEST,
      characters: CHARACTERS_A_REQUEST,
    });
  }

  read(ids: readonly string[]): Promise<readonly (StoredDocument | undefined)[]> {
    return this.#read(this.#lane, ids);
  }

  write(writes: readonly DocumentWrite[]): Promise<readonly WriteResult[]> {
    return this.#write(this.#lane, writes);
  }

  apartFor(owner: string): Pick<Documents, 'read' | 'write'> {
    const through = async <T>(call: (lane: Lane) => Promise<T>): Promise<T> => {
      const lane = this.#apart.get(owner) ?? this.#openLane(APART);
      this.#apart.set(owner, lane);
      try {
        return await call(lane);
      } finally {
        if (lane.reads.isIdle && lane.writes.isIdle && this.#apart.get(owner) === lane)
          this.#apart.delete(owner);
      }
    };
    return {
      read: (ids) => through((lane) => this.#read(lane, ids)),
      write: (writes) => through((lane) => this.#write(lane, writes)),
    };
  }

  #openLane({ inFlight, reads, characters }: LaneOptions): Lane {
    const shared = { inFlight, minConcurrentItems: MIN_CONCURRENT_ITEMS, slowAfterMs: SLOW_AFTER_MS };
    return {
      reads: new SharedRequests({
        ...shared,
        send: (ids) => this.#sendReads(ids),
        maxItems: reads,
        maxSize: reads,
        sizeOf: () => 1,
        maxQueueSize: MAX_QUEUED_READS,
      }),
      writes: new SharedRequests({
        ...shared,
        send: (writes) => this.#sendWrites(writes),
        maxItems: WRITES_A_REQUEST,
        maxSize: characters,
        sizeOf: (write) => write.characters,
        maxQueueSize: MAX_QUEUED_CHARACTERS,
      }),
    };
  }

  async #read(lane: Lane, ids: readonly string[]): Promise<readonly (StoredDocument | undefined)[]> {
    for (const id of ids) checkId(id);
    await this.#ensureIndex();
    return lane.reads.call(ids);
  }

  async #write(lane: Lane, writes: readonly DocumentWrite[]): Promise<readonly WriteResult[]> {
    for (const { id } of writes) checkId(id);
    await this.#ensureIndex();
    const results = await lane.writes.call(writes.map((write) => prepared(write, this.#index.alias)));
    return results.map((result) => {
      if (result instanceof Error) throw result;
      return result;
    });
  }

  async find({ state, dirty, before, pending, limit }: DocumentQuery): Promise<readonly string[]> {
    await this.#ensureIndex();
    const { hits } = await this.#connection.call((client) =>
      client.search({
        index: this.#index.alias,
        size: limit,
        _source: false,
        track_total_hits: false,
        allow_partial_search_results: false,
        sort: [{ updated_ts: 'asc' }],
        query: {
          bool: {
            filter: [
              ...(state === undefined ? [] : [{ terms: { state: [...state] } }]),
              ...(dirty === undefined ? [] : [{ term: { dirty } }]),
              ...(before === undefined ? [] : [{ range: { updated_ts: { lt: before } } }]),
              ...(pending === undefined
                ? []
                : [{ term: { pending_by: pending.by } }, { range: { pending_n: { gt: pending.after } } }]),
            ],
          },
        },
      }),
    );
    return hits.hits.flatMap(({ _id }) => (_id === undefined ? [] : [_id]));
  }

  async holdsLive(scope: ProfileScope | undefined): Promise<boolean> {
    await this.#ensureIndex();
    return holdsLive(this.#connection, this.#index.alias, scope);
  }

  /** Creates the index on first use, and again after it was found missing. */
  async #ensureIndex(): Promise<void> {
    this.#ensured ??= this.#createIndex();
    try {
      await this.#ensured;
    } catch (error) {
      this.#ensured = undefined;
      throw error instanceof InvalidInput ? new Unavailable(error.message, { cause: error }) : error;
    }
  }

  async #createIndex(): Promise<void> {
    const isCreated = await ensureIndex(this.#connection, this.#index);
    if (isCreated && this.#wasThere)
      this.#logger.error(
        { index: this.#index.alias },
        'the index of the profiles was deleted with all profiles in it; an empty one was created: to restore them, stop all processes, delete it and restore a snapshot',
      );
    this.#wasThere = true;
  }

  /** Reads each document once, however many callers need it. The fixed preference makes one replica answer always. */
  async #sendReads(ids: readonly string[]): Promise<readonly (StoredDocument | undefined)[]> {
    const distinct = [...new Set(ids)];
    const { docs } = await this.#connection.call((client) =>
      client.mget<DocumentSource>({ index: this.#index.alias, ids: distinct, preference: 'tributary' }),
    );
    if (docs.length !== distinct.length) throw new Unavailable('Elasticsearch did not return every document');
    const found = new Map(distinct.map((id, index) => [id, this.#stored(docs[index] as FoundDocument)]));
    return ids.map((id) => found.get(id));
  }

  #stored(document: FoundDocument): StoredDocument | undefined {
    const { error, found, _seq_no: seqNo, _primary_term: primaryTerm, _source: source } = document;
    if (error !== undefined) {
      if (error.type === MISSING) this.#ensured = undefined;
      throw new Unavailable(refused(0, error.type).message);
    }
    if (found !== true || source === undefined || seqNo === undefined || primaryTerm === undefined)
      return undefined;
    return { version: { seqNo, primaryTerm }, source };
  }

  async #sendWrites(writes: readonly PreparedWrite[]): Promise<readonly (WriteResult | Error)[]> {
    const answers = await sendBulk(
      this.#connection,
      writes.map(({ lines }) => lines),
    );
    return answers.map((answer) => {
      if (answer instanceof InvalidInput) return answer;
      const result = resultOf(answer);
      if (answer.status === NOT_FOUND && result instanceof Unavailable) this.#ensured = undefined;
      return result;
    });
  }
}

function prepared(write: DocumentWrite, alias: string): PreparedWrite {
  const lines = linesOf(write, alias);
  return { lines, characters: lines.reduce((sum, line) => sum + line.length, 0) };
}

function checkId(id: string): void {
  if (id === '' || Buffer.byteLength(id) > MAX_ID_BYTES)
    throw new InvalidInput(`the id of a document has 1 to ${MAX_ID_BYTES} bytes`);
}

/** Elasticsearch refuses the whole request if an id is longer. */
const MAX_ID_BYTES = 512;

/** The lines of one write in a bulk request. They require the alias: else a bulk would create an index without mapping. */
function linesOf({ id, expected, source }: DocumentWrite, alias: string): readonly string[] {
  const target = { _index: alias, _id: id, require_alias: true };
  if (expected === 'absent') return [JSON.stringify({ create: target }), JSON.stringify(source)];
  const condition = { ...target, if_seq_no: expected.seqNo, if_primary_term: expected.primaryTerm };
  return source === 'removed'
    ? [JSON.stringify({ delete: condition })]
    : [JSON.stringify({ index: condition }), JSON.stringify(source)];
}

const [CONFLICT, NOT_FOUND] = [409, 404];

/** The result of one write, or its error: `Unavailable` when it may have been applied or may be repeated. */
function resultOf(answer: BulkAnswer): WriteResult | InvalidInput | Unavailable {
  const { status, _seq_no: seqNo, _primary_term: primaryTerm, error } = answer;
  // Deleting a missing document is 404 without an error; a missing index is 404 with one.
  if (status === CONFLICT || (status === NOT_FOUND && error === undefined)) return 'conflict';
  if (error !== undefined || seqNo === undefined || primaryTerm === undefined)
    return status === NOT_FOUND
      ? new Unavailable('the index of the profiles is missing')
      : refused(status, error?.type);
  return { seqNo, primaryTerm };
}

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

interface ProfileIndexOptions {
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
async function holdsLive(
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

function isIn(scope: ProfileScope, source: DocumentSource): boolean {
  const document = profileDocumentOf({ version: { seqNo: 0, primaryTerm: 0 }, source });
  if (document?.state !== 'live' && document?.state !== 'redirect') return false;
  return isInScope(document.content.profile, scope);
}

interface SharedCallsOptions<Item, Answer> {
  /** Sends one request; resolves to its answers in the order of the items. */
  readonly send: (items: readonly Item[]) => Promise<readonly Answer[]>;
  /** Most concurrent requests. */
  readonly inFlight: number;
  /** Least number of items for which a further request starts while one is in flight; fewer wait for its end. */
  readonly minConcurrentItems: number;
  /** After how long a request in flight counts as slow, ms: then any number of items may start another one. */
  readonly slowAfterMs: number;
  readonly maxItems: number;
  /** Largest request by `sizeOf`; a larger item is sent alone. */
  readonly maxSize: number;
  readonly sizeOf: (item: Item) => number;
  /** Largest queue by `sizeOf`; a call beyond it is refused. */
  readonly maxQueueSize: number;
}

interface QueuedItem<Item, Answer> {
  readonly item: Item;
  /** By `performance.now()`. */
  readonly queuedAt: number;
  readonly answer: (answer: Answer) => void;
  readonly fail: (error: unknown) => void;
}

/**
 * Combines the items of many callers into one request: items of one turn of the event loop, or that come while a request
 * is in flight, share the next one. So there is no delay without load, and requests grow with it. A request starts at the
 * end of the turn, because callers that were just answered call again in it. Otherwise callers would fall apart into
 * groups with small requests of their own, and a small request costs the engine nearly as much as a large one.
 */
export class SharedRequests<Item, Answer> {
  readonly #options: SharedCallsOptions<Item, Answer>;
  #queue: QueuedItem<Item, Answer>[] = [];
  #queueSize = 0;
  #inFlight = 0;
  /** Start of the youngest request, by `performance.now()`. */
  #startedAt = 0;
  #scheduled = false;
  /** Fires when the youngest request becomes slow. */
  #slowTimer: NodeJS.Timeout | undefined;

  constructor(options: SharedCallsOptions<Item, Answer>) {
    this.#options = options;
  }

  /**
   * The answers to all items, in their order. Rejects with the first failure among them, once all are settled; with
   * `Overloaded`, and nothing sent, when the queue is full.
   */
  call(items: readonly Item[]): Promise<readonly Answer[]> {
    if (items.length === 0) return Promise.resolve([]);
    const { sizeOf, maxQueueSize } = this.#options;
    const size = items.reduce((sum, item) => sum + sizeOf(item), 0);
    if (this.#queueSize > 0 && this.#queueSize + size > maxQueueSize)
      return Promise.reject(new Overloaded('too many calls wait for Elasticsearch'));
    this.#queueSize += size;
    const queuedAt = performance.now();
    return new Promise((resolve, reject) => {
      const answers = new Array<Answer>(items.length);
      let open = items.length;
      let failure: { readonly error: unknown } | undefined;
      const settle = () => {
        if (--open > 0) return;
        if (failure === undefined) resolve(answers);
        else reject(failure.error);
      };
      for (const [index, item] of items.entries()) {
        this.#queue.push({
          item,
          queuedAt,
          answer: (answer) => {
            answers[index] = answer;
            settle();
          },
          fail: (error) => {
            failure ??= { error };
            settle();
          },
        });
      }
      this.#schedule();
    });
  }

  /** Whether nothing is queued or under way. */
  get isIdle(): boolean {
    return this.#queue.length === 0 && this.#inFlight === 0;
  }

  /** Starts requests at the end of this turn. */
  #schedule(): void {
    if (this.#scheduled || !this.#mayStart) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#start();
    });
  }

  #start(): void {
    while (this.#mayStart) {
      const request = this.#next();
      this.#inFlight++;
      this.#startedAt = performance.now();
      void this.#send(request).finally(() => {
        this.#inFlight--;
        if (this.#inFlight === 0) clearTimeout(this.#slowTimer);
        this.#schedule();
      });
      this.#startWhenSlow();
    }
  }

  /** A timer counts from the start of the turn that sets it, so it may fire early; then it is set again for the rest. */
  #startWhenSlow(): void {
    clearTimeout(this.#slowTimer);
    const untilSlowMs = this.#untilSlowMs;
    if (untilSlowMs <= 0) this.#schedule();
    else this.#slowTimer = setTimeout(() => this.#startWhenSlow(), untilSlowMs);
  }

  /** Time until the youngest request is slow, ms; 0 or less once it is. */
  get #untilSlowMs(): number {
    return this.#startedAt + this.#options.slowAfterMs - performance.now();
  }

  get #mayStart(): boolean {
    const { inFlight, minConcurrentItems } = this.#options;
    const isAlone = this.#inFlight === 0 || this.#untilSlowMs <= 0;
    const enough = isAlone ? 1 : minConcurrentItems;
    return this.#inFlight < inFlight && this.#queue.length >= enough;
  }

  #next(): readonly QueuedItem<Item, Answer>[] {
    const { maxItems, maxSize, sizeOf } = this.#options;
    let [count, size] = [0, 0];
    for (const { item } of this.#queue) {
      size += sizeOf(item);
      if (count > 0 && (count >= maxItems || size > maxSize)) break;
      count++;
    }
    return this.#dequeued(this.#queue.splice(0, count));
  }

  #dequeued(items: readonly QueuedItem<Item, Answer>[]): readonly QueuedItem<Item, Answer>[] {
    for (const { item } of items) this.#queueSize -= this.#options.sizeOf(item);
    return items;
  }

  /** Dequeues the items that were queued before the time. The queue is in order of arrival. */
  #queuedBefore(time: number): readonly QueuedItem<Item, Answer>[] {
    const later = this.#queue.findIndex(({ queuedAt }) => queuedAt >= time);
    return this.#dequeued(this.#queue.splice(0, later < 0 ? this.#queue.length : later));
  }

  async #send(request: readonly QueuedItem<Item, Answer>[]): Promise<void> {
    const startedAt = this.#startedAt;
    try {
      const answers = await this.#options.send(request.map(({ item }) => item));
      for (const [index, { answer }] of request.entries()) answer(answers[index] as Answer);
    } catch (error) {
      // The engine does not answer: items queued before the request fail as well, instead of waiting for another timeout.
      const others = error instanceof Unavailable ? this.#queuedBefore(startedAt) : [];
      for (const { fail } of [...request, ...others]) fail(error);
    }
  }
}
