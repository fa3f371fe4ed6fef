import {
  type NewEntry,
  type Position,
  partitionOf,
  type TopicSpec,
  type TributaryError,
} from '@tributary/core';

/** The entries of one `append` that go to one partition, in their order. */
export interface Part {
  readonly request: AppendRequest;
  readonly partition: number;
  readonly entries: readonly NewEntry[];
  /** The index of each of them in the request. */
  readonly at: readonly number[];
  /** Size of the values of the entries. */
  readonly bytes: number;
}

/** Told of the progress of an `append`. */
export interface AppendWatcher {
  /** The caller has its answer. */
  answered(request: AppendRequest): void;
  /** The outcome of every part is known, or known to stay unknown. */
  settled(request: AppendRequest): void;
}

export interface AppendRequestOptions {
  readonly spec: TopicSpec;
  readonly entries: readonly NewEntry[];
  /** That count against the bound of unconfirmed bytes. */
  readonly bytes: number;
  /** A part that was not sent until then is not sent any more, by `performance.now()`. */
  readonly sendUntil: number;
  readonly watcher: AppendWatcher;
}

/** One `append` in progress: cut into a part a partition, answered once all parts are durable. */
export class AppendRequest {
  readonly bytes: number;
  readonly sendUntil: number;
  readonly parts: readonly Part[];
  /** The position of each entry, once all are durable; rejects as soon as one is not known to be. */
  readonly appended: Promise<readonly Position[]>;
  readonly #watcher: AppendWatcher;
  readonly #topic: string;
  readonly #positions: Position[];
  #left: number;
  #resolve: (positions: readonly Position[]) => void = () => {};
  #reject: (reason: TributaryError) => void = () => {};

  constructor({ spec, entries, bytes, sendUntil, watcher }: AppendRequestOptions) {
    this.bytes = bytes;
    this.sendUntil = sendUntil;
    this.parts = this.#partsOf(spec, entries);
    this.#watcher = watcher;
    this.#topic = spec.name;
    this.#left = this.parts.length;
    this.#positions = new Array(entries.length);
    this.appended = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  /** Sets the position of the i-th entry of a part. */
  setPosition({ at, partition }: Part, i: number, offset: number, index: number): void {
    this.#positions[at[i] ?? i] = { topic: this.#topic, partition, offset, index };
  }

  /** All entries of one of the parts have their positions. */
  confirmed(): void {
    this.#left--;
    if (this.#left > 0) return;
    this.#watcher.settled(this);
    this.#watcher.answered(this);
    // Without effect where a part failed before.
    this.#resolve(this.#positions);
  }

  /** One of the parts is not known to be durable. */
  failed(reason: TributaryError): void {
    this.reject(reason);
    this.confirmed();
  }

  /** Answers the caller while the outcome of a part is not known. */
  reject(reason: TributaryError): void {
    this.#watcher.answered(this);
    this.#reject(reason);
  }

  #partsOf(spec: TopicSpec, entries: readonly NewEntry[]): readonly Part[] {
    const [first] = entries;
    if (entries.length === 1 && first !== undefined) {
      const partition = partitionOf(first.key, spec.partitions);
      return [{ request: this, partition, entries, at: [0], bytes: first.value.length }];
    }
    const byPartition = new Map<number, MutablePart>();
    for (let i = 0; i < entries.length; i++) {
      const entry = entries[i];
      if (entry === undefined) continue;
      const partition = partitionOf(entry.key, spec.partitions);
      let part = byPartition.get(partition);
      if (part === undefined) {
        part = { request: this, partition, entries: [], at: [], bytes: 0 };
        byPartition.set(partition, part);
      }
      part.entries.push(entry);
      part.at.push(i);
      part.bytes += entry.value.length;
    }
    return [...byPartition.values()];
  }
}

interface MutablePart extends Part {
  readonly entries: NewEntry[];
  readonly at: number[];
  bytes: number;
}
