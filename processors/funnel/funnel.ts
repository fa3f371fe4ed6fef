import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type Batch,
  type BatchStage,
  type Counters,
  type LogEntry,
  type Metrics,
  Rewind,
  type Source,
  type StageContext,
  summedCountsIn,
  TOPIC,
} from '@tributary/core';

export interface FunnelDependencies {
  readonly counters: Counters;
  readonly metrics: Metrics;
}

/** Records of this time are added together, ms: each addition reads and writes the documents of its cells. */
const GATHER_MS = 1_000;

/** The records of counts. Those of one second are due at its end. */
export const countsSource: Source = {
  topic: TOPIC.funnelCounts,
  dueAt: (appendedAt) => appendedAt - (appendedAt % GATHER_MS) + GATHER_MS,
};

/**
 * The stage `funnel`: adds what the other stages counted to the counters, each record once, as counts and applied offset
 * change together. A record sums up one commit of a stage and was appended with it.
 */
export function funnel({ counters, metrics }: FunnelDependencies): BatchStage['process'] {
  const offsets = new AppliedOffsets(counters);
  return async (batch, context) => {
    const { topic, partition } = batch;
    const { applied, from } = await offsets.pointOf(batch, context);
    const uncounted = batch.entries.filter((entry) => entry.position.offset >= from);
    const last = uncounted.at(-1);
    if (last === undefined) return [];
    const to = last.position.offset + 1;
    const counts = summedCountsIn(uncounted);
    // Each of the two steps takes 10 to 20 ms for a workspace with hundreds of rules: other stages run in between.
    await nextTurn();
    try {
      await counters.apply({ ...counts, topic, partition, from: applied, to });
    } catch (error) {
      offsets.forget(batch);
      throw error;
    }
    offsets.advance(batch, to);
    metrics.count('tributary_funnel_records_total', {}, uncounted.length);
    return [];
  };
}

/**
 * Counts a redriven record once. Its own partition was counted past it, so the applied offset of its partition of
 * `stages.dead` deduplicates; records of one partition there must be redriven in order. Throws `Fenced` where another
 * process counts it.
 */
export async function recountOnce(
  counters: Counters,
  entry: LogEntry,
  { topic, partition, offset }: LogEntry['position'],
  context: StageContext,
): Promise<void> {
  const from = await counters.applied({ topic, partition });
  if (from > offset && !(await isMadeAnew(from, context))) return;
  await counters.apply({ ...summedCountsIn([entry]), topic, partition, from, to: offset + 1 });
}

/** The start of counting in a batch. */
interface CountingPoint {
  /** The applied offset of the counters, which the next `apply` must name. */
  readonly applied: number;
  /** Everything before this offset is counted. */
  readonly from: number;
}

/**
 * The applied offsets, cached for each partition. The cache is dropped by `forget` after a failed apply, and
 * when the partition is revoked.
 */
class AppliedOffsets {
  readonly #counters: Pick<Counters, 'applied'>;
  readonly #known = new Map<string, number>();
  /** The offset a partition was rewound to and has not been counted past since. */
  readonly #rewound = new Map<string, number>();
  readonly #watched = new WeakMap<AbortSignal, Set<string>>();

  constructor(counters: Pick<Counters, 'applied'>) {
    this.#counters = counters;
  }

  /**
   * Throws `Rewind` where the counters are behind the batch, for example after a failover. Offsets have gaps (control
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
    const applied = await this.#counters.applied({ topic: batch.topic, partition: batch.partition });
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
