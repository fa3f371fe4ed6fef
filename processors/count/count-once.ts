import {
  type Batch,
  type BatchStage,
  type CountedPartition,
  type LogEntry,
  Rewind,
  type StageContext,
} from '@tributary/core';

/** The offsets from which and to which a batch counts a partition. */
interface FencedRange extends CountedPartition {
  readonly from: number;
  readonly to: number;
}

/** A store whose content and applied offset of a partition change together: see `VolumeCounters`. */
interface FencedStore<Added extends object> {
  applied(partition: CountedPartition): Promise<number>;
  apply(batch: FencedRange & Added): Promise<void>;
}

/** A store, and the increments that entries add to it. */
export interface Counting<Added extends object> {
  readonly store: FencedStore<Added>;
  tally(topic: string, entries: readonly LogEntry[]): Added | Promise<Added>;
}

/**
 * A stage that adds each entry to a store once, as the store's content and applied offset change together. `counted` is
 * called with the number of entries that were added.
 */
export function countOnce<Added extends object>(
  { store, tally }: Counting<Added>,
  counted: (topic: string, entries: number) => void,
): BatchStage['process'] {
  const offsets = new AppliedOffsets(store);
  return async (batch, context) => {
    const { topic, partition } = batch;
    const { applied, from } = await offsets.pointOf(batch, context);
    const uncounted = batch.entries.filter((entry) => entry.position.offset >= from);
    const last = uncounted.at(-1);
    if (last === undefined) return [];
    const to = last.position.offset + 1;
    const added = await tally(topic, uncounted);
    try {
      await store.apply({ ...added, topic, partition, from: applied, to });
    } catch (error) {
      offsets.forget(batch);
      throw error;
    }
    offsets.advance(batch, to);
    counted(topic, uncounted.length);
    return [];
  };
}

/**
 * Counts a redriven entry once. Its own partition was counted past it, so the applied offset of its partition of
 * `stages.dead` deduplicates; entries of one partition there must be redriven in order. Throws `Fenced` where another process
 * counts it.
 */
export async function recountOnce<Added extends object>(
  { store, tally }: Counting<Added>,
  entry: LogEntry,
  { topic, partition, offset }: LogEntry['position'],
  context: StageContext,
): Promise<void> {
  const from = await store.applied({ topic, partition });
  if (from > offset && !(await isMadeAnew(from, context))) return;
  const added = await tally(entry.position.topic, [entry]);
  await store.apply({ ...added, topic, partition, from, to: offset + 1 });
}

/** The start of counting in a batch. */
interface CountingPoint {
  /** The applied offset of the store, which the next `apply` must name. */
  readonly applied: number;
  /** Everything before this offset is counted. */
  readonly from: number;
}

/**
 * The applied offsets of a store, cached for each partition. The cache is dropped by `forget` after a failed apply, and
 * when the partition is revoked.
 */
class AppliedOffsets {
  readonly #store: Pick<FencedStore<object>, 'applied'>;
  readonly #known = new Map<string, number>();
  /** The offset a partition was rewound to and has not been counted past since. */
  readonly #rewound = new Map<string, number>();
  readonly #watched = new WeakMap<AbortSignal, Set<string>>();

  constructor(store: Pick<FencedStore<object>, 'applied'>) {
    this.#store = store;
  }

  /**
   * Throws `Rewind` where the store is behind the batch, for example after its failover. Offsets have gaps (control
   * records, retention): a batch that still starts behind the applied offset after one rewind is behind such a gap.
   *
   * If a repeated batch starts before the applied offset, only the rest is counted. If the partition ends before the
   * applied offset as well, the topic was recreated, and counting begins anew with the batch.
   */
  async pointOf(batch: Batch, context: StageContext): Promise<CountingPoint> {
    const name = nameOf(batch);
    const start = batch.entries[0]?.position.offset ?? 0;
    const known = this.#known.get(name);
    if (known !== undefined && known <= start) return { applied: known, from: known };
    const applied = await this.#store.applied({ topic: batch.topic, partition: batch.partition });
    this.#forgetOnLoss(name, context.signal);
    if (applied < start && this.#rewound.get(name) !== applied) {
      this.#rewound.set(name, applied);
      throw new Rewind(applied);
    }
    if (applied > start && (await isMadeAnew(applied, context))) return { applied, from: start };
    this.#known.set(name, applied);
    return { applied, from: applied };
  }

  advance(batch: Batch, to: number): void {
    this.#known.set(nameOf(batch), to);
    this.#rewound.delete(nameOf(batch));
  }

  forget(batch: Batch): void {
    this.#known.delete(nameOf(batch));
  }

  /** `#rewound` stays: the log may abort the signal and create a new one in order to rewind. */
  #forgetOnLoss(name: string, signal: AbortSignal): void {
    const watched = this.#watched.get(signal);
    if (watched !== undefined) {
      watched.add(name);
      return;
    }
    const names = new Set([name]);
    this.#watched.set(signal, names);
    const forgetAll = () => {
      for (const lost of names) this.#known.delete(lost);
    };
    signal.addEventListener('abort', forgetAll, { once: true });
  }
}

/**
 * Whether the topic was recreated: no process counts past the end of a partition. The end must be read after the applied
 * offset, as another process may have counted past an older end.
 */
async function isMadeAnew(applied: number, context: StageContext): Promise<boolean> {
  return context.end !== undefined && applied > (await context.end());
}

function nameOf(batch: Batch): string {
  return `${batch.topic}/${batch.partition}`;
}
