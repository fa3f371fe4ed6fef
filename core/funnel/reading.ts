import {
  type FunnelDimension,
  type FunnelFilter,
  type FunnelQuery,
  type FunnelRow,
  type FunnelSampleQuery,
  type HourlyRuns,
  measureText,
  type RunQuery,
  type VolumeQuery,
  type VolumeRow,
} from '../ports/counters.ts';
import { getOrMake } from '../primitives/get-or-make.ts';
import {
  addCell,
  type CountDocument,
  type CountDocumentKind,
  cellsIn,
  documentStepMs,
  fieldsToRead,
  isNameField,
  runsOf,
  type StoredCounts,
  volumeIn,
} from './documents.ts';

/** Documents of a workspace: of these fields, or without them all. */
export interface DocumentRange {
  readonly workspaceId: string;
  readonly kind: CountDocumentKind;
  /** First and last interval, both inclusive; epoch ms. */
  readonly from: number;
  readonly to: number;
  readonly fields: readonly string[] | undefined;
}

/** Reads the documents of a range, in any order. */
export type ReadDocuments = (range: DocumentRange) => Promise<readonly CountDocument[]>;

const HOUR_MS = documentStepMs('volume');

/** Intervals of one read: with many documents of each, and with few. So no read blocks the thread for long. */
const FEW_AT_ONCE = 2;
const MANY_AT_ONCE = 50;
/** The same for volumes and runs. */
const HOURS_AT_ONCE = 24;

/** Carries out `Counters.funnel` on the documents of a store. */
export async function readFunnel(query: FunnelQuery, read: ReadDocuments): Promise<readonly FunnelRow[]> {
  const { workspaceId, interval, from, filter, groupBy, summed } = query;
  const fields = fieldsToRead(interval, filter, groupBy);
  const rows = new Rows(groupBy);
  for (const range of rangesOf(
    query,
    documentStepMs(interval),
    fields === undefined || fields.length > 8 ? FEW_AT_ONCE : MANY_AT_ONCE,
  )) {
    const documents = await read({ workspaceId, kind: interval, ...range, fields });
    for (const document of documents) {
      if (fields === undefined && !isNameField(document.field)) continue;
      for (const { dimensions, values } of cellsIn<StoredCounts[string][string]>(document, filter))
        rows.add(summed ? from : document.start, dimensions, values);
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  return rows.sorted();
}

/** Carries out `Counters.samples`: from the newest hour back, until there are enough. */
export async function readFunnelSamples(
  query: FunnelSampleQuery,
  read: ReadDocuments,
): Promise<readonly string[]> {
  const { workspaceId, filter, limit } = query;
  const fields = fieldsToRead('samples', filter, []);
  const found = new Set<string>();
  for (const range of [...rangesOf(query, documentStepMs('hour'), 1)].reverse()) {
    const documents = await read({ workspaceId, kind: 'samples', ...range, fields });
    for (const document of documents)
      for (const { values } of cellsIn<readonly string[]>(document, filter))
        for (const [measures, ids] of Object.entries(values))
          if (measures.split('+').some((text) => isMeasure(text, query)))
            for (const id of ids.toReversed()) found.add(id);
    if (found.size >= limit) break;
  }
  return [...found].slice(0, limit);
}

/**
 * Carries out `Counters.volume`. Of an hour that release 0.2.0 counted too, the higher number of a name: both count each event
 * once, and after an upgrade neither has all of them.
 */
export async function readVolume(query: VolumeQuery, read: ReadDocuments): Promise<readonly VolumeRow[]> {
  const { workspaceId, environment } = query;
  const rows: VolumeRow[] = [];
  for (const range of hoursOf(query)) {
    const counted = new Map<string, VolumeRow & { readonly environment: string }>();
    for (const kind of ['volume', 'volume_0_2'] as const)
      for (const document of await read({ workspaceId, kind, ...range, fields: undefined })) {
        const found = volumeIn(document);
        if (found === undefined || (environment !== undefined && found.environment !== environment)) continue;
        const key = `${document.start} ${document.field}`;
        if (found.count > (counted.get(key)?.count ?? 0))
          counted.set(key, { ...found, hour: document.start });
      }
    rows.push(...sumsOf(counted.values()));
    await new Promise((resolve) => setImmediate(resolve));
  }
  return rows;
}

/** The sums of both environments, oldest hour first, then by type and name. */
function sumsOf(counted: Iterable<VolumeRow>): readonly VolumeRow[] {
  const sums = new Map<string, VolumeRow>();
  for (const { eventType, eventName, hour, count } of counted) {
    const key = `${hour} ${eventType} ${eventName}`;
    sums.set(key, { eventType, eventName, hour, count: count + (sums.get(key)?.count ?? 0) });
  }
  return [...sums.values()].sort(
    (a, b) => a.hour - b.hour || compare(a.eventType, b.eventType) || compare(a.eventName, b.eventName),
  );
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Carries out `Counters.runs`. */
export async function readRuns(query: RunQuery, read: ReadDocuments): Promise<readonly HourlyRuns[]> {
  const workspaceId = runsOf(query.workspaceId, query.transformationId);
  const hours = new Map<number, Record<string, number>>();
  for (const range of hoursOf(query))
    for (const kind of ['runs', 'runs_0_2'] as const)
      for (const { start, field, value } of await read({ workspaceId, kind, ...range, fields: undefined })) {
        const counts = hours.get(start) ?? {};
        hours.set(start, counts);
        counts[field] = (counts[field] ?? 0) + Number(value);
      }
  return [...hours].sort(([a], [b]) => a - b).map(([hour, counts]) => ({ hour, counts }));
}

function hoursOf({ fromHour, toHour }: Pick<VolumeQuery, 'fromHour' | 'toHour'>) {
  return rangesOf({ from: fromHour, to: toHour + HOUR_MS }, HOUR_MS, HOURS_AT_ONCE);
}

function isMeasure(text: string, { measure, reason }: FunnelSampleQuery): boolean {
  if (reason !== undefined) return text === measureText(measure, reason);
  return text === measure || text.startsWith(`${measure}/`);
}

/** The intervals from `from` to `to`, exclusive, in ranges of some of them. */
function* rangesOf(
  { from, to }: Pick<FunnelQuery, 'from' | 'to'>,
  ms: number,
  atOnce: number,
): Iterable<Pick<DocumentRange, 'from' | 'to'>> {
  for (let start = from; start < to; start += ms * atOnce)
    yield { from: start, to: Math.min(to, start + ms * atOnce) - ms };
}

interface Row {
  readonly group: FunnelFilter;
  readonly start: number;
  readonly counts: Record<string, number>;
  readonly latencies: Record<string, number>;
}

/** Sums cells by interval and group. */
class Rows {
  readonly #groupBy: readonly FunnelDimension[];
  readonly #rows = new Map<string, Row>();

  constructor(groupBy: readonly FunnelDimension[]) {
    this.#groupBy = groupBy;
  }

  add(
    start: number,
    dimensions: Required<FunnelFilter>,
    values: Readonly<Record<string, StoredCounts[string][string]>>,
  ): void {
    const { counts, latencies } = this.#rowOf(start, dimensions);
    addCell(values, counts, latencies);
  }

  #rowOf(start: number, dimensions: Required<FunnelFilter>): Row {
    let key = String(start);
    for (const dimension of this.#groupBy) key += `\n${dimensions[dimension]}`;
    return getOrMake(this.#rows, key, () => {
      const group = Object.fromEntries(this.#groupBy.map((dimension) => [dimension, dimensions[dimension]]));
      return { group, start, counts: {}, latencies: {} };
    });
  }

  sorted(): readonly FunnelRow[] {
    return [...this.#rows.values()].sort((a, b) => a.start - b.start);
  }
}
