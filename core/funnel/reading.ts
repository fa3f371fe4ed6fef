import type {
  FunnelDimension,
  FunnelFilter,
  FunnelQuery,
  FunnelRow,
  FunnelSampleQuery,
} from '../ports/funnel-store.ts';
import { measureText } from '../ports/funnel-store.ts';
import {
  addCell,
  cellsIn,
  type FunnelDocument,
  type FunnelDocumentKind,
  fieldsToRead,
  funnelStepMs,
  type StoredCounts,
} from './documents.ts';

/** Documents of a workspace: of these fields, or without them those of single names. */
export interface FunnelRange {
  readonly workspaceId: string;
  readonly kind: FunnelDocumentKind;
  /** First and last interval, both inclusive; epoch ms. */
  readonly from: number;
  readonly to: number;
  readonly fields: readonly string[] | undefined;
}

/** Reads the documents of a range, in any order. */
export type ReadFunnelDocuments = (range: FunnelRange) => Promise<readonly FunnelDocument[]>;

/** Intervals of one read: with many documents of each, and with few. So no read blocks the thread for long. */
const FEW_AT_ONCE = 2;
const MANY_AT_ONCE = 50;

/** Carries out `FunnelStore.read` on the documents of a store. */
export async function readFunnel(
  query: FunnelQuery,
  read: ReadFunnelDocuments,
): Promise<readonly FunnelRow[]> {
  const { workspaceId, interval, from, filter, groupBy, summed } = query;
  const fields = fieldsToRead(interval, filter, groupBy);
  const rows = new Rows(groupBy);
  for (const range of rangesOf(
    query,
    funnelStepMs(interval),
    fields === undefined || fields.length > 8 ? FEW_AT_ONCE : MANY_AT_ONCE,
  )) {
    const documents = await read({ workspaceId, kind: interval, ...range, fields });
    for (const document of documents)
      for (const { dimensions, values } of cellsIn<StoredCounts[string][string]>(document, filter))
        rows.add(summed ? from : document.start, dimensions, values);
    await new Promise((resolve) => setImmediate(resolve));
  }
  return rows.sorted();
}

/** Carries out `FunnelStore.samples`: from the newest hour back, until there are enough. */
export async function readFunnelSamples(
  query: FunnelSampleQuery,
  read: ReadFunnelDocuments,
): Promise<readonly string[]> {
  const { workspaceId, filter, limit } = query;
  const fields = fieldsToRead('samples', filter, []);
  const found = new Set<string>();
  for (const range of [...rangesOf(query, funnelStepMs('hour'), 1)].reverse()) {
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

function isMeasure(text: string, { measure, reason }: FunnelSampleQuery): boolean {
  if (reason !== undefined) return text === measureText(measure, reason);
  return text === measure || text.startsWith(`${measure}/`);
}

/** The intervals from `from` to `to`, exclusive, in ranges of some of them. */
function* rangesOf(
  { from, to }: Pick<FunnelQuery, 'from' | 'to'>,
  ms: number,
  atOnce: number,
): Iterable<Pick<FunnelRange, 'from' | 'to'>> {
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
    const known = this.#rows.get(key);
    if (known !== undefined) return known;
    const group = Object.fromEntries(this.#groupBy.map((dimension) => [dimension, dimensions[dimension]]));
    const row: Row = { group, start, counts: {}, latencies: {} };
    this.#rows.set(key, row);
    return row;
  }

  sorted(): readonly FunnelRow[] {
    return [...this.#rows.values()].sort((a, b) => a.start - b.start);
  }
}
