import { InvalidInput, type Logger, NO_LOGGER, type ProfileScope, Unavailable } from '@tributary/core';
import { type ElasticsearchConnection, refused } from '../../elasticsearch/index.ts';
import { type BulkItem, resultOf } from './bulk-answers.ts';
import { linesOf, MAX_ID_BYTES } from './bulk-lines.ts';
import type {
  DocumentQuery,
  DocumentSource,
  Documents,
  DocumentWrite,
  StoredDocument,
  WriteResult,
} from './documents.ts';
import { holdsLive } from './holds-live.ts';
import { type ProfileIndexOptions, provideIndex } from './index-setup.ts';
import { SharedCalls } from './shared-calls.ts';

/** Requests of one kind under way at once: while one is carried out the next one fills. */
const IN_FLIGHT = 2;
/** A request of so many items costs no more an item than a larger one. */
const BESIDE_ITEMS = 64;
/** Several times what a request takes. */
const BESIDE_AFTER_MS = 10;
const WRITES_A_REQUEST = 500;
const CHARACTERS_A_REQUEST = 4_000_000;
const READS_A_REQUEST = 1_000;
/** Of what waits while Elasticsearch is slow: characters of writes, and documents to be read. */
const MAX_WAITING_CHARACTERS = 64 * 1024 * 1024;
const MAX_WAITING_READS = 50_000;

/** The index is to be made again. What else a document cannot be had for is not mended by that. */
const MISSING = 'index_not_found_exception';

/** A write with its lines made: once, also where it is sent again alone. */
interface PreparedWrite {
  readonly lines: readonly string[];
  readonly characters: number;
}

interface FoundDocument {
  readonly found?: boolean;
  readonly _seq_no?: number;
  readonly _primary_term?: number;
  readonly _source?: DocumentSource;
  readonly error?: { readonly type?: string };
}

/**
 * Documents in an index of Elasticsearch. What callers ask for at the same time shares requests; nothing is sent a
 * second time by itself. A request that was refused as a whole is sent again one by one, so that one write cannot spoil
 * those of others.
 */
export class ElasticsearchDocuments implements Documents {
  readonly #connection: ElasticsearchConnection;
  readonly #index: ProfileIndexOptions;
  readonly #reads: SharedCalls<string, StoredDocument | undefined>;
  readonly #writes: SharedCalls<PreparedWrite, WriteResult | Error>;
  readonly #logger: Logger;
  #provided: Promise<boolean> | undefined;
  /** The index was there: where it has to be made again, somebody removed it. */
  #wasThere = false;

  constructor(connection: ElasticsearchConnection, index: ProfileIndexOptions, logger: Logger = NO_LOGGER) {
    this.#connection = connection;
    this.#logger = logger;
    this.#index = index;
    this.#reads = new SharedCalls({
      send: (ids) => this.#sendReads(ids),
      inFlight: IN_FLIGHT,
      besideItems: BESIDE_ITEMS,
      besideAfterMs: BESIDE_AFTER_MS,
      maxItems: READS_A_REQUEST,
      maxSize: READS_A_REQUEST,
      sizeOf: () => 1,
      maxWaitingSize: MAX_WAITING_READS,
    });
    this.#writes = new SharedCalls({
      send: (writes) => this.#sendWrites(writes),
      inFlight: IN_FLIGHT,
      besideItems: BESIDE_ITEMS,
      besideAfterMs: BESIDE_AFTER_MS,
      maxItems: WRITES_A_REQUEST,
      maxSize: CHARACTERS_A_REQUEST,
      sizeOf: ({ characters }) => characters,
      maxWaitingSize: MAX_WAITING_CHARACTERS,
    });
  }

  async read(ids: readonly string[]): Promise<readonly (StoredDocument | undefined)[]> {
    for (const id of ids) checkId(id);
    await this.#provide();
    return this.#reads.call(ids);
  }

  async write(writes: readonly DocumentWrite[]): Promise<readonly WriteResult[]> {
    for (const { id } of writes) checkId(id);
    await this.#provide();
    const results = await this.#writes.call(writes.map((write) => prepared(write, this.#index.alias)));
    return results.map((result) => {
      if (result instanceof Error) throw result;
      return result;
    });
  }

  async find({ state, dirty, before, pending, limit }: DocumentQuery): Promise<readonly string[]> {
    await this.#provide();
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
    await this.#provide();
    return holdsLive(this.#connection, this.#index.alias, scope);
  }

  /** Makes the index at first use, and again after it was found missing. */
  async #provide(): Promise<void> {
    this.#provided ??= this.#provideIndex();
    try {
      await this.#provided;
    } catch (error) {
      this.#provided = undefined;
      throw error instanceof InvalidInput ? new Unavailable(error.message, { cause: error }) : error;
    }
  }

  async #provideIndex(): Promise<boolean> {
    const isMade = await provideIndex(this.#connection, this.#index);
    if (isMade && this.#wasThere)
      this.#logger.error(
        { index: this.#index.alias },
        'the index of the profiles was removed with all profiles in it, and was made again, empty: to have them back, stop all processes, delete it and restore a snapshot',
      );
    this.#wasThere = true;
    return isMade;
  }

  /** A document is asked for once, by how many callers ever; always the same copy answers. */
  async #sendReads(ids: readonly string[]): Promise<readonly (StoredDocument | undefined)[]> {
    const distinct = [...new Set(ids)];
    const { docs } = await this.#connection.call((client) =>
      client.mget<DocumentSource>({ index: this.#index.alias, ids: distinct, preference: 'tributary' }),
    );
    if (docs.length !== distinct.length)
      throw new Unavailable('Elasticsearch did not answer for every document');
    const found = new Map(distinct.map((id, index) => [id, this.#found(docs[index] as FoundDocument)]));
    return ids.map((id) => found.get(id));
  }

  #found(document: FoundDocument): StoredDocument | undefined {
    const { error, found, _seq_no: seqNo, _primary_term: primaryTerm, _source: source } = document;
    if (error !== undefined) {
      if (error.type === MISSING) this.#provided = undefined;
      throw new Unavailable(refused(0, error.type).message);
    }
    if (found !== true || source === undefined || seqNo === undefined || primaryTerm === undefined)
      return undefined;
    return { version: { seqNo, primaryTerm }, source };
  }

  /** A write that can never be taken is told to its caller alone. */
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
      results.push(result ?? new Unavailable('Elasticsearch did not answer for every write'));
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
    if (items.length !== writes.length) throw new Unavailable('Elasticsearch did not answer for every write');
    return items.map((item) => {
      const [answer] = Object.values(item) as readonly BulkItem[];
      const result = resultOf(answer ?? { status: 0 });
      if (answer?.status === 404 && result instanceof Unavailable) this.#provided = undefined;
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
    throw new InvalidInput(`the name of a document has 1 to ${MAX_ID_BYTES} bytes`);
}
