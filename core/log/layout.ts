import type { Headers } from './event-log.ts';
import { partitionOf } from './record-layout.ts';
import type { TopicSpec } from './topics.ts';

/**
 * The partitions of a topic that was grown, as the catalog holds them. Writers use these numbers and never those of the
 * medium, so that all processes agree which partition a key belongs to (docs/decisions/0039-growing-partitions.md).
 */
export interface TopicLayout {
  /** The partitions in use. */
  readonly partitions: number;
  /** The numbers before, ascending; each divides the next. Empty until the first growth is adopted. */
  readonly earlier: readonly number[];
  /** When the growth was adopted, ISO 8601. */
  readonly since?: string;
  /** The partitions of a growth that was announced and is not adopted yet. */
  readonly announced?: number;
}

/** The catalog as a log needs it. */
export interface LayoutSource {
  /** Read it at each use: a start from a snapshot replaces the object. */
  readonly state: { readonly layouts: ReadonlyMap<string, TopicLayout> };
  /** See `Catalog`. */
  readonly ready: boolean;
  catchUp(timeoutMs: number): Promise<void>;
}

/** The largest number of partitions of a topic. */
export const MAX_PARTITIONS = 1_024;

/** Why a topic cannot get this number of partitions; undefined where it can, or has them. */
export function growthRefusal(
  { name, fixed }: Pick<TopicSpec, 'name' | 'fixed'>,
  from: number,
  to: number,
): string | undefined {
  if (fixed === true) return `${name} always has ${from === 1 ? 'one partition' : `${from} partitions`}`;
  if (!Number.isSafeInteger(to) || to < 1 || to > MAX_PARTITIONS)
    return `${name} can have 1 to ${MAX_PARTITIONS} partitions`;
  if (to < from) return `${name} has ${from} partitions: they can become more and never fewer`;
  if (to % from !== 0)
    return `${name} has ${from} partitions: only multiples keep the order of its keys, e.g. ${from * Math.ceil(to / from)}`;
  return undefined;
}

/** The layout after a growth was announced. */
export function announcedLayout(layout: TopicLayout, partitions: number): TopicLayout {
  return { ...layout, announced: partitions };
}

/** The layout after the announced growth was adopted. */
export function adoptedLayout({ partitions, earlier, announced }: TopicLayout, at: string): TopicLayout {
  if (announced === undefined) throw new Error('a growth that was not announced');
  return { partitions: announced, earlier: [...earlier, partitions], since: at };
}

/**
 * The partitions that the keys of a partition were in before, under each earlier number of partitions. Empty for a
 * partition that existed from the beginning: keys only leave those.
 */
export function ancestorsOf(partition: number, earlier: readonly number[] = []): readonly number[] {
  return [...new Set(earlier.map((count) => partition % count))].filter((each) => each !== partition);
}

/** Every partition that may hold records of a key, the present one first. */
export function partitionsOfKey(
  key: string,
  { partitions, earlier = [] }: Pick<TopicSpec, 'partitions' | 'earlier'>,
): readonly number[] {
  const partition = partitionOf(key, partitions);
  return [partition, ...ancestorsOf(partition, earlier)];
}

/** Offsets in the ancestors of a partition; earlier records of its keys are below them. */
export type Bounds = ReadonlyMap<number, number>;

/** The value of the header `after`: `<partition>:<offset>`, comma-separated. */
export function formatBounds(bounds: Bounds): string {
  return [...bounds].map(([partition, offset]) => `${partition}:${offset}`).join(',');
}

/** Parses `formatBounds`; undefined for another text. */
export function parseBounds(text: string): Bounds | undefined {
  if (!/^\d{1,5}:\d{1,16}(,\d{1,5}:\d{1,16})*$/.test(text)) return undefined;
  return new Map(
    text.split(',').map((pair) => {
      const [partition, offset] = pair.split(':');
      return [Number(partition), Number(offset)];
    }),
  );
}

/** Adds the bound to headers. */
export function withBounds(headers: Headers, header: string, bounds: Bounds): Headers {
  return bounds.size === 0 ? headers : { ...headers, [header]: formatBounds(bounds) };
}

/** Whether a reader has done everything below the bounds. `reached`: its position in each ancestor. */
export function isPast(bounds: Bounds, reached: ReadonlyMap<number, number>): boolean {
  for (const [partition, offset] of bounds) if ((reached.get(partition) ?? 0) < offset) return false;
  return true;
}

/**
 * How long after an adoption appends remain careful, ms: longer than an append may take that began under the layout
 * before, and than clocks differ.
 */
const CAREFUL_FOR_MS = 120_000;

/** The same by the clock of this process alone, from when it learned of the adoption, ms. */
const CAREFUL_HERE_MS = 30_000;

/** A process that learns of an adoption after so long is one that started later, ms. */
const LONG_AGO_MS = 3_600_000;

/**
 * Whether an append has to look up the newest layout, and the ends of the ancestors, first: while a growth is announced,
 * and after its adoption for as long as another process may still append under the layout before. `knownForMs`: how long
 * this process has known the layout.
 */
export function isCareful({ announced, since }: TopicLayout, nowMs: number, knownForMs: number): boolean {
  if (announced !== undefined) return true;
  if (since === undefined) return false;
  const agoMs = nowMs - Date.parse(since);
  return agoMs < CAREFUL_FOR_MS || (knownForMs < CAREFUL_HERE_MS && agoMs < LONG_AGO_MS);
}

/** How long after an adoption an owner of a partition may still emit under the layout before, at most, ms. */
const OWNERS_SETTLE_MS = 3_600_000;

/** Where the bound of a first record lies: at the end of the ancestor, or at its first record appended later than this. */
export type BoundAt = 'end' | { readonly appendedAfterMs: number };

/**
 * The bound of the first record that a writer appends to an added partition. The ancestor has no younger records of its
 * keys once all writers have settled, so that a writer that starts later does not tie the partition to what is appended
 * to the ancestor by then. Undefined where none is needed: the ancestor's records of its keys are not kept any more.
 */
export function boundAt(
  { since }: TopicLayout,
  { nowMs, retentionMs, writer }: BoundQuery,
): BoundAt | undefined {
  if (since === undefined) return undefined;
  const settledMs = Date.parse(since) + (writer === 'owner' ? OWNERS_SETTLE_MS : CAREFUL_FOR_MS);
  if (nowMs < settledMs) return 'end';
  if (retentionMs !== 'forever' && nowMs > settledMs + retentionMs) return undefined;
  return { appendedAfterMs: settledMs };
}

export interface BoundQuery {
  readonly nowMs: number;
  readonly retentionMs: TopicSpec['retentionMs'];
  /** An owner of a partition catches up with the catalog when it takes over; appends of others are careful. */
  readonly writer: 'owner' | 'other';
}
