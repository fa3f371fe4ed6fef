import { type Batch, Rewind, type StageContext, type VolumeCounters } from '@tributary/core';

/** Where counting goes on for a batch. */
export interface CountingPoint {
  /** What the counters have applied: the next batch of theirs must start from it. */
  readonly applied: number;
  /** Up to here (exclusive) everything is counted. */
  readonly from: number;
}

/**
 * What this process knows of the offsets the counters have applied. Asked once per partition; `forget` after any
 * failed apply, and by itself when the partition is lost, makes it ask again.
 */
export class AppliedOffsets {
  readonly #counters: VolumeCounters;
  readonly #known = new Map<string, number>();
  /** The offset a partition was rewound to and has not been counted past since. */
  readonly #rewound = new Map<string, number>();
  readonly #watched = new WeakMap<AbortSignal, Set<string>>();

  constructor(counters: VolumeCounters) {
    this.#counters = counters;
  }

  /**
   * Throws `Rewind` when the counters are behind the batch, which a failover of theirs may do. Offsets may have gaps
   * (control records, retention): what still starts behind the applied offset after one rewind is such a gap.
   *
   * A batch that starts before what is applied is a replay, of which only the rest is counted; unless the partition
   * ends before it too: then the topic was made anew, and counting begins again with the batch.
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

  /** What was rewound stays: the log may end the signal and begin a new one to do that very rewind. */
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
 * Nobody counts past the end. It has to be asked after the applied offset was: an end known from before may be older
 * than what another process has counted since.
 */
export async function isMadeAnew(applied: number, context: StageContext): Promise<boolean> {
  return context.end !== undefined && applied > (await context.end());
}

function nameOf(batch: Batch): string {
  return `${batch.topic}/${batch.partition}`;
}
