import {
  type NewEntry,
  Overloaded,
  type Position,
  PUBLIC_SCHEMAS,
  partitionOf,
  TooLarge,
  type TopicSpec,
  type TributaryError,
  Unavailable,
  type ValueFraming,
} from '@tributary/core';
import { type PackedEntry, type PartitionRecords, RecordPacker } from '../entries.ts';
import type { KafkaClient } from './client/client.ts';
import { failOn, type ProduceAnswer, type RecordToWrite, translateKafkaError } from './client/protocol.ts';
import { type BatchLimits, BatchRefused, batchesOf } from './record-batch.ts';

interface AppenderOptions {
  readonly client: Pick<KafkaClient, 'leaderId' | 'produce' | 'invalidateMetadata'>;
  /** The name of a topic in Kafka. */
  readonly nameOf: (topic: string) => string;
  readonly framing: ValueFraming;
  /** Shared by all writers to the topics. */
  readonly limits: BatchLimits;
  /** Bytes that were accepted and are not yet durable, at most. One append alone may be larger. */
  readonly maxUnconfirmedBytes: number;
  /** How long the brokers may take to write a group to all in-sync replicas, ms. */
  readonly timeoutMs: number;
}

/** One produce request: a batch of each partition. */
interface Produce {
  readonly round: number;
  readonly partitions: readonly PartitionGroup[];
}

/** So many appends are sent before the end of this turn of the event loop: brokers work while more are read. */
const EAGER_APPENDS = 64;

/** How long beyond its timeout an append may take to be rejected, ms. */
const REJECTED_WITHIN_MS = 2_000;

/**
 * Makes entries durable in groups, acknowledged by all in-sync replicas. The appends of one turn of the event loop, and
 * those that come while a leader is busy, go to it as its next group. Partitions wait for their own leader alone.
 *
 * A batch that may be in the log is never sent again, so the entries of a partition are in the order of the appends; the
 * caller repeats a failed append, which may be in the log already. A batch that a broker refuses for its size is not in
 * the log: its parts are queued again, and go in smaller batches.
 */
export class Appender {
  readonly #options: AppenderOptions;
  readonly #queues = new Map<string, PartitionQueue[]>();
  readonly #leaders = new Map<number, Leader>();
  /** The oldest first. */
  readonly #unanswered = new Set<AppendRequest>();
  /** Runs while an append is not answered. */
  #overdueTimer: NodeJS.Timeout | undefined;
  #unconfirmedBytes = 0;
  #undispatched = 0;

  constructor(options: AppenderOptions) {
    this.#options = options;
  }

  /**
   * The position of each entry. `bytes` count against the bound of unconfirmed bytes. Rejects
   * - with `Overloaded` beyond the bound: nothing was accepted;
   * - with `Unavailable` when some entry is not known to be durable;
   * - with `TooLarge` when an entry is larger than its topic takes. Others may be durable.
   */
  append(spec: TopicSpec, entries: readonly NewEntry[], bytes: number): Promise<readonly Position[]> {
    const { maxUnconfirmedBytes, timeoutMs } = this.#options;
    if (this.#unconfirmedBytes > 0 && this.#unconfirmedBytes + bytes > maxUnconfirmedBytes) {
      return Promise.reject(new Overloaded(`${this.#unconfirmedBytes} bytes wait to be made durable`));
    }
    this.#unconfirmedBytes += bytes;
    const sendUntil = performance.now() + timeoutMs;
    const request = new AppendRequest(this, spec, entries, bytes, sendUntil);
    this.#unanswered.add(request);
    this.#overdueTimer ??= setTimeout(() => this.#rejectOverdue(), timeoutMs + REJECTED_WITHIN_MS);
    for (const part of request.parts) {
      const queue = this.#queueOf(spec, part.partition);
      queue.add(part);
      this.#enqueue(queue);
    }
    this.#undispatched++;
    if (this.#undispatched >= EAGER_APPENDS) this.#dispatch();
    else if (this.#undispatched === 1) setImmediate(() => this.#dispatch());
    return request.appended;
  }

  /** Resolves when every append has its answer. */
  async drained(): Promise<void> {
    while (this.#unanswered.size > 0)
      await Promise.allSettled([...this.#unanswered].map(({ appended }) => appended));
  }

  /** The caller of the append has its answer. */
  answered(request: AppendRequest): void {
    this.#unanswered.delete(request);
    if (this.#unanswered.size > 0) return;
    clearTimeout(this.#overdueTimer);
    this.#overdueTimer = undefined;
  }

  /** The outcome of every part of the append is known, or known to stay unknown. */
  settled({ bytes }: AppendRequest): void {
    this.#unconfirmedBytes -= bytes;
  }

  /** An append queued behind others that wait for a silent broker does not wait for all of their timeouts. */
  #rejectOverdue(): void {
    const now = performance.now();
    this.#overdueTimer = undefined;
    for (const request of this.#unanswered) {
      const leftMs = request.sendUntil + REJECTED_WITHIN_MS - now;
      if (leftMs > 0) {
        this.#overdueTimer = setTimeout(() => this.#rejectOverdue(), leftMs);
        return;
      }
      const withinMs = this.#options.timeoutMs + REJECTED_WITHIN_MS;
      request.reject(new Unavailable(`Kafka: not confirmed within ${withinMs} ms`));
    }
  }

  #queueOf(spec: TopicSpec, partition: number): PartitionQueue {
    const ofTopic = this.#queues.get(spec.name) ?? [];
    this.#queues.set(spec.name, ofTopic);
    ofTopic[partition] ??= new PartitionQueue(spec, partition);
    return ofTopic[partition];
  }

  /** Adds the queue to those of its leader, which is looked up where it is not known. */
  #enqueue(queue: PartitionQueue): void {
    if (queue.empty) return;
    if (queue.leader && !queue.leader.isLost) queue.leader.queues.add(queue);
    else if (!queue.isFindingLeader) void this.#findLeader(queue);
  }

  async #findLeader(queue: PartitionQueue): Promise<void> {
    const { client, nameOf } = this.#options;
    const { spec, partition } = queue;
    queue.isFindingLeader = true;
    try {
      const nodeId = await client.leaderId(nameOf(spec.name), partition);
      queue.leader = this.#leaders.get(nodeId) ?? new Leader(nodeId);
      this.#leaders.set(nodeId, queue.leader);
      this.#enqueue(queue);
      setImmediate(() => this.#dispatch());
    } catch (thrown) {
      queue.failAll(translateKafkaError(thrown, `appending to ${spec.name}/${partition}`));
    } finally {
      queue.isFindingLeader = false;
    }
  }

  #dispatch(): void {
    this.#undispatched = 0;
    for (const leader of this.#leaders.values()) this.#drive(leader);
  }

  #drive(leader: Leader): void {
    while (leader.isReady) {
      const group = leader.takeGroup(this.#options);
      if (group.length > 0) void this.#send(leader, group);
    }
  }

  /** The groups of a leader are sent one after the other and confirmed side by side. */
  async #send(leader: Leader, group: readonly PartitionGroup[]): Promise<void> {
    leader.isSending = true;
    leader.inFlight++;
    for (const partition of group) {
      partition.queue.isSending = true;
      partition.queue.inFlight.push(partition);
    }
    const confirmations: Promise<void>[] = [];
    // A produce request takes one batch a partition.
    const rounds = Math.max(...group.map(({ batches }) => batches.length));
    for (let round = 0; round < rounds; round++) {
      const partitions = group.filter(({ batches }) => round < batches.length);
      confirmations.push((await this.#produce(leader, { round, partitions })).confirmed);
    }
    leader.isSending = false;
    for (const { queue } of group) {
      queue.isSending = false;
      // The leader may have moved meanwhile.
      if (queue.leader !== leader && queue.leader) this.#drive(queue.leader);
    }
    this.#drive(leader);
    await Promise.all(confirmations);
    leader.inFlight--;
    for (const partition of group) {
      partition.settle();
      this.#enqueue(partition.queue);
      if (partition.queue.leader) this.#drive(partition.queue.leader);
    }
    this.#drive(leader);
  }

  /** Resolves once the request is written to the connection, with its confirmation. Neither rejects. */
  async #produce(leader: Leader, produce: Produce): Promise<{ readonly confirmed: Promise<void> }> {
    const { client, nameOf, timeoutMs } = this.#options;
    try {
      const { answer } = await client.produce(leader.nodeId, {
        acks: -1,
        timeout: timeoutMs,
        batches: produce.partitions.map(({ queue: { spec, partition }, batches }) => ({
          topic: nameOf(spec.name),
          isPublic: PUBLIC_SCHEMAS.has(spec.name),
          partition,
          messages: batches[produce.round] ?? [],
        })),
      });
      return {
        confirmed: answer
          .then((all) => this.#settleAll(produce, all))
          .catch((thrown) => this.#failWithLeader(leader, produce, thrown)),
      };
    } catch (thrown) {
      this.#failWithLeader(leader, produce, thrown);
      return { confirmed: Promise.resolve() };
    }
  }

  #settleAll({ round, partitions }: Produce, answers: ProduceAnswer): void {
    const { client, nameOf, limits } = this.#options;
    for (const partition of partitions) {
      const { queue } = partition;
      const answer = answers.get(`${nameOf(queue.spec.name)}/${queue.partition}`);
      try {
        if (!answer) throw new Unavailable(`Kafka: ${partition.doing}: no answer for a partition`);
        failOn(answer.errorCode);
        partition.confirm(round, Number(answer.baseOffset));
      } catch (thrown) {
        const failure = translateKafkaError(thrown, partition.doing);
        if (failure instanceof TooLarge) {
          partition.fail(round, limits.refused(queue.spec.name, partition.batches[round] ?? []));
          continue;
        }
        partition.fail(round, failure);
        client.invalidateMetadata();
        this.#findLeaderAgain(queue);
      }
    }
  }

  /** Its other partitions look their leaders up again instead of waiting for the same failure. */
  #failWithLeader(leader: Leader, { round, partitions }: Produce, thrown: unknown): void {
    for (const partition of partitions) partition.fail(round, translateKafkaError(thrown, partition.doing));
    leader.isLost = true;
    if (this.#leaders.get(leader.nodeId) === leader) this.#leaders.delete(leader.nodeId);
    for (const queue of leader.queues) this.#findLeaderAgain(queue);
  }

  #findLeaderAgain(queue: PartitionQueue): void {
    queue.leader?.queues.delete(queue);
    queue.leader = undefined;
    this.#enqueue(queue);
  }
}

/** Bytes of entries in one group, at most; the part of one request alone may be larger. */
const GROUP_BYTES = 4 * 1024 * 1024;

/**
 * Requests to one broker at the same time. A broker reads the next request of a connection once it has answered the one
 * before: a second request hides the round trip, further ones only cut the same entries into smaller groups.
 */
const MAX_IN_FLIGHT = 2;

/** The queue of one partition, in the order of the appends. */
class PartitionQueue {
  readonly spec: TopicSpec;
  readonly partition: number;
  /** Undefined while it is not known. */
  leader: Leader | undefined;
  isFindingLeader = false;
  /** True until the group taken last was written to the connection: one taken meanwhile could overtake it. */
  isSending = false;
  /** Sent, in order, from the first that is not settled on. */
  readonly inFlight: PartitionGroup[] = [];
  #parts: Part[] = [];

  constructor(spec: TopicSpec, partition: number) {
    this.spec = spec;
    this.partition = partition;
  }

  get empty(): boolean {
    return this.#parts.length === 0;
  }

  add(part: Part): void {
    this.#parts.push(part);
  }

  /** Puts parts that were refused for their size before all others. */
  addAgain(parts: readonly Part[]): void {
    this.#parts = [...parts, ...this.#parts];
  }

  /** Takes the first parts, of `atMost` bytes together or one alone. Parts that waited for too long fail. */
  take(atMost: number): { readonly parts: readonly Part[]; readonly bytes: number } {
    const now = performance.now();
    const parts: Part[] = [];
    let seen = 0;
    let taken = 0;
    for (const part of this.#parts) {
      if (part.request.sendUntil < now) {
        part.request.failed(new Unavailable('Kafka: not sent in time'));
      } else {
        if (parts.length > 0 && taken + part.bytes > atMost) break;
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
class Leader {
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
    for (const queue of this.queues) if (!queue.isSending) return true;
    return false;
  }

  /** A group from its queues, each partition in turn. */
  takeGroup(options: GroupOptions): readonly PartitionGroup[] {
    const group: PartitionGroup[] = [];
    let bytes = 0;
    for (const queue of [...this.queues]) {
      if (bytes >= GROUP_BYTES) break;
      if (queue.isSending) continue;
      const taken = queue.take(GROUP_BYTES - bytes);
      bytes += taken.bytes;
      this.queues.delete(queue);
      // The partition moves behind those that had no place in this group.
      if (!queue.empty) this.queues.add(queue);
      if (taken.parts.length === 0) continue;
      try {
        group.push(new PartitionGroup(queue, taken.parts, options));
      } catch (thrown) {
        const reason = translateKafkaError(thrown, `writing ${queue.spec.name}/${queue.partition}`);
        for (const { request } of taken.parts) request.failed(reason);
      }
    }
    return group;
  }
}

type GroupOptions = Pick<AppenderOptions, 'framing' | 'limits'>;

/** The part of a group that goes to one partition. */
class PartitionGroup {
  readonly queue: PartitionQueue;
  /** A produce request takes one batch a partition. */
  readonly batches: readonly (readonly RecordToWrite[])[];
  readonly #parts: readonly { readonly part: Part; readonly packed: readonly PackedEntry[] }[];
  /** Of each record, in order: its offset, or why it is not known to be in the log. */
  readonly #outcomes: (number | TributaryError)[] = [];
  isSettled = false;

  /** Throws where an entry cannot be encoded. */
  constructor(queue: PartitionQueue, parts: readonly Part[], { framing, limits }: GroupOptions) {
    const maxBytes = limits.of(queue.spec.name);
    const packer = new RecordPacker(maxBytes);
    this.queue = queue;
    this.#parts = parts.map((part) => ({
      part,
      packed: part.entries.map((entry) => packer.pack(queue.spec, entry, queue.partition)),
    }));
    this.batches = packer
      .partitions()
      .flatMap((records: PartitionRecords) => batchesOf(records, framing, maxBytes));
  }

  get doing(): string {
    return `appending to ${this.queue.spec.name}/${this.queue.partition}`;
  }

  /** The batch of a round is durable, its first record at `base`. */
  confirm(round: number, base: number): void {
    this.#setOutcomes(round, (i) => base + i);
  }

  /** The batch of a round is refused, or may be in the log or not. */
  fail(round: number, reason: TributaryError): void {
    this.#setOutcomes(round, () => reason);
  }

  /** Answers the parts, but for those that go again in smaller batches. */
  settle(): void {
    const { inFlight } = this.queue;
    const again = this.#partsToGoAgain();
    for (const { part, packed } of this.#parts) {
      if (again.includes(part)) continue;
      const failure = this.#settlePart(part, packed);
      if (failure === undefined) part.request.confirmed();
      else part.request.failed(failure);
    }
    this.queue.addAgain(again);
    this.isSettled = true;
    while (inFlight[0]?.isSettled) inFlight.shift();
  }

  /** Parts of which each record was refused for the size of its batch, unless entries of their keys may be behind them. */
  #partsToGoAgain(): readonly Part[] {
    if (!this.#outcomes.some((outcome) => outcome instanceof BatchRefused)) return [];
    const { inFlight } = this.queue;
    const later = inFlight.slice(inFlight.indexOf(this) + 1);
    const behind = new Set(later.flatMap((group) => group.#parts.flatMap(({ part }) => keysOf(part))));
    const again: Part[] = [];
    for (const { part, packed } of this.#parts.toReversed()) {
      const keys = keysOf(part);
      const isRefused = packed.every(({ record }) => this.#outcomes[record] instanceof BatchRefused);
      if (isRefused && !keys.some((key) => behind.has(key))) again.unshift(part);
      else for (const key of keys) behind.add(key);
    }
    return again;
  }

  #setOutcomes(round: number, outcomeOf: (i: number) => number | TributaryError): void {
    const before = this.batches.slice(0, round).reduce((records, batch) => records + batch.length, 0);
    for (let i = 0; i < (this.batches[round]?.length ?? 0); i++) this.#outcomes[before + i] = outcomeOf(i);
  }

  /** Why a record of the part is not known to be in the log; else its entries have their positions. */
  #settlePart(part: Part, packed: readonly PackedEntry[]): TributaryError | undefined {
    let i = 0;
    for (const { record, index } of packed) {
      const outcome = this.#outcomes[record] ?? new Unavailable(`Kafka: ${this.doing}: not confirmed`);
      if (typeof outcome !== 'number') return outcome;
      part.request.setPosition(part, i++, outcome, index);
    }
    return undefined;
  }
}

function keysOf({ entries }: Part): readonly string[] {
  return entries.map(({ key }) => key);
}

/** The entries of one `append` that go to one partition, in their order. */
interface Part {
  readonly request: AppendRequest;
  readonly partition: number;
  readonly entries: readonly NewEntry[];
  /** The index of each of them in the request. */
  readonly at: readonly number[];
  /** Size of the values of the entries. */
  readonly bytes: number;
}

/** One `append` in progress: cut into a part a partition, answered once all parts are durable. */
class AppendRequest {
  /** That count against the bound of unconfirmed bytes. */
  readonly bytes: number;
  /** A part that was not sent until then is not sent any more, by `performance.now()`. */
  readonly sendUntil: number;
  readonly parts: readonly Part[];
  readonly #appended = Promise.withResolvers<readonly Position[]>();
  readonly #appender: Appender;
  readonly #topic: string;
  readonly #positions: Position[];
  #left: number;

  constructor(
    appender: Appender,
    spec: TopicSpec,
    entries: readonly NewEntry[],
    bytes: number,
    sendUntil: number,
  ) {
    this.bytes = bytes;
    this.sendUntil = sendUntil;
    this.parts = this.#partsOf(spec, entries);
    this.#appender = appender;
    this.#topic = spec.name;
    this.#left = this.parts.length;
    this.#positions = new Array(entries.length);
  }

  /** The position of each entry, once all are durable; rejects as soon as one is not known to be. */
  get appended(): Promise<readonly Position[]> {
    return this.#appended.promise;
  }

  /** Sets the position of the i-th entry of a part. */
  setPosition({ at, partition }: Part, i: number, offset: number, index: number): void {
    this.#positions[at[i] ?? i] = { topic: this.#topic, partition, offset, index };
  }

  /** All entries of one of the parts have their positions. */
  confirmed(): void {
    this.#left--;
    if (this.#left > 0) return;
    this.#appender.settled(this);
    this.#appender.answered(this);
    // Without effect where a part failed before.
    this.#appended.resolve(this.#positions);
  }

  /** One of the parts is not known to be durable. */
  failed(reason: TributaryError): void {
    this.reject(reason);
    this.confirmed();
  }

  /** Answers the caller while the outcome of a part is not known. */
  reject(reason: TributaryError): void {
    this.#appender.answered(this);
    this.#appended.reject(reason);
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
