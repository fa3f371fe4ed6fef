import { InvalidInput, type Logger, NO_LOGGER, type ProfileScope, Unavailable } from '@tributary/core';
import { type ElasticsearchConnection, refused } from '../../../elasticsearch/index.ts';
import type {
  DocumentQuery,
  DocumentSource,
  Documents,
  DocumentWrite,
  StoredDocument,
  WriteResult,
} from '../documents.ts';
import { ensureIndex, holdsLive, type ProfileIndexOptions } from './profile-index.ts';
import { SharedRequests } from './shared-requests.ts';

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

  /** An invalid write fails alone: the others of its request are sent again. */
  async #sendWrites(writes: readonly PreparedWrite[]): Promise<readonly (WriteResult | Error)[]> {
    try {
      return await this.#request(writes);
    } catch (error) {
      if (!(error instanceof InvalidInput)) throw error;
      if (writes.length === 1) return [error];
    }
    const results: (WriteResult | Error)[] = [];
    for (const write of writes) {
      const [result] = await this.#sendWrites([write]).catch((error) => [error as Error]);
      results.push(result ?? new Unavailable('Elasticsearch did not return a result for every write'));
    }
    return results;
  }

  async #request(writes: readonly PreparedWrite[]): Promise<readonly (WriteResult | Error)[]> {
    const { items = [] } = await this.#connection.call((client) =>
      client.bulk({
        operations: writes.flatMap(({ lines }) => lines),
        filter_path: ['items.*.status', 'items.*._seq_no', 'items.*._primary_term', 'items.*.error.type'],
      }),
    );
    if (items.length !== writes.length)
      throw new Unavailable('Elasticsearch did not return a result for every write');
    return items.map((item) => {
      const [answer] = Object.values(item) as readonly BulkItem[];
      const result = resultOf(answer ?? { status: 0 });
      if (answer?.status === 404 && result instanceof Unavailable) this.#ensured = undefined;
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
export const MAX_ID_BYTES = 512;

/** The lines of one write in a bulk request. They require the alias: else a bulk would create an index without mapping. */
export function linesOf({ id, expected, source }: DocumentWrite, alias: string): readonly string[] {
  const target = { _index: alias, _id: id, require_alias: true };
  if (expected === 'absent') return [JSON.stringify({ create: target }), JSON.stringify(source)];
  const condition = { ...target, if_seq_no: expected.seqNo, if_primary_term: expected.primaryTerm };
  return source === 'removed'
    ? [JSON.stringify({ delete: condition })]
    : [JSON.stringify({ index: condition }), JSON.stringify(source)];
}

/** The result of one write in the response to a bulk. */
export interface BulkItem {
  readonly status: number;
  readonly _seq_no?: number;
  readonly _primary_term?: number;
  readonly error?: { readonly type?: string };
}

const [CONFLICT, NOT_FOUND] = [409, 404];

/** The result of one write, or its error: `Unavailable` when it may have been applied or may be repeated. */
export function resultOf(item: BulkItem): WriteResult | InvalidInput | Unavailable {
  const { status, _seq_no: seqNo, _primary_term: primaryTerm, error } = item;
  // Deleting a missing document is 404 without an error; a missing index is 404 with one.
  if (status === CONFLICT || (status === NOT_FOUND && error === undefined)) return 'conflict';
  if (error !== undefined || seqNo === undefined || primaryTerm === undefined)
    return status === NOT_FOUND
      ? new Unavailable('the index of the profiles is missing')
      : refused(status, error?.type);
  return { seqNo, primaryTerm };
}
