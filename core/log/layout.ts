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

/** How long after an adoption an append may still be under way that began under the layout before, at most, ms. */
const APPENDS_SETTLE_MS = 120_000;

/** The same for an owner of a partition, which may learn of the adoption late, ms. */
const OWNERS_SETTLE_MS = 3_600_000;

/** A process that learns of an adoption after so long is one that started later, and the clocks are right, ms. */
const LONG_AGO_MS = 3_600_000;

/** The layout of a topic as one process knows it. Times in epoch ms by its own clock. */
export interface KnownLayout {
  readonly layout: TopicLayout;
  /** When it learned of it. */
  readonly learnedAtMs: number;
}

/**
 * When writers no longer append under the layout before, epoch ms; undefined where there was none. The clock of the
 * adoption may have been behind, so the own one counts as well.
 */
function settledAt({ layout, learnedAtMs }: KnownLayout, settleMs: number): number | undefined {
  if (layout.since === undefined) return undefined;
  const since = Date.parse(layout.since);
  return (learnedAtMs - since > LONG_AGO_MS ? since : Math.max(since, learnedAtMs)) + settleMs;
}

/**
 * Whether an append has to look up the newest layout, and the ends of the ancestors, first: while a growth is announced,
 * and after its adoption for as long as another process may still append under the layout before.
 */
export function isCareful(known: KnownLayout, nowMs: number): boolean {
  if (known.layout.announced !== undefined) return true;
  const settled = settledAt(known, APPENDS_SETTLE_MS);
  return settled !== undefined && nowMs < settled;
}

/** Where the bound of a first record lies: at the end of the ancestor, or at its first record appended later than this. */
export type BoundAt = 'end' | { readonly appendedAfterMs: number };

export interface BoundQuery {
  readonly nowMs: number;
  readonly retentionMs: TopicSpec['retentionMs'];
  /** An owner of a partition catches up with the catalog when it takes over; appends of others are careful. */
  readonly writer: 'owner' | 'other';
}

/**
 * The bound of the first record that a writer appends to an added partition. The ancestor has no younger records of its
 * keys once all writers have settled, so that a writer that starts later does not tie the partition to what is appended
 * to the ancestor by then. Undefined where none is needed: the ancestor's records of its keys are not kept any more.
 */
export function boundAt(known: KnownLayout, { nowMs, retentionMs, writer }: BoundQuery): BoundAt | undefined {
  const settled = settledAt(known, writer === 'owner' ? OWNERS_SETTLE_MS : APPENDS_SETTLE_MS);
  if (settled === undefined) return undefined;
  if (nowMs < settled) return 'end';
  if (retentionMs !== 'forever' && nowMs > settled + retentionMs) return undefined;
  return { appendedAfterMs: settled };
}
