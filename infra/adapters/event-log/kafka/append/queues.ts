import type { TopicSpec, TributaryError, ValueFraming } from '@tributary/core';
import { TooLarge, Unavailable } from '@tributary/core';
import { type PackedEntry, type PartitionRecords, RecordPacker } from '../../record-packer.ts';
import { translateKafkaError } from '../client/errors.ts';
import type { RecordToWrite } from '../client/protocol.ts';
import { batchesOf } from '../records/batches.ts';
import type { Part } from './append-request.ts';

/** Bytes of entries in one group, at most; the part of one request alone may be larger. */
const GROUP_BYTES = 4 * 1024 * 1024;

/**
 * Requests to one broker at the same time. A broker reads the next request of a connection once it has answered the one
 * before: a second request hides the round trip, further ones only cut the same entries into smaller groups.
 */
const MAX_IN_FLIGHT = 2;

/** The queue of one partition, in the order of the appends. */
export class PartitionQueue {
  readonly spec: TopicSpec;
  readonly partition: number;
  /** Undefined while it is not known. */
  leader: Leader | undefined;
  isFindingLeader = false;
  /** True until the group taken last was written to the connection: one taken meanwhile could overtake it. */
  isSending = false;
  /** Above 0 while a batch that was refused for its size is sent again in halves: nothing may overtake them. */
  halving = 0;
  /** Bytes of one group, at most, learned from refusals; the part of one request alone may be larger. */
  maxBytes = Number.POSITIVE_INFINITY;
  /** Sent and not settled, in order. */
  readonly inFlight: PartitionGroup[] = [];
  #parts: Part[] = [];

  constructor(spec: TopicSpec, partition: number) {
    this.spec = spec;
    this.partition = partition;
  }

  get canSend(): boolean {
    return !this.isSending && this.halving === 0;
  }

  get empty(): boolean {
    return this.#parts.length === 0;
  }

  add(part: Part): void {
    this.#parts.push(part);
  }

  /** Takes the first parts, of `atMost` bytes together or one alone. Parts that waited for too long fail. */
  take(atMost: number): { readonly parts: readonly Part[]; readonly bytes: number } {
    const now = performance.now();
    const bytes = Math.min(atMost, this.maxBytes);
    const parts: Part[] = [];
    let seen = 0;
    let taken = 0;
    for (const part of this.#parts) {
      if (part.request.sendUntil < now) {
        part.request.failed(new Unavailable('Kafka: not sent in time'));
      } else {
        if (parts.length > 0 && taken + part.bytes > bytes) break;
        parts.push(part);
        taken += part.bytes;
      }
      seen++;
    }
    this.#parts = seen === this.#parts.length ? [] : this.#parts.slice(seen);
    return { parts, bytes: taken };
  }

  /** Rejects all queued appends with the reason. */
  failAll(reason: TributaryError): void {
    for (const part of this.#parts.splice(0)) part.request.failed(reason);
  }
}

/** A broker with the queues of the partitions it leads. A slow or silent broker delays no other. */
export class Leader {
  readonly nodeId: number;
  /** The queues that are not empty. */
  readonly queues = new Set<PartitionQueue>();
  /** It did not answer: the leaders of its partitions are looked up again. */
  isLost = false;
  /** A group was taken and is not written to the connection yet. */
  isSending = false;
  inFlight = 0;

  constructor(nodeId: number) {
    this.nodeId = nodeId;
  }

  /** Whether a group can be taken from its queues and sent. */
  get isReady(): boolean {
    if (this.isSending || this.isLost || this.inFlight >= MAX_IN_FLIGHT) return false;
    for (const queue of this.queues) if (queue.canSend) return true;
    return false;
  }

  /** A group from its queues, each partition in turn. */
  takeGroup(framing: ValueFraming): readonly PartitionGroup[] {
    const group: PartitionGroup[] = [];
    let bytes = 0;
    for (const queue of [...this.queues]) {
      if (bytes >= GROUP_BYTES) break;
      if (!queue.canSend) continue;
      const taken = queue.take(GROUP_BYTES - bytes);
      bytes += taken.bytes;
      this.queues.delete(queue);
      // The partition moves behind those that had no place in this group.
      if (!queue.empty) this.queues.add(queue);
      if (taken.parts.length === 0) continue;
      try {
        group.push(new PartitionGroup(queue, taken.parts, framing));
      } catch (thrown) {
        const reason = translateKafkaError(thrown, `writing ${queue.spec.name}/${queue.partition}`);
        for (const { request } of taken.parts) request.failed(reason);
      }
    }
    return group;
  }
}

/** The part of a group that goes to one partition. */
export class PartitionGroup {
  readonly queue: PartitionQueue;
  /** A produce request takes one batch a partition. */
  readonly batches: readonly (readonly RecordToWrite[])[];
  readonly #parts: readonly { readonly part: Part; readonly packed: readonly PackedEntry[] }[];
  /** The offset of each record, in order; a hole where it is not known that the record was written. */
  readonly #offsets: number[] = [];
  #failure: TributaryError | undefined;

  /** Throws where an entry cannot be encoded. */
  constructor(queue: PartitionQueue, parts: readonly Part[], framing: ValueFraming) {
    const packer = new RecordPacker();
    this.queue = queue;
    this.#parts = parts.map((part) => ({
      part,
      packed: part.entries.map((entry) => packer.pack(queue.spec, entry, queue.partition)),
    }));
    this.batches = packer.partitions().flatMap((records: PartitionRecords) => batchesOf(records, framing));
  }

  get doing(): string {
    return `appending to ${this.queue.spec.name}/${this.queue.partition}`;
  }

  /** The batch of a round is durable, its first record at `base`. */
  confirm(round: number, base: number): void {
    const before = this.batches.slice(0, round).reduce((records, batch) => records + batch.length, 0);
    const batch = this.batches[round] ?? [];
    for (let i = 0; i < batch.length; i++) this.#offsets[before + i] = base + i;
  }

  /** A batch failed; it may be in the log or not. */
  fail(thrown: unknown): void {
    // A batch that is refused for its size is not in the log; the unknown outcome of another one weighs more.
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

  /** Confirms the parts that are durable and fails the others. */
  settle(): void {
    for (const { request } of this.confirmDurable())
      request.failed(this.#failure ?? new Unavailable(`Kafka: ${this.doing}: not confirmed`));
  }

  /** Confirms the parts that are durable and returns the others. */
  confirmDurable(): readonly Part[] {
    const left: Part[] = [];
    for (const { part, packed } of this.#parts) {
      if (this.#settlePart(part, packed)) part.request.confirmed();
      else left.push(part);
    }
    return left;
  }

  /** Whether it holds an entry with one of the keys. */
  hasAny(keys: ReadonlySet<string>): boolean {
    return this.#parts.some(({ part }) => part.entries.some(({ key }) => keys.has(key)));
  }

  /** False where a record of the part is not known to be in the log. */
  #settlePart(part: Part, packed: readonly PackedEntry[]): boolean {
    let i = 0;
    for (const { record, index } of packed) {
      const offset = this.#offsets[record];
      if (offset === undefined) return false;
      part.request.setPosition(part, i++, offset, index);
    }
    return true;
  }
}
