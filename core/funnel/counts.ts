import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { EventLog, LogEntry } from '../log/event-log.ts';
import type { CountsForm, OutputRecord } from '../log/stage.ts';
import { HEADER, TOPIC } from '../log/topics.ts';
import {
  type CountsBatch,
  type FunnelIncrement,
  funnelLatencyBucket,
  type KeyUse,
  MAX_FUNNEL_SAMPLES,
  measureText,
  type ScopeBytes,
} from '../ports/counters.ts';
import { InvalidInput, TributaryError } from '../primitives/errors.ts';
import { parseObject } from '../primitives/json.ts';
import { BytesTally } from './bytes.ts';
import {
  type CountedEvent,
  type FunnelNote,
  type LeftOutNote,
  type LeftOutRule,
  PathMap,
  type StageNote,
} from './notes.ts';

/*
 * How an event is counted once: a stage gives a note for each event; a commit sums up its notes in a `Tally` and appends the
 * sums to `funnel.counts` with its output records; the stage `funnel` adds up these records.
 */

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** Characters of a record of counts, about: far below what a log takes. */
const RECORD_CHARS = 48 * 1024;

const VERSION = 1;

/** A cell in a record: an array, as names of fields would be most of it. */
type StoredCell = readonly [
  workspaceId: string,
  environment: FunnelIncrement['environment'],
  source: string,
  key: string,
  type: FunnelIncrement['type'],
  name: string | null,
  rule: string,
  destination: string,
  minute: number,
  measures: string,
  count: number,
  samples: readonly string[],
  latencies?: Readonly<Record<string, number>>,
];

/** The sum of the notes of a tally for a cell and its measures. */
class Sum {
  /** An event of the cell. */
  readonly event: CountedEvent;
  count = 0;
  /** The last event, epoch ms. */
  last = 0;
  latencies: Record<string, number> | undefined;
  /** The last ids, as a ring. */
  readonly #samples: string[] = [];
  #next = 0;

  constructor(event: CountedEvent) {
    this.event = event;
  }

  add({ messageId, receivedAt }: CountedEvent, count = 1): void {
    this.count += count;
    if (receivedAt > this.last) this.last = receivedAt;
    this.#samples[this.#next] = messageId;
    this.#next = (this.#next + 1) % MAX_FUNNEL_SAMPLES;
  }

  addLatency(ms: number): void {
    const bucket = funnelLatencyBucket(ms);
    this.latencies ??= {};
    this.latencies[bucket] = (this.latencies[bucket] ?? 0) + 1;
  }

  get minute(): number {
    return minuteOf(this.event) * MINUTE_MS;
  }

  /** Oldest first. */
  get samples(): readonly string[] {
    const samples = this.#samples;
    if (samples.length < MAX_FUNNEL_SAMPLES) return samples;
    return [...samples.slice(this.#next), ...samples.slice(0, this.#next)];
  }
}

/** The counts of entries that are committed together: their notes summed up by cell, and their bytes. */
export class Tally {
  readonly bytes = new BytesTally();
  readonly #places = new PathMap<unknown, Sum>();
  readonly #sums = new Map<Sum, FunnelNote>();
  readonly #leftOut = new Map<Sum, readonly LeftOutRule[]>();

  static of(notes: Iterable<StageNote>): Tally {
    const tally = new Tally();
    for (const note of notes) tally.add(note);
    return tally;
  }

  add(note: StageNote): void {
    if ('scope' in note) this.bytes.add(note);
    else if ('leftOut' in note) this.#addLeftOut(note);
    else this.#addNote(note);
  }

  #addNote(note: FunnelNote): void {
    const { event, rule, destination, measures, count, latencyMs } = note;
    const place = this.#places.at(event.kind).at(minuteOf(event)).at(measures).at(rule).at(destination);
    place.value ??= this.#begin(event, this.#sums, note);
    place.value.add(event, count);
    if (latencyMs !== undefined) place.value.addLatency(latencyMs);
  }

  /** A list belongs to one workspace, environment and type. */
  #addLeftOut({ event, leftOut: list }: LeftOutNote): void {
    const place = this.#places.at(list).at(minuteOf(event));
    place.value ??= this.#begin(event, this.#leftOut, list);
    place.value.add(event);
  }

  #begin<Of>(event: CountedEvent, sums: Map<Sum, Of>, of: Of): Sum {
    const sum = new Sum(event);
    sums.set(sum, of);
    return sum;
  }

  *cells(): Iterable<StoredCell> {
    for (const [{ event, minute, count, samples, latencies }, note] of this.#sums) {
      const { workspaceId, environment, source, key, type, name } = event.kind;
      const { rule, destination, measures } = note;
      const dimensions = [workspaceId, environment, source, key, type, name, rule, destination] as const;
      const cell = [...dimensions, minute, measures, count, samples] as const;
      yield latencies === undefined ? cell : [...cell, latencies];
    }
    yield* this.#leftOutCells();
  }

  /** The last uses of write keys, by events that were accepted or rejected. */
  *keyUses(): Iterable<KeyUse> {
    for (const [{ event, last }, { measures }] of this.#sums)
      if (event.kind.key !== '' && /(^|\+)(accepted|rejected)/.test(measures))
        yield { keyId: event.kind.key, at: last };
  }

  /** Events of many names leave out the same rules: these are summed over the lists. */
  #leftOutCells(): Iterable<StoredCell> {
    const cells = new Map<string, StoredCell>();
    for (const [{ event, minute, count, samples }, list] of this.#leftOut) {
      const { workspaceId, environment, type } = event.kind;
      for (const { rule, destination, because } of list) {
        const text = `${workspaceId} ${environment} ${type} ${minute} ${rule} ${because}`;
        const known = cells.get(text);
        cells.set(text, [
          ...([workspaceId, environment, '', '', type, null, rule, destination, minute] as const),
          measureText('filtered', because),
          count + (known?.[10] ?? 0),
          known === undefined ? samples : lastSamples([...known[11], ...samples]),
        ]);
      }
    }
    return cells.values();
  }
}

/** The newest of samples, oldest first. */
export function lastSamples(samples: readonly string[]): readonly string[] {
  return samples.length <= MAX_FUNNEL_SAMPLES ? samples : samples.slice(-MAX_FUNNEL_SAMPLES);
}

/** In minutes, which the key of a map can be without memory of its own. */
function minuteOf({ receivedAt }: CountedEvent): number {
  return Math.floor(receivedAt / MINUTE_MS);
}

/** Beside release 0.2.0, which does not know deflated counts, none are recorded that it cannot read. */
export function countsFormIn({ isUpgraded }: { readonly isUpgraded: boolean }): CountsForm {
  return isUpgraded ? 'deflated' : 'plain';
}

/**
 * The records of `funnel.counts` that a commit appends for its entries and for its bytes. The bytes of the tallies, and of
 * the counts, which are written for a workspace as well, are added to `bytes`.
 */
export function countRecords(
  tallies: readonly Tally[],
  bytes: BytesTally = new BytesTally(),
  form: CountsForm = 'deflated',
): readonly OutputRecord[] {
  const records: OutputRecord[] = [];
  const parts = { cells: [] as string[], bytes: [] as string[], uses: [] as string[] };
  let chars = 0;
  const end = () => {
    if (chars === 0) return;
    let text = `{"v":${VERSION},"cells":[${parts.cells.join(',')}]`;
    if (parts.bytes.length > 0) text += `,"bytes":[${parts.bytes.join(',')}]`;
    if (parts.uses.length > 0) text += `,"uses":[${parts.uses.join(',')}]`;
    const value = form === 'plain' ? `${text}}` : packed(`${text}}`);
    records.push({ topic: TOPIC.funnelCounts, key: 'funnel', value, headers: {} });
    for (const list of Object.values(parts)) list.length = 0;
    chars = 0;
  };
  const add = (part: keyof typeof parts, text: string) => {
    if (chars + text.length > RECORD_CHARS) end();
    parts[part].push(text);
    chars += text.length;
  };
  const uses = new Map<string, number>();
  for (const tally of tallies) {
    for (const one of tally.bytes) bytes.add(one);
    for (const cell of tally.cells()) {
      const text = JSON.stringify(cell);
      bytes.written(cell[0], Buffer.byteLength(text));
      add('cells', text);
    }
    addUses(uses, tally.keyUses());
  }
  for (const { scope, received, written, expected } of bytes) {
    const stored: StoredBytes =
      expected === undefined ? [scope, received, written] : [scope, received, written, expected];
    add('bytes', JSON.stringify(stored));
  }
  for (const [keyId, at] of uses) add('uses', JSON.stringify([keyId, at] satisfies StoredUse));
  end();
  return records;
}

function addUses(uses: Map<string, number>, more: Iterable<KeyUse>): void {
  for (const { keyId, at } of more) if (at > (uses.get(keyId) ?? 0)) uses.set(keyId, at);
}

/** A record of more characters is compressed: the ids in it repeat from cell to cell. */
const PACKED_CHARS = 4 * 1024;

function packed(text: string): string {
  if (text.length <= PACKED_CHARS) return text;
  const deflated = deflateRawSync(text, { level: 1 }).toString('base64');
  return `{"v":${VERSION},"deflated":"${deflated}"}`;
}

function unpacked(value: string): Record<string, unknown> {
  const record = parseObject(value);
  if (typeof record.deflated !== 'string') return record;
  try {
    const text = inflateRawSync(Buffer.from(record.deflated, 'base64'), {
      maxOutputLength: 16 * RECORD_CHARS,
    });
    return parseObject(text.toString());
  } catch (error) {
    throw new InvalidInput('counts that are not compressed as they should be', { cause: error });
  }
}

/** Bytes in a record: an array, as cells are. Records of earlier releases have none, or no expected ones. */
type StoredBytes = readonly [scope: string, received: number, written: number, expected?: number];
/** The last use of a key in a record. Records of earlier releases have none. */
type StoredUse = readonly [keyId: string, at: number];

/** The counts in a record. Throws `InvalidInput` for a record that a later version wrote, or another program. */
function countsIn({ value }: Pick<LogEntry, 'value'>): {
  readonly increments: readonly FunnelIncrement[];
  readonly bytes: readonly ScopeBytes[];
  readonly keyUses: readonly KeyUse[];
} {
  const record = unpacked(value) as {
    readonly v?: unknown;
    readonly cells?: readonly StoredCell[];
    readonly bytes?: readonly StoredBytes[];
    readonly uses?: readonly StoredUse[];
  };
  const { v, cells, bytes = [], uses = [] } = record;
  if (v !== VERSION || !Array.isArray(cells) || !Array.isArray(bytes) || !Array.isArray(uses))
    throw new InvalidInput('no record of counts');
  return { increments: cells.map(incrementOf), bytes: bytes.map(bytesOf), keyUses: uses.map(useOf) };
}

function useOf(stored: StoredUse): KeyUse {
  if (!Array.isArray(stored) || typeof stored[0] !== 'string' || typeof stored[1] !== 'number')
    throw new InvalidInput('no use of a key');
  const [keyId, at] = stored;
  return { keyId, at };
}

function bytesOf(stored: StoredBytes): ScopeBytes {
  if (!Array.isArray(stored) || typeof stored[1] !== 'number' || typeof stored[2] !== 'number')
    throw new InvalidInput('no bytes of a scope');
  const [scope, received, written, expected] = stored;
  return { scope, received, written, ...(typeof expected === 'number' ? { expected } : {}) };
}

function incrementOf(cell: StoredCell): FunnelIncrement {
  if (!Array.isArray(cell) || typeof cell[8] !== 'number' || typeof cell[10] !== 'number')
    throw new InvalidInput('no cell of counts');
  const [workspaceId, environment, source, key, type, name, rule, destination] = cell;
  const [, , , , , , , , minute, measures, count, samples, latencies] = cell;
  return {
    workspaceId,
    environment,
    source,
    key,
    type,
    ...(name === null ? {} : { name }),
    rule,
    destination,
    minute,
    measures,
    count,
    samples,
    ...(latencies === undefined ? {} : { latencies }),
  };
}

/**
 * The counts in some records, those of the same cell, minute and measures added up: of a workspace with a thousand rules
 * each commit of `route` counts a thousand cells, the same in all. Bytes are those of the hour in which the log appended
 * their record, of a redriven one for the first time.
 */
export function summedCountsIn(
  entries: readonly Pick<LogEntry, 'value' | 'timestamp' | 'headers'>[],
): Required<Pick<CountsBatch, 'increments' | 'bytes' | 'keyUses'>> {
  const summed = new Map<string, FunnelIncrement>();
  const hours = new Map<number, BytesTally>();
  const uses = new Map<string, number>();
  for (const entry of entries) {
    const { increments, bytes, keyUses } = countsIn(entry);
    addUses(uses, keyUses);
    for (const increment of increments) {
      const key = sameCell(increment);
      const known = summed.get(key);
      summed.set(key, known === undefined ? increment : added(known, increment));
    }
    const at = Number(entry.headers[HEADER.appendedAt] ?? entry.timestamp);
    const hour = at - (at % HOUR_MS);
    const tally = hours.get(hour) ?? new BytesTally();
    hours.set(hour, tally);
    for (const one of bytes) tally.add(one);
  }
  const bytes = [...hours].flatMap(([hour, tally]) => Array.from(tally, (one) => ({ ...one, hour })));
  const keyUses = [...uses].map(([keyId, at]) => ({ keyId, at }));
  return { increments: [...summed.values()], bytes, keyUses };
}

/** The name comes last, as it may hold anything. */
function sameCell(increment: FunnelIncrement): string {
  const { workspaceId, environment, source, key, type, name, rule, destination, minute, measures } =
    increment;
  const ids = `${workspaceId} ${environment} ${source} ${key} ${type} ${rule} ${destination} ${minute} ${measures}`;
  return name === undefined ? ids : `${ids} ${name}`;
}

function added(known: FunnelIncrement, more: FunnelIncrement): FunnelIncrement {
  const samples = lastSamples([...known.samples, ...more.samples]);
  const sum = { ...known, count: known.count + more.count, samples };
  if (more.latencies === undefined) return sum;
  const latencies: Record<string, number> = { ...known.latencies };
  for (const [bucket, count] of Object.entries(more.latencies))
    latencies[bucket] = (latencies[bucket] ?? 0) + count;
  return { ...sum, latencies };
}

/** Counts bytes that were appended to the log. Rejects where the log refuses the count for good. */
export type CountWritten = (bytes: Iterable<ScopeBytes>) => Promise<void>;

/**
 * Counts bytes that no stage writes: appends them to `funnel.counts`. Those whose append failed are counted with the next
 * ones; a crash loses those of one call.
 */
export function countWritten(log: Pick<EventLog, 'append'>, form?: () => CountsForm): CountWritten {
  let uncounted = new BytesTally();
  return async (bytes) => {
    for (const one of bytes) uncounted.add(one);
    const counted = uncounted;
    uncounted = new BytesTally();
    await log.append(TOPIC.funnelCounts, countRecords([], counted, form?.())).catch((error: unknown) => {
      // The bytes are in the log, and must not be appended again for their count.
      if (!(error instanceof TributaryError && error.retryable)) throw error;
      for (const one of counted) uncounted.add(one);
    });
  };
}
