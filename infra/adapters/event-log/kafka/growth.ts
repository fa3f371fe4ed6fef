import {
  ancestorsOf,
  type Bounds,
  boundAt,
  type Clock,
  HEADER,
  isCareful,
  isPast,
  type KnownLayout,
  type LayoutSource,
  type NewEntry,
  type OutputRecord,
  type Position,
  parseBounds,
  partitionOf,
  sharedByCallers,
  type TopicLayout,
  type TopicSpec,
  Unavailable,
  withBounds,
} from '@tributary/core';
import { specOf } from '../entries.ts';
import type { EntryBarrier, Taken } from '../stage-runner/work.ts';
import { offsetAt, offsetsOf } from './client/client.ts';
import type { Installation } from './topics.ts';

/** How long to wait for the catalog to be read up to its end, ms. */
const CATCH_UP_MS = 5_000;

/** `topics`: as configured; the catalog's layouts replace them. `clock`: epoch ms. */
interface LayoutsOptions extends Omit<Installation, 'connection'> {
  readonly clock: Clock;
}

/**
 * The partitions of each topic as the catalog says, for writers and readers of this process. Without a catalog the
 * configured ones, as in tests of the log alone.
 */
export class Layouts {
  /** Changes when a growth is adopted. */
  readonly topics: ReadonlyMap<string, TopicSpec>;
  readonly #topics: Map<string, TopicSpec>;
  readonly #options: LayoutsOptions;
  #source: LayoutSource | undefined;
  readonly #known = new Map<string, KnownLayout>();
  readonly #listeners = new Set<() => void>();

  constructor(options: LayoutsOptions) {
    this.#options = options;
    this.#topics = new Map(options.topics);
    this.topics = this.#topics;
  }

  /** Follows a catalog; the returned function is to be called when its layouts changed. */
  follow(source: LayoutSource): () => void {
    this.#source = source;
    return () => this.#apply(source.state.layouts);
  }

  /** Calls the listener after a growth was adopted, until the returned function is called. */
  onGrowth(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Resolves when this process knows every layout that was adopted before the call. Calls of the same time share a
   * look-up. `Unavailable` where the catalog does not answer.
   */
  readonly caughtUp: () => Promise<void> = sharedByCallers(async () => this.#source?.catchUp(CATCH_UP_MS));

  /**
   * Whether an append to a topic has to find out the newest layout first. `Unavailable` while the catalog is not
   * trusted: it may have missed the announcement of a growth.
   */
  needsCare({ name, fixed, unordered }: TopicSpec): boolean {
    if (this.#source === undefined || fixed === true) return false;
    if (!this.#source.ready)
      throw new Unavailable(`the partitions of ${name} are not known: the catalog is not read up to now`);
    const known = this.#known.get(name);
    if (known === undefined || unordered === true) return false;
    return isCareful(known, this.#options.clock());
  }

  /**
   * The bounds of the first records that a writer appends to these partitions. Those without ancestors, and those whose
   * ancestors hold no record of their keys any more, have none. `careful`: up to the ends of the ancestors.
   */
  async boundsOf(
    { name, earlier, unordered, retentionMs }: TopicSpec,
    partitions: Iterable<number>,
    writer: 'owner' | 'other' | 'careful',
  ): Promise<ReadonlyMap<number, Bounds>> {
    const bounds = new Map<number, Map<number, number>>();
    const known = this.#known.get(name);
    if (known === undefined || unordered === true || earlier === undefined) return bounds;
    const nowMs = this.#options.clock();
    const at = writer === 'careful' ? 'end' : boundAt(known, { nowMs, retentionMs, writer });
    if (at === undefined) return bounds;
    const ancestors = new Map([...partitions].map((each) => [each, ancestorsOf(each, earlier)]));
    const offsets = await this.#offsets(name, new Set([...ancestors.values()].flat()), at);
    for (const [partition, of] of ancestors)
      if (of.length > 0) bounds.set(partition, new Map(of.map((each) => [each, offsets.get(each) ?? 0])));
    return bounds;
  }

  async #offsets(
    topic: string,
    partitions: ReadonlySet<number>,
    at: Exclude<ReturnType<typeof boundAt>, undefined>,
  ): Promise<ReadonlyMap<number, number>> {
    const { client, nameOf } = this.#options;
    const name = nameOf(topic);
    if (at === 'end') {
      const ends = await offsetsOf(
        client,
        [...partitions].map((partition) => ({ topic: name, partition })),
        'end',
      );
      return new Map([...partitions].map((partition) => [partition, ends.get(`${name}/${partition}`) ?? 0]));
    }
    const found = [...partitions].map(async (partition) => {
      const offset = await offsetAt(client, name, partition, at.appendedAfterMs);
      return [partition, offset] as const;
    });
    return new Map(await Promise.all(found));
  }

  #apply(layouts: ReadonlyMap<string, TopicLayout>): void {
    let hasGrown = false;
    for (const [topic, layout] of layouts) {
      const spec = this.#topics.get(topic);
      if (this.#known.get(topic)?.layout === layout || spec === undefined) continue;
      this.#known.set(topic, { layout, learnedAtMs: this.#options.clock() });
      const { partitions, earlier } = layout;
      if (earlier.length === 0 || (spec.partitions === partitions && spec.earlier !== undefined)) continue;
      this.#topics.set(topic, { ...spec, partitions, earlier });
      this.#options.logger.info({ topic, partitions, earlier }, 'the topic has more partitions from now on');
      hasGrown = true;
    }
    if (hasGrown) for (const listener of this.#listeners) listener();
  }
}

type AppendNow = (
  spec: TopicSpec,
  entries: readonly NewEntry[],
  bytes: number,
) => Promise<readonly Position[]>;

/** An append that waits for the layout of its topic, with the promise of its caller. */
interface Waiting {
  readonly entries: readonly NewEntry[];
  readonly bytes: number;
  readonly resolve: (positions: Promise<readonly Position[]>) => void;
  readonly reject: (reason: unknown) => void;
}

/**
 * Appends of this process to topics that are grown while others append as well. An append that has to find out the layout
 * or the ends of older partitions first waits for that, and those behind it wait with it, so that they keep their order.
 */
export class BoundedAppends {
  readonly #layouts: Layouts;
  readonly #appendNow: AppendNow;
  /** By topic, while a look-up is in progress. */
  readonly #waiting = new Map<string, Waiting[]>();
  /** Those of this process since all writers have settled. */
  readonly #bounded = new BoundedPartitions();

  constructor(layouts: Layouts, appendNow: AppendNow) {
    this.#layouts = layouts;
    this.#appendNow = appendNow;
  }

  /** `bytes`: of the entries. Rejects as `EventLog.append`; throws `Unavailable` while the layout is not known. */
  append(topic: string, entries: readonly NewEntry[], bytes: number): Promise<readonly Position[]> {
    const spec = specOf(this.#layouts.topics, topic);
    const isCareful = this.#layouts.needsCare(spec);
    const waiting = this.#waiting.get(topic);
    if (waiting === undefined && !isCareful && this.#bounded.haveAll(spec, entries))
      return this.#appendNow(spec, entries, bytes);
    return new Promise((resolve, reject) => {
      const append = { entries, bytes, resolve, reject };
      if (waiting !== undefined) {
        waiting.push(append);
        return;
      }
      this.#waiting.set(topic, [append]);
      void this.#goOn(topic);
    });
  }

  /** Resolves the appends of a topic, those of the same time together, until none waits. */
  async #goOn(topic: string): Promise<void> {
    for (;;) {
      const together = this.#waiting.get(topic) ?? [];
      if (together.length === 0) {
        this.#waiting.delete(topic);
        return;
      }
      this.#waiting.set(topic, []);
      try {
        await this.#appendBounded(topic, together);
      } catch (thrown) {
        for (const { reject } of together) reject(thrown);
      }
    }
  }

  async #appendBounded(topic: string, together: readonly Waiting[]): Promise<void> {
    const layouts = this.#layouts;
    if (layouts.needsCare(specOf(layouts.topics, topic))) await layouts.caughtUp();
    // Partitions and bounds are of one layout, also where another is adopted meanwhile.
    const spec = specOf(layouts.topics, topic);
    const isCareful = layouts.needsCare(spec);
    const targetOf = ({ key }: NewEntry) => partitionOf(key, spec.partitions);
    const targets = new Set(together.flatMap(({ entries }) => entries.map(targetOf)));
    const bounds = await layouts.boundsOf(spec, targets, isCareful ? 'careful' : 'other');
    const bounded = (entry: NewEntry): NewEntry => {
      const of = bounds.get(targetOf(entry));
      return of === undefined ? entry : { ...entry, headers: withBounds(entry.headers, HEADER.after, of) };
    };
    for (const { entries, bytes, resolve } of together) {
      const appended = this.#appendNow(spec, entries.map(bounded), bytes);
      if (!isCareful) appended.then(() => this.#bounded.add(spec, entries.map(targetOf))).catch(() => {});
      resolve(appended);
    }
  }
}

/** The added partitions that a writer has bounded a record in, by the layout of their topic. */
class BoundedPartitions {
  readonly #of = new Map<TopicSpec, Set<number>>();

  /** Whether a record of the writer in this partition needs no bound. */
  has(spec: TopicSpec, partition: number): boolean {
    return partition < firstAdded(spec) || this.#of.get(spec)?.has(partition) === true;
  }

  /** The same for the partitions of all entries. */
  haveAll(spec: TopicSpec, entries: readonly NewEntry[]): boolean {
    const added = spec.partitions - firstAdded(spec);
    // Most topics never grew, and soon after a growth all partitions are known.
    if (!(added > 0) || this.#of.get(spec)?.size === added) return true;
    return entries.every(({ key }) => this.has(spec, partitionOf(key, spec.partitions)));
  }

  add(spec: TopicSpec, partitions: Iterable<number>): void {
    const known = this.#of.get(spec) ?? new Set();
    for (const partition of partitions) if (partition >= firstAdded(spec)) known.add(partition);
    this.#of.set(spec, known);
  }
}

/** The first of the partitions that were added to a topic; none where its records need no order. */
function firstAdded({ earlier, unordered }: TopicSpec): number {
  return unordered === true ? Number.POSITIVE_INFINITY : (earlier?.[0] ?? Number.POSITIVE_INFINITY);
}

/** An output record with its partition. */
export interface PartitionedRecord {
  readonly spec: TopicSpec;
  readonly record: OutputRecord;
  readonly partition: number;
}

/** The records of one commit. */
interface PartitionedRecords {
  readonly records: readonly PartitionedRecord[];
  /** To be called once they are committed. */
  readonly committed: () => void;
}

/**
 * Bounds the first records that the owner of a partition emits to each added partition: records that it, or an owner before
 * it, emitted under the layout before lie below the ends of the ancestors.
 */
export class FirstBounds {
  readonly #layouts: Layouts;
  /** Those of committed records. */
  #bounded = new BoundedPartitions();

  constructor(layouts: Layouts) {
    this.#layouts = layouts;
  }

  /**
   * Bounds first records again. After a wait for another partition its owner may have emitted records under an older
   * layout since the bounds were read.
   */
  forget(): void {
    this.#bounded = new BoundedPartitions();
  }

  async partition(outputRecords: readonly OutputRecord[]): Promise<PartitionedRecords> {
    const partitioned = outputRecords.map((record): PartitionedRecord => {
      const spec = specOf(this.#layouts.topics, record.topic);
      return { spec, record, partition: partitionOf(record.key, spec.partitions) };
    });
    const bounded = this.#bounded;
    const first = new Map<TopicSpec, Set<number>>();
    for (const { spec, partition } of partitioned)
      if (!bounded.has(spec, partition)) first.set(spec, (first.get(spec) ?? new Set()).add(partition));
    if (first.size === 0) return { records: partitioned, committed: () => {} };
    const bounds = new Map<TopicSpec, ReadonlyMap<number, Bounds>>();
    for (const [spec, partitions] of first)
      bounds.set(spec, await this.#layouts.boundsOf(spec, partitions, 'owner'));
    return {
      records: partitioned.map((one) => {
        const of = bounds.get(one.spec)?.get(one.partition);
        if (of === undefined) return one;
        const headers = withBounds(one.record.headers, HEADER.after, of);
        return { ...one, record: { ...one.record, headers } };
      }),
      // Without effect after `forget`.
      committed: () => {
        for (const [spec, partitions] of first) bounded.add(spec, partitions);
      },
    };
  }
}

/**
 * Holds back the entries of an added partition until the stage has done the earlier records of their keys, which are in
 * other partitions below the bounds that the entries carry. Reached positions are remembered.
 */
export class BoundsBarrier implements EntryBarrier {
  readonly #reachedIn: (partition: number) => Promise<number>;
  readonly #opened: () => Promise<void>;
  /** By partition. */
  readonly #reached = new Map<number, number>();

  /**
   * `reachedIn`: all visible records of the topic's partition below this offset are done by the stage, or not kept any more.
   * `opened` is called after a wait, before the entry is dispatched.
   */
  constructor(reachedIn: (partition: number) => Promise<number>, opened: () => Promise<void>) {
    this.#reachedIn = reachedIn;
    this.#opened = opened;
  }

  countOpen(waiting: readonly Taken[]): number {
    let passed: string | undefined;
    for (const [count, { bounds }] of waiting.entries()) {
      if (bounds === undefined || bounds === passed) continue;
      const parsed = parseBounds(bounds);
      if (parsed !== undefined && !isPast(parsed, this.#reached)) return count;
      passed = bounds;
    }
    return waiting.length;
  }

  async tryOpen({ bounds: text }: Taken): Promise<boolean> {
    const bounds = text === undefined ? undefined : parseBounds(text);
    if (bounds === undefined) return true;
    const reached = new Map<number, number>();
    for (const partition of bounds.keys()) reached.set(partition, await this.#reachedIn(partition));
    if (!isPast(bounds, reached)) return false;
    await this.#opened();
    for (const [partition, offset] of reached) this.#reached.set(partition, offset);
    return true;
  }
}
