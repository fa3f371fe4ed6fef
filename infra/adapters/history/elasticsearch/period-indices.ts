import { hash, randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Clock,
  groupIdOf,
  type HistoryEntry,
  type HistoryKind,
  InvalidInput,
  type JsonObject,
  type Logger,
  parseExact,
  Unavailable,
} from '@tributary/core';
import {
  type ElasticsearchClient,
  type ElasticsearchConnection,
  errorTypeOf,
  refused,
} from '../../elasticsearch/index.ts';

/** Attempts to open a period while other processes do, and while its shard starts: 1 s with their pauses. */
const ATTEMPTS = 10;
const PAUSE_MS = 20;

/** The document in a period's index that states until when processes may put. Not listed, as it has no kind. */
const MARKER_ID = 'marker';

/** How long a process may put into a period after it wrote the marker, ms: no put is later than its time plus this. */
export const LEASE_MS = 60 * 60 * 1000;

/** Allowance for clock differences of processes and for the duration of a put, ms. */
const LEEWAY_MS = 60 * 60 * 1000;

const DAY_MS = 24 * 60 * 60 * 1000;

/** Approximate number of periods, each with an index, that exist at a time. */
const KEPT_PERIODS = 60;

interface Marker {
  /** Epoch ms: the last time that a process announced to put into this period. */
  readonly touched_at: number;
  /** The index is going to be deleted: nothing may be put into it again. */
  readonly condemned: boolean;
}

interface PeriodIndicesOptions {
  /** The alias of all indices, and the prefix of their names. */
  readonly base: string;
  readonly clock: Clock;
  readonly retentionMs: number;
  readonly logger: Logger;
}

interface StoredMarker {
  /** The only index of the period. */
  readonly index: string;
  /** Absent when the process that created the index did not write it yet. */
  readonly marker?: Marker & { readonly seqNo: number; readonly primaryTerm: number };
}

/**
 * The dated indices.
 *
 * - An entry belongs to the period of its `at`, which never changes, so it is never in two indices.
 * - A period is dropped whole once its marker shows no put for the retention. The marker is first set to condemned, by
 *   compare-and-set, after which no process puts into the index. A later index of the same period has another name, so a
 *   late deletion cannot remove it.
 */
export class PeriodIndices {
  readonly #connection: ElasticsearchConnection;
  readonly #options: PeriodIndicesOptions;
  /** The time from which this process may put into each period. */
  readonly #leases = new Map<string, number>();
  readonly #opening = new Map<string, Promise<void>>();
  /** Indices that have all fields of the mapping. */
  readonly #mapped = new Set<string>();
  #days: number | undefined;

  constructor(connection: ElasticsearchConnection, options: PeriodIndicesOptions) {
    this.#connection = connection;
    this.#options = options;
  }

  /** The alias of the period of a time. All periods are as long as the existing ones, whatever the retention is now. */
  async periodOf(at: number): Promise<string> {
    const { base, retentionMs } = this.#options;
    if (this.#days === undefined) {
      const lengths = (await this.names()).flatMap((name) => periodDaysOf(name, base) ?? []);
      this.#days = lengths[0] ?? periodDaysFor(retentionMs);
    }
    return periodOf(at, this.#days, base);
  }

  /**
   * Resolves once this process may put into a period: its index exists and will not be dropped meanwhile. Always writes the
   * marker, even if another process just did: a marker that was read may not be durable yet.
   */
  async open(period: string): Promise<void> {
    if (isLeased(this.#leases.get(period), this.#options.clock())) return;
    const opening = this.#opening.get(period) ?? this.#touch(period);
    this.#opening.set(period, opening);
    await opening.finally(() => this.#opening.delete(period));
  }

  /** Makes the next put check again that the period exists. */
  forget(period: string): void {
    this.#leases.delete(period);
  }

  /** The names of all existing indices. */
  async names(): Promise<readonly string[]> {
    const { base } = this.#options;
    const { statusCode, body } = await this.#ask((client) =>
      client.indices.getAlias({ name: base }, { ignore: [404], meta: true }),
    );
    return statusCode === 404 ? [] : Object.keys(body);
  }

  /** Deletes expired indices. An index without a marker gets one, so that its retention begins. */
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
    let reason = 'other processes wrote the marker first';
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      await sleep(attempt * PAUSE_MS);
      const now = this.#options.clock();
      const stored = await this.#read(period);
      if (stored === 'starting') reason = 'its shard does not start';
      else if (stored === undefined) reason = (await this.#create(period)) ?? reason;
      else if (stored.marker?.condemned) await this.#drop(stored, stored.marker);
      else if (!(await this.#map(stored.index))) reason = 'its index was dropped';
      else if (await this.#mark(stored, Math.max(now, stored.marker?.touched_at ?? now))) {
        this.#leases.set(period, now);
        return;
      }
    }
    throw new Unavailable(`the index of ${period} cannot be written to: ${reason}`);
  }

  /**
   * Adds the fields that an index of an older release lacks. False when the index is gone. Mapped indices are remembered by
   * their names, which are never used twice.
   */
  async #map(index: string): Promise<boolean> {
    if (this.#mapped.has(index)) return true;
    const { statusCode } = await this.#ask((client) =>
      client.indices.putMapping(
        { index, properties: { group: MAPPING.properties.group } },
        { ignore: [404], meta: true },
      ),
    );
    if (statusCode === 404) return false;
    this.#mapped.add(index);
    return true;
  }

  /** Takes the name of an index, or of a period. Undefined when there is none. */
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
   * Condemns an index and deletes it. Condemns it again if the marker was condemned already: the marker may not be durable
   * yet, and after a failover another process could put into the deleted index.
   */
  async #drop(stored: StoredMarker, { touched_at }: Marker): Promise<void> {
    if (!(await this.#mark(stored, touched_at, true))) return;
    const { statusCode } = await this.#ask((client) =>
      client.indices.delete({ index: stored.index }, { ignore: [404], meta: true }),
    );
    if (statusCode !== 404) this.#options.logger.info({ index: stored.index }, 'expired history was dropped');
  }

  /** Writes the marker unless another process did since it was read. Returns whether it was written. */
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

  /** Adds an index to the readers' alias once its shard has started, before its first entry: a starting shard fails all reads. */
  async #enlist(index: string): Promise<void> {
    await this.#ask((client) => client.indices.putAlias({ index, name: this.#options.base }));
  }

  /** Creates the index of a period. Returns the error when it failed, e.g. because another process was faster. */
  async #create(period: string): Promise<string | undefined> {
    const index = `${period}-${randomBytes(4).toString('hex')}`;
    const { statusCode, body } = await this.#ask((client) =>
      client.indices.create(indexOf(index, period), { ignore: [400, 500], meta: true }),
    );
    return statusCode === 200 ? undefined : refused(statusCode ?? 0, errorTypeOf(body)).message;
  }

  /** A refusal of these requests, e.g. for a closed index, is temporary and not the fault of an entry. */
  async #ask<T>(work: (client: ElasticsearchClient) => Promise<T>): Promise<T> {
    try {
      return await this.#connection.call(work);
    } catch (error) {
      throw error instanceof InvalidInput ? new Unavailable(error.message, { cause: error }) : error;
    }
  }
}

/**
 * The settings of a new index, with its period as write alias. Refreshed twice a second, so that entries are listed within
 * one. One shard, unless an operator's template sets another number, and a replica where there is a second node.
 */
function indexOf(index: string, period: string): Parameters<ElasticsearchClient['indices']['create']>[0] {
  return {
    index,
    aliases: { [period]: { is_write_index: true } },
    mappings: MAPPING,
    settings: { refresh_interval: '500ms', auto_expand_replicas: '0-1' },
  };
}

/** Whether all entries of the period are past the retention. */
export function isExpired({ touched_at }: Marker, now: number, retentionMs: number): boolean {
  return touched_at + LEASE_MS + LEEWAY_MS + retentionMs < now;
}

/** Whether a process that wrote the marker at `since` may still put; false when the clock was set back meanwhile. */
export function isLeased(since: number | undefined, now: number): boolean {
  return since !== undefined && since <= now && now < since + LEASE_MS;
}

/** The length of the first period in days: one, or more when the retention is long. */
export function periodDaysFor(retentionMs: number): number {
  return Math.max(1, Math.ceil(retentionMs / DAY_MS / KEPT_PERIODS));
}

/** The name of the period of a time, e.g. `tributary-history-1d-2026.11.22`: an alias of its only index. */
export function periodOf(at: number, days: number, base: string): string {
  const length = days * DAY_MS;
  const start = new Date(Math.floor(at / length) * length);
  return `${base}-${days}d-${start.toISOString().slice(0, -'T00:00:00.000Z'.length).replaceAll('-', '.')}`;
}

/** The length in days of the period that an index belongs to; undefined for a foreign index. */
export function periodDaysOf(index: string, base: string): number | undefined {
  const days = Number(/^-(\d{1,4})d-/.exec(index.slice(base.length))?.[1] ?? Number.NaN);
  return index.startsWith(base) && days >= 1 ? days : undefined;
}

/**
 * The mapping of every index. Fields for filters and sorting are indexed. The entry itself is a text that is only stored,
 * so that none can be refused for its depth, field names or long values. The marker is that of a period; `PeriodIndices`
 * adds the field `group` to indices of older releases.
 */
const MAPPING = {
  dynamic: 'strict',
  properties: {
    kind: { type: 'keyword', doc_values: false },
    workspace_id: { type: 'keyword', doc_values: false },
    facets: { type: 'keyword', doc_values: false },
    group: { type: 'keyword', index: false },
    at: { type: 'long' },
    id: { type: 'keyword', index: false },
    entry: { type: 'object', enabled: false },
    marker: { type: 'object', enabled: false },
  },
} as const;

/** The stored form of an entry. */
export interface HistoryDocument {
  readonly kind: HistoryKind;
  readonly workspace_id: string;
  /** `facetTerms` of the facets, with the id of the group as the facet without a name. */
  readonly facets: readonly string[];
  /** The values of the group as JSON, to be counted by. */
  readonly group?: string;
  readonly at: number;
  readonly id: string;
  /** The entry as JSON; an entry with a detail in two texts, so that a list can leave the detail out. */
  readonly entry: string | { readonly listed: string; readonly detail?: string };
}

/** The field that a search without details excludes. */
export const DETAIL_FIELD = 'entry.detail';

export function documentOf(entry: HistoryEntry): HistoryDocument {
  const { kind, workspaceId, facets, group, at, id } = entry;
  return {
    kind,
    workspace_id: workspaceId,
    facets: facetTerms(facets, group && groupIdOf(group)),
    ...(group === undefined ? {} : { group: groupText(group) }),
    at,
    id,
    entry: storedOf(entry),
  };
}

function storedOf({ detail, group: _, ...entry }: HistoryEntry): HistoryDocument['entry'] {
  const listed = JSON.stringify(entry);
  return detail === undefined ? listed : { listed, detail: JSON.stringify(detail) };
}

export function entryOf({ entry }: HistoryDocument): HistoryEntry {
  if (typeof entry === 'string') return parseExact(entry) as HistoryEntry;
  const listed = parseExact(entry.listed) as HistoryEntry;
  return entry.detail === undefined ? listed : { ...listed, detail: parseExact(entry.detail) as JsonObject };
}

/** The document id: of fixed length, whatever the entry's id, and distinct for each workspace. */
export function documentId(kind: HistoryKind, workspaceId: string, id: string): string {
  return hash('sha256', JSON.stringify([kind, workspaceId, id]), 'base64url');
}

/** The values of a group as a text, the same for the same values. */
function groupText(values: Readonly<Record<string, string>>): string {
  return JSON.stringify(Object.fromEntries(Object.entries(values).sort(([a], [b]) => (a < b ? -1 : 1))));
}

/** The index terms of facets: hashes of fixed length, so that values of any length and content match exactly. */
export function facetTerms(facets: HistoryEntry['facets'], groupId?: string): readonly string[] {
  const all = [...Object.entries(facets), ...(groupId === undefined ? [] : [['', groupId]])];
  return all.map((facet) => hash('sha256', JSON.stringify(facet), 'base64url').slice(0, 22));
}
