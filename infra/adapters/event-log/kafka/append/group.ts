import type { TributaryError, ValueFraming } from '@tributary/core';
import { TooLarge, Unavailable } from '@tributary/core';
import { type PartitionRecords, type Placed, RecordPacker } from '../../append/record-packer.ts';
import { translateKafkaError } from '../client/errors.ts';
import type { RecordToWrite } from '../client/protocol.ts';
import { batchesOf } from '../records/batches.ts';
import type { Part } from './call.ts';
import type { Leader } from './leader.ts';
import type { PartitionQueue } from './partition-queue.ts';

/** Bytes of entries in one group, at most; those of one call to one partition alone may be more. */
const GROUP_BYTES = 4 * 1024 * 1024;

/** What a group holds of one partition. */
export class PartitionOfGroup {
  readonly queue: PartitionQueue;
  /** A request takes one of them. */
  readonly batches: readonly (readonly RecordToWrite[])[];
  readonly #parts: readonly { readonly part: Part; readonly placed: readonly Placed[] }[];
  /** Of each record, in order; a hole: not known to be there. */
  readonly #offsets: number[] = [];
  #failure: TributaryError | undefined;

  /** Throws for what cannot be written at all. */
  constructor(queue: PartitionQueue, parts: readonly Part[], framing: ValueFraming) {
    const packer = new RecordPacker();
    this.queue = queue;
    this.#parts = parts.map((part) => ({
      part,
      placed: part.entries.map((entry) => packer.place(queue.spec, entry, queue.partition)),
    }));
    this.batches = packer.partitions().flatMap((records: PartitionRecords) => batchesOf(records, framing));
  }

  get doing(): string {
    return `appending to ${this.queue.spec.name}/${this.queue.partition}`;
  }

  /** A batch is there, its first record at `base`. */
  confirm(round: number, base: number): void {
    const before = this.batches.slice(0, round).reduce((records, batch) => records + batch.length, 0);
    const batch = this.batches[round] ?? [];
    for (let i = 0; i < batch.length; i++) this.#offsets[before + i] = base + i;
  }

  /** A batch may be there or not. */
  fail(thrown: unknown): void {
    // A batch that is refused for its size is not there; what is not known of another one weighs more.
    if (this.#failure === undefined || this.#failure instanceof TooLarge)
      this.#failure = translateKafkaError(thrown, this.doing);
  }

  get failed(): boolean {
    return this.#failure !== undefined;
  }

  /** The partition does not take batches of this size. */
  get tooLarge(): TooLarge | undefined {
    return this.#failure instanceof TooLarge ? this.#failure : undefined;
  }

  /** Whoever waits hears what is known. */
  settle(): void {
    const failure = this.#failure ?? new Unavailable(`Kafka: ${this.doing}: not confirmed`);
    for (const part of this.confirmPlaced()) part.call.failed(failure);
  }

  /** Confirms the parts that are durable, and answers the others. */
  confirmPlaced(): readonly Part[] {
    const left: Part[] = [];
    for (const { part, placed } of this.#parts) {
      if (this.#place(part, placed)) part.call.confirmed();
      else left.push(part);
    }
    return left;
  }

  /** Whether it holds an entry with one of the keys. */
  hasAny(keys: ReadonlySet<string>): boolean {
    return this.#parts.some(({ part }) => part.entries.some(({ key }) => keys.has(key)));
  }

  #place(part: Part, placed: readonly Placed[]): boolean {
    let i = 0;
    for (const { record, index } of placed) {
      const offset = this.#offsets[record];
      if (offset === undefined) return false;
      part.call.place(part, i++, offset, index);
    }
    return true;
  }
}

/** What waits for one leader, of each of its partitions in turn. */
export function takeGroup(leader: Leader, framing: ValueFraming): readonly PartitionOfGroup[] {
  const group: PartitionOfGroup[] = [];
  let bytes = 0;
  for (const queue of [...leader.waiting]) {
    if (bytes >= GROUP_BYTES) break;
    if (!queue.mayLeave) continue;
    const taken = queue.take(GROUP_BYTES - bytes);
    bytes += taken.bytes;
    leader.waiting.delete(queue);
    // Behind those that were not asked.
    if (!queue.empty) leader.waiting.add(queue);
    if (taken.parts.length === 0) continue;
    try {
      group.push(new PartitionOfGroup(queue, taken.parts, framing));
    } catch (thrown) {
      const reason = translateKafkaError(thrown, `writing ${queue.spec.name}/${queue.partition}`);
      for (const { call } of taken.parts) call.failed(reason);
    }
  }
  return group;
}
