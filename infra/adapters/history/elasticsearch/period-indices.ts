import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Clock, InvalidInput, type Logger, Unavailable } from '@tributary/core';
import {
  type ElasticsearchClient,
  type ElasticsearchConnection,
  errorTypeOf,
  refused,
} from '../../elasticsearch/index.ts';
import { MAPPING } from './document.ts';
import { isExpired, isLeased, MARKER_ID, type Marker } from './period-marker.ts';
import { periodDaysFor, periodDaysOf, periodOf } from './periods.ts';

/** Attempts to put into a period while others do, and while the shard of its index starts; with their pauses 1 s. */
const TRIES = 10;
const PAUSE_MS = 20;

export interface PeriodIndicesOptions {
  /** The alias of all indices, and what their names begin with. */
  readonly base: string;
  readonly clock: Clock;
  readonly retentionMs: number;
  readonly logger: Logger;
}

interface StoredMarker {
  /** The one index of the period. */
  readonly index: string;
  /** Absent where the index was made and its maker did not get further. */
  readonly marker?: Marker & { readonly seqNo: number; readonly primaryTerm: number };
}

/**
 * The dated indices. Which one an entry belongs to is decided by its `at`, which never changes, so it is never in two.
 * A period is dropped whole once its marker says that nobody has put into it for the retention: the marker is first
 * compared-and-set to condemned, after which nobody puts, and an index that is made for the same period later has
 * another name, so a late deletion cannot meet it.
 */
export class PeriodIndices {
  readonly #connection: ElasticsearchConnection;
  readonly #options: PeriodIndicesOptions;
  /** Since when this process may put into a period. */
  readonly #leases = new Map<string, number>();
  readonly #opening = new Map<string, Promise<void>>();
  #days: number | undefined;

  constructor(connection: ElasticsearchConnection, options: PeriodIndicesOptions) {
    this.#connection = connection;
    this.#options = options;
  }

  /** The alias of the period that entries of a time are put into. Its length is that of the first ones, as long as any exist. */
  async periodOf(at: number): Promise<string> {
    const { base, retentionMs } = this.#options;
    if (this.#days === undefined) {
      const lengths = (await this.names()).flatMap((name) => periodDaysOf(name, base) ?? []);
      this.#days = lengths[0] ?? periodDaysFor(retentionMs);
    }
    return periodOf(at, this.#days, base);
  }

  /**
   * Resolves once this process may put into a period: its index is there and will not be dropped meanwhile. The marker
   * is always written for that, even where another just did: what is read may not be durable yet.
   */
  async open(period: string): Promise<void> {
    if (isLeased(this.#leases.get(period), this.#options.clock())) return;
    const opening = this.#opening.get(period) ?? this.#touch(period);
    this.#opening.set(period, opening);
    await opening.finally(() => this.#opening.delete(period));
  }

  /** Looks again whether the period is there before the next put. */
  forget(period: string): void {
    this.#leases.delete(period);
  }

  /** The names of all indices there are. */
  async names(): Promise<readonly string[]> {
    const { base } = this.#options;
    const { statusCode, body } = await this.#ask((client) =>
      client.indices.getAlias({ name: base }, { ignore: [404], meta: true }),
    );
    return statusCode === 404 ? [] : Object.keys(body);
  }

  /** Deletes every index that is past its time. One without a marker gets it, and its time begins. */
  async dropExpired(): Promise<void> {
    const { clock, retentionMs } = this.#options;
    for (const index of await this.names()) {
      const stored = await this.#read(index);
      if (stored === undefined || stored === 'starting') continue;
      const { marker } = stored;
      if (marker === undefined) await this.#mark(stored, clock());
      else if (marker.condemned || isExpired(marker, clock(), retentionMs)) await this.#drop(stored, marker);
    }
  }

  async #touch(period: string): Promise<void> {
    let why = 'others were faster every time';
    for (let attempt = 0; attempt < TRIES; attempt++) {
      await sleep(attempt * PAUSE_MS);
      const now = this.#options.clock();
      const stored = await this.#read(period);
      if (stored === 'starting') why = 'its shard does not start';
      else if (stored === undefined) why = (await this.#create(period)) ?? why;
      else if (stored.marker?.condemned) await this.#drop(stored, stored.marker);
      else if (await this.#mark(stored, Math.max(now, stored.marker?.touched_at ?? now))) {
        this.#leases.set(period, now);
        return;
      }
    }
    throw new Unavailable(`the index of ${period} cannot be put into: ${why}`);
  }

  /** By the name of an index, or by its period; undefined where there is none. */
  async #read(name: string): Promise<StoredMarker | 'starting' | undefined> {
    const { statusCode, body } = await this.#ask((client) =>
      client.get<{ marker: Marker }>({ index: name, id: MARKER_ID }, { ignore: [404, 503], meta: true }),
    );
    if (statusCode === 503) return 'starting';
    if (body._index === undefined) return undefined;
    const { _index: index, _source: source, _seq_no: seqNo, _primary_term: primaryTerm } = body;
    if (statusCode === 404 || source === undefined || seqNo === undefined || primaryTerm === undefined)
      return { index };
    return { index, marker: { ...source.marker, seqNo, primaryTerm } };
  }

  /**
   * Condemns an index and deletes it. One that was found condemned is condemned again first: what is read may not be
   * durable yet, and after a failover somebody might put into what is deleted here.
   */
  async #drop(stored: StoredMarker, { touched_at }: Marker): Promise<void> {
    if (!(await this.#mark(stored, touched_at, true))) return;
    const { statusCode } = await this.#ask((client) =>
      client.indices.delete({ index: stored.index }, { ignore: [404], meta: true }),
    );
    if (statusCode !== 404)
      this.#options.logger.info({ index: stored.index }, 'history past its time was dropped');
  }

  /** Writes the marker unless another did since it was read: whether it was written. */
  async #mark({ index, marker }: StoredMarker, touchedAt: number, condemned = false): Promise<boolean> {
    if (marker === undefined) await this.#enlist(index);
    const expected =
      marker === undefined
        ? ({ op_type: 'create' } as const)
        : { if_seq_no: marker.seqNo, if_primary_term: marker.primaryTerm };
    const { statusCode } = await this.#ask((client) =>
      client.index(
        { index, id: MARKER_ID, document: { marker: { touched_at: touchedAt, condemned } }, ...expected },
        { ignore: [409], meta: true },
      ),
    );
    return statusCode !== 409;
  }

  /** Lets readers see an index whose shard runs, before its first entry: one that starts would have them all refused. */
  async #enlist(index: string): Promise<void> {
    await this.#ask((client) => client.indices.putAlias({ index, name: this.#options.base }));
  }

  /** Makes the index of a period; what the server said when it did not, e.g. as another process was faster. */
  async #create(period: string): Promise<string | undefined> {
    const index = `${period}-${randomBytes(4).toString('hex')}`;
    const { statusCode, body } = await this.#ask((client) =>
      client.indices.create(indexOf(index, period), { ignore: [400, 500], meta: true }),
    );
    return statusCode === 200 ? undefined : refused(statusCode ?? 0, errorTypeOf(body)).message;
  }

  /** No entry is at fault for what is refused here, e.g. as an index was closed: all of it passes. */
  async #ask<T>(work: (client: ElasticsearchClient) => Promise<T>): Promise<T> {
    try {
      return await this.#connection.call(work);
    } catch (error) {
      throw error instanceof InvalidInput ? new Unavailable(error.message, { cause: error }) : error;
    }
  }
}

/**
 * An index that is put into by the name of its period. It is refreshed twice a second, so that what was put is listed
 * within one. It has one shard unless a template of the operator says otherwise, and a copy where there is a second node.
 */
function indexOf(index: string, period: string): Parameters<ElasticsearchClient['indices']['create']>[0] {
  return {
    index,
    aliases: { [period]: { is_write_index: true } },
    mappings: MAPPING,
    settings: { refresh_interval: '500ms', auto_expand_replicas: '0-1' },
  };
}
