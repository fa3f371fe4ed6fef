import {
  type NewEntry,
  type Position,
  partitionOf,
  type TopicSpec,
  type TributaryError,
  Unavailable,
} from '@tributary/core';

/** The entries of a call that go to one partition, in their order. */
export interface Part {
  readonly call: Call;
  readonly partition: number;
  readonly entries: readonly NewEntry[];
  /** Where each of them stands in the call. */
  readonly at: readonly number[];
  /** Of their values. */
  readonly bytes: number;
}

export interface CallOptions {
  readonly spec: TopicSpec;
  readonly entries: readonly NewEntry[];
  /** What is not on its way after so long stays where it is, ms. */
  readonly timeoutMs: number;
  /** After so long it is answered, whatever is known, ms. */
  readonly answerWithinMs: number;
  /** Somebody was told. */
  readonly onAnswered: (call: Call) => void;
  /** It is known of all parts whether they are durable or not to be counted on. */
  readonly onSettled: () => void;
}

/** One `append` under way, from the caller's side. */
export class Call {
  /** By `performance.now()`. */
  readonly sendUntil: number;
  readonly parts: readonly Part[];
  /** Of each entry, once all are durable; rejects as soon as one is not known to be. */
  readonly appended: Promise<readonly Position[]>;
  readonly #options: CallOptions;
  readonly #positions: Position[];
  readonly #timer: NodeJS.Timeout;
  #left: number;
  #resolve: (positions: readonly Position[]) => void = () => {};
  #reject: (reason: TributaryError) => void = () => {};

  constructor(options: CallOptions) {
    const { spec, entries, timeoutMs, answerWithinMs } = options;
    this.#options = options;
    this.sendUntil = performance.now() + timeoutMs;
    this.parts = this.#partsOf(spec, entries);
    this.#left = this.parts.length;
    this.#positions = new Array(entries.length);
    this.appended = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#timer = setTimeout(() => {
      this.#answer();
      this.#reject(new Unavailable(`Kafka: not confirmed within ${answerWithinMs} ms`));
    }, answerWithinMs);
  }

  /** Where an entry of a part went, counted in the part. */
  place({ at, partition }: Part, i: number, offset: number, index: number): void {
    this.#positions[at[i] ?? i] = { topic: this.#options.spec.name, partition, offset, index };
  }

  /** One of the parts has all its places. */
  confirmed(): void {
    this.#left--;
    if (this.#left > 0) return;
    this.#options.onSettled();
    this.#answer();
    // Nobody listens any more after a failure.
    this.#resolve(this.#positions);
  }

  /** One of the parts is not known to be durable. */
  failed(reason: TributaryError): void {
    this.#answer();
    this.#reject(reason);
    this.confirmed();
  }

  #answer(): void {
    clearTimeout(this.#timer);
    this.#options.onAnswered(this);
  }

  #partsOf(spec: TopicSpec, entries: readonly NewEntry[]): readonly Part[] {
    const [first] = entries;
    if (entries.length === 1 && first !== undefined) {
      const partition = partitionOf(first.key, spec.partitions);
      return [{ call: this, partition, entries, at: [0], bytes: first.value.length }];
    }
    const byPartition = new Map<number, PartInTheMaking>();
    for (let i = 0; i < entries.length; i++) {
      const entry = entries[i];
      if (entry === undefined) continue;
      const partition = partitionOf(entry.key, spec.partitions);
      let part = byPartition.get(partition);
      if (part === undefined) {
        part = { call: this, partition, entries: [], at: [], bytes: 0 };
        byPartition.set(partition, part);
      }
      part.entries.push(entry);
      part.at.push(i);
      part.bytes += entry.value.length;
    }
    return [...byPartition.values()];
  }
}

interface PartInTheMaking extends Part {
  readonly entries: NewEntry[];
  readonly at: number[];
  bytes: number;
}
