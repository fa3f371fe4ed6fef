import { type Batch, Rewind, type StageContext, type VolumeCounters } from '@tributary/core';

/** Where counting goes on for a batch: up to `from` (exclusive) everything is counted. */
export interface CountingPoint {
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
   */
  async pointOf(batch: Batch, context: StageContext): Promise<CountingPoint> {
    const name = nameOf(batch);
    const known = this.#known.get(name);
    if (known !== undefined) return { from: known };
    const applied = await this.#counters.applied({ topic: batch.topic, partition: batch.partition });
    const start = batch.entries[0]?.position.offset ?? 0;
    this.#forgetOnLoss(name, context.signal);
    if (applied < start && this.#rewound.get(name) !== applied) {
      this.#rewound.set(name, applied);
      throw new Rewind(applied);
    }
    this.#known.set(name, applied);
    return { from: applied };
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

function nameOf(batch: Batch): string {
  return `${batch.topic}/${batch.partition}`;
}
