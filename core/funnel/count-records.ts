import type { LogEntry } from '../log/event-log.ts';
import type { OutputRecord } from '../log/stage.ts';
import { TOPIC } from '../log/topics.ts';
import {
  type FunnelIncrement,
  funnelLatencyBucket,
  MAX_FUNNEL_SAMPLES,
  measureText,
} from '../ports/funnel-store.ts';
import { InvalidInput } from '../primitives/errors.ts';
import { parseObject } from '../primitives/json.ts';
import type { CountedEvent, FunnelNote, LeftOutRule, StageNote } from './notes.ts';

const MINUTE_MS = 60_000;

/** Characters of a record of counts, about: far below what a log takes. */
const RECORD_CHARS = 48 * 1024;

/** The version of the records. */
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

/** The sum of the notes of one commit for a cell and its measures. */
class Sum {
  count = 0;
  latencies: Record<string, number> | undefined;
  /** The last ids, as a ring. */
  readonly #samples: string[] = [];
  #next = 0;

  add(messageId: string, count: number): void {
    this.count += count;
    this.#samples[this.#next] = messageId;
    this.#next = (this.#next + 1) % MAX_FUNNEL_SAMPLES;
  }

  addLatency(ms: number): void {
    const bucket = funnelLatencyBucket(ms);
    this.latencies ??= {};
    this.latencies[bucket] = (this.latencies[bucket] ?? 0) + 1;
  }

  /** Oldest first. */
  get samples(): readonly string[] {
    const samples = this.#samples;
    if (samples.length < MAX_FUNNEL_SAMPLES) return samples;
    return [...samples.slice(this.#next), ...samples.slice(0, this.#next)];
  }
}

/** The sums of events that are alike, by rule, destination and measures. */
interface Alike {
  readonly event: CountedEvent;
  readonly minute: number;
  readonly sums: Map<string, { readonly note: FunnelNote; readonly sum: Sum }>;
}

/** Adds up the notes of a commit. */
class Tally {
  readonly #alike = new Map<string, Alike>();
  readonly #leftOut = new Map<
    readonly LeftOutRule[],
    Map<number, { readonly event: CountedEvent; readonly sum: Sum }>
  >();
  #lastEvent: CountedEvent | undefined;
  #last: Alike | undefined;

  add(note: StageNote): void {
    if ('leftOut' in note) this.#addLeftOut(note.event, note.leftOut);
    else this.#addNote(note);
  }

  #addNote(note: FunnelNote): void {
    const { event, rule, destination, measures, count = 1, latencyMs } = note;
    const { sums } = this.#alikeOf(event);
    const key = rule === '' ? measures : `${rule} ${destination} ${measures}`;
    let found = sums.get(key);
    if (found === undefined) {
      found = { note, sum: new Sum() };
      sums.set(key, found);
    }
    found.sum.add(event.messageId, count);
    if (latencyMs !== undefined) found.sum.addLatency(latencyMs);
  }

  /** The notes of an event follow each other. */
  #alikeOf(event: CountedEvent): Alike {
    if (event === this.#lastEvent && this.#last !== undefined) return this.#last;
    const { workspaceId, environment, source, key, type, name } = event;
    const minute = minuteOf(event);
    const text = `${workspaceId} ${environment} ${source} ${key} ${minute} ${type} ${name}`;
    let alike = this.#alike.get(text);
    if (alike === undefined) {
      alike = { event, minute, sums: new Map() };
      this.#alike.set(text, alike);
    }
    this.#lastEvent = event;
    this.#last = alike;
    return alike;
  }

  /** A list belongs to one workspace, environment and type. */
  #addLeftOut(event: CountedEvent, list: readonly LeftOutRule[]): void {
    let minutes = this.#leftOut.get(list);
    if (minutes === undefined) {
      minutes = new Map();
      this.#leftOut.set(list, minutes);
    }
    const minute = minuteOf(event);
    let found = minutes.get(minute);
    if (found === undefined) {
      found = { event, sum: new Sum() };
      minutes.set(minute, found);
    }
    found.sum.add(event.messageId, 1);
  }

  *cells(): Iterable<StoredCell> {
    for (const { event, minute, sums } of this.#alike.values()) {
      const { workspaceId, environment, source, key, type, name } = event;
      for (const { note, sum } of sums.values()) {
        const { rule, destination, measures } = note;
        const dimensions = [workspaceId, environment, source, key, type, name, rule, destination] as const;
        const cell = [...dimensions, minute, measures, sum.count, sum.samples] as const;
        yield sum.latencies === undefined ? cell : [...cell, sum.latencies];
      }
    }
    yield* this.#leftOutCells();
  }

  /** Events of many names leave out the same rules: these are summed over the lists. */
  #leftOutCells(): Iterable<StoredCell> {
    const cells = new Map<string, StoredCell>();
    for (const [list, minutes] of this.#leftOut) {
      for (const [minute, { event, sum }] of minutes) {
        const { workspaceId, environment, type } = event;
        const { count, samples } = sum;
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
    }
    return cells.values();
  }
}

/** The newest of samples, oldest first. */
export function lastSamples(samples: readonly string[]): readonly string[] {
  return samples.length <= MAX_FUNNEL_SAMPLES ? samples : samples.slice(-MAX_FUNNEL_SAMPLES);
}

function minuteOf({ receivedAt }: CountedEvent): number {
  return receivedAt - (receivedAt % MINUTE_MS);
}

/** The records of `funnel.counts` that a commit appends for the notes of its entries. */
export function countRecords(notes: Iterable<StageNote>): readonly OutputRecord[] {
  const tally = new Tally();
  for (const note of notes) tally.add(note);
  const records: OutputRecord[] = [];
  let cells: string[] = [];
  let chars = 0;
  const end = () => {
    if (cells.length === 0) return;
    const value = `{"v":${VERSION},"cells":[${cells.join(',')}]}`;
    records.push({ topic: TOPIC.funnelCounts, key: 'funnel', value, headers: {} });
    cells = [];
    chars = 0;
  };
  for (const cell of tally.cells()) {
    const text = JSON.stringify(cell);
    if (chars + text.length > RECORD_CHARS) end();
    cells.push(text);
    chars += text.length;
  }
  end();
  return records;
}

/** The counts in a record. Throws `InvalidInput` for a record that a later version wrote, or another program. */
export function incrementsIn({ value }: Pick<LogEntry, 'value'>): readonly FunnelIncrement[] {
  const { v, cells } = parseObject(value) as { readonly v?: unknown; readonly cells?: readonly StoredCell[] };
  if (v !== VERSION || !Array.isArray(cells)) throw new InvalidInput('no record of counts');
  return cells.map(incrementOf);
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
 * each commit of `route` counts a thousand cells, the same in all.
 */
export function summedIncrementsIn(entries: readonly Pick<LogEntry, 'value'>[]): readonly FunnelIncrement[] {
  if (entries.length === 1) return entries.flatMap(incrementsIn);
  const summed = new Map<string, FunnelIncrement>();
  for (const entry of entries)
    for (const increment of incrementsIn(entry)) {
      const key = sameCell(increment);
      const known = summed.get(key);
      summed.set(key, known === undefined ? increment : added(known, increment));
    }
  return [...summed.values()];
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
