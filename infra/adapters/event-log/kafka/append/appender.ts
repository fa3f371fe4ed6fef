import {
  type NewEntry,
  Overloaded,
  type Position,
  partitionOf,
  type TopicSpec,
  Unavailable,
  type ValueFraming,
} from '@tributary/core';
import type { KafkaClient } from '../client/client.ts';
import { failOn, translateKafkaError } from '../client/errors.ts';
import type { ProduceAnswer } from '../client/protocol.ts';
import { type PartitionOfGroup, takeGroup } from './group.ts';
import { Leader } from './leader.ts';
import { PartitionQueue } from './partition-queue.ts';

export interface AppenderOptions {
  readonly client: Pick<KafkaClient, 'leaderId' | 'produce' | 'lookAgain'>;
  /** The name of a topic in Kafka. */
  readonly nameOf: (topic: string) => string;
  readonly framing: ValueFraming;
  /** Bytes that were taken and are not yet durable, at most. One call alone may be larger. */
  readonly maxUnconfirmedBytes: number;
  /** How long the brokers may take to have a group in all in-sync replicas, ms. */
  readonly timeoutMs: number;
}

/** The batches that one request writes, one a partition. */
interface Request {
  readonly round: number;
  readonly partitions: readonly PartitionOfGroup[];
}

/** So many calls go without waiting for the end of this turn of the event loop: brokers work while more are read. */
const EAGER_CALLS = 64;

/** What an append that was refused may take beyond its timeout, ms. */
const REFUSED_WITHIN_MS = 2_000;

/**
 * Makes entries durable in groups: acks from all in-sync replicas. What is asked for in one turn of the event loop, or
 * while a leader is busy, goes to it as its next group.
 *
 * Nothing is sent again, so what is confirmed of one partition stands in the order of the calls: what failed is the
 * caller's to repeat, and may be there. Partitions wait for their own leader alone.
 */
export class Appender {
  readonly #options: AppenderOptions;
  readonly #queues = new Map<string, PartitionQueue[]>();
  readonly #leaders = new Map<number, Leader>();
  readonly #calls = new Set<Promise<unknown>>();
  #unconfirmedBytes = 0;
  #undispatchedCalls = 0;

  constructor(options: AppenderOptions) {
    this.#options = options;
  }

  /**
   * The position of each entry. `bytes` is what they count for against the bound. Rejects with `Overloaded` when that is
   * passed (nothing was taken), with `Unavailable` when a part of them is not known to be durable.
   */
  async append(spec: TopicSpec, entries: readonly NewEntry[], bytes: number): Promise<readonly Position[]> {
    const { maxUnconfirmedBytes, timeoutMs } = this.#options;
    if (this.#unconfirmedBytes > 0 && this.#unconfirmedBytes + bytes > maxUnconfirmedBytes) {
      throw new Overloaded(`${this.#unconfirmedBytes} bytes wait to be made durable`);
    }
    this.#unconfirmedBytes += bytes;
    const appended = this.#enqueue(spec, entries, () => {
      this.#unconfirmedBytes -= bytes;
    });
    // Who waits behind others that wait for a silent broker does not wait for all of them.
    const answered = within(timeoutMs + REFUSED_WITHIN_MS, appended);
    this.#calls.add(answered);
    return answered.finally(() => this.#calls.delete(answered));
  }

  /** Resolves when nobody waits for an answer. */
  async drained(): Promise<void> {
    while (this.#calls.size > 0) await Promise.allSettled(this.#calls);
  }

  /** `settled` is called once it is known of all of them whether they are durable, or never will be. */
  #enqueue(spec: TopicSpec, entries: readonly NewEntry[], settled: () => void): Promise<readonly Position[]> {
    const sendUntil = performance.now() + this.#options.timeoutMs;
    const byPartition = byPartitionOf(spec, entries);
    const positions: Position[] = [];
    let left = byPartition.size;
    const appended = new Promise<readonly Position[]>((resolve, reject) => {
      const partSettled = () => {
        left--;
        if (left > 0) return;
        settled();
        resolve(positions);
      };
      for (const [partition, of] of byPartition) {
        const queue = this.#queueOf(spec, partition);
        queue.add({
          ...of,
          sendUntil,
          confirm: (places) => {
            for (const [j, place] of places.entries())
              positions[of.at[j] ?? j] = { topic: spec.name, partition, ...place };
            partSettled();
          },
          fail: (reason) => {
            reject(reason);
            partSettled();
          },
        });
        this.#wantsToLeave(queue);
      }
    });
    this.#undispatchedCalls++;
    if (this.#undispatchedCalls >= EAGER_CALLS) this.#dispatch();
    else if (this.#undispatchedCalls === 1) setImmediate(() => this.#dispatch());
    return appended;
  }

  #queueOf(spec: TopicSpec, partition: number): PartitionQueue {
    const ofTopic = this.#queues.get(spec.name) ?? [];
    this.#queues.set(spec.name, ofTopic);
    ofTopic[partition] ??= new PartitionQueue(spec, partition);
    return ofTopic[partition];
  }

  /** Lines it up at its leader, which is looked up where it is not known. */
  #wantsToLeave(queue: PartitionQueue): void {
    if (queue.empty) return;
    if (queue.leader && !queue.leader.gone) queue.leader.waiting.add(queue);
    else if (!queue.lookedUp) void this.#lookUp(queue);
  }

  async #lookUp(queue: PartitionQueue): Promise<void> {
    const { client, nameOf } = this.#options;
    const { spec, partition } = queue;
    queue.lookedUp = true;
    try {
      const nodeId = await client.leaderId(nameOf(spec.name), partition);
      queue.leader = this.#leaders.get(nodeId) ?? new Leader(nodeId);
      this.#leaders.set(nodeId, queue.leader);
      this.#wantsToLeave(queue);
      setImmediate(() => this.#dispatch());
    } catch (thrown) {
      queue.failAll(translateKafkaError(thrown, `appending to ${spec.name}/${partition}`));
    } finally {
      queue.lookedUp = false;
    }
  }

  #dispatch(): void {
    this.#undispatchedCalls = 0;
    for (const leader of this.#leaders.values()) this.#drive(leader);
  }

  #drive(leader: Leader): void {
    while (leader.ready) {
      const group = takeGroup(leader, this.#options.framing);
      if (group.length > 0) void this.#send(leader, group);
    }
  }

  /** Groups of a leader go off one after the other and are confirmed side by side. */
  async #send(leader: Leader, group: readonly PartitionOfGroup[]): Promise<void> {
    leader.leaving = true;
    leader.inFlight++;
    for (const { queue } of group) queue.leaving = true;
    const confirmations: Promise<void>[] = [];
    // A request takes one batch a partition.
    const rounds = Math.max(...group.map(({ batches }) => batches.length));
    for (let round = 0; round < rounds; round++) {
      const partitions = group.filter(({ batches }) => round < batches.length);
      confirmations.push((await this.#produce(leader, { round, partitions })).confirmed);
    }
    leader.leaving = false;
    for (const { queue } of group) {
      queue.leaving = false;
      // Its leader may be another by now.
      if (queue.leader !== leader && queue.leader) this.#drive(queue.leader);
    }
    this.#drive(leader);
    await Promise.all(confirmations);
    leader.inFlight--;
    for (const partition of group) partition.settle();
    this.#drive(leader);
  }

  /** Resolves once the request is on its way, with its confirmation. Neither rejects. */
  async #produce(leader: Leader, request: Request): Promise<{ readonly confirmed: Promise<void> }> {
    const { client, nameOf, timeoutMs } = this.#options;
    const byTopic = Map.groupBy(request.partitions, ({ queue }) => queue.spec.name);
    try {
      const { answer } = await client.produce(leader.nodeId, {
        acks: -1,
        timeout: timeoutMs,
        compression: 0,
        topicData: [...byTopic].map(([topic, ofTopic]) => ({
          topic: nameOf(topic),
          partitions: ofTopic.map(({ queue, batches }) => ({
            partition: queue.partition,
            messages: batches[request.round] ?? [],
          })),
        })),
      });
      return {
        confirmed: answer
          .then((all) => this.#settleAll(request, all))
          .catch((thrown) => this.#unanswered(leader, request, thrown)),
      };
    } catch (thrown) {
      this.#unanswered(leader, request, thrown);
      return { confirmed: Promise.resolve() };
    }
  }

  #settleAll({ round, partitions }: Request, { topics }: ProduceAnswer): void {
    const { client, nameOf } = this.#options;
    for (const partition of partitions) {
      const { queue } = partition;
      const answer = topics
        .find(({ topicName }) => topicName === nameOf(queue.spec.name))
        ?.partitions.find((each) => each.partition === queue.partition);
      try {
        if (!answer) throw new Unavailable(`Kafka: ${partition.doing}: no answer for a partition`);
        failOn(answer.errorCode);
        partition.confirm(round, Number(answer.baseOffset));
      } catch (thrown) {
        client.lookAgain();
        partition.fail(thrown);
        this.#lostLeader(queue);
      }
    }
  }

  /** What else waits for this leader need not find out the same. */
  #unanswered(leader: Leader, { partitions }: Request, thrown: unknown): void {
    for (const partition of partitions) partition.fail(thrown);
    leader.gone = true;
    if (this.#leaders.get(leader.nodeId) === leader) this.#leaders.delete(leader.nodeId);
    for (const queue of leader.waiting) this.#lostLeader(queue);
  }

  #lostLeader(queue: PartitionQueue): void {
    queue.leader?.waiting.delete(queue);
    queue.leader = undefined;
    this.#wantsToLeave(queue);
  }
}

/** The entries of one call that go to one partition, and where they stand in the call. */
interface OfPartition {
  readonly entries: NewEntry[];
  readonly at: number[];
  bytes: number;
}

function byPartitionOf(spec: TopicSpec, entries: readonly NewEntry[]): ReadonlyMap<number, OfPartition> {
  const byPartition = new Map<number, OfPartition>();
  for (const [i, entry] of entries.entries()) {
    const partition = partitionOf(entry.key, spec.partitions);
    const of = byPartition.get(partition) ?? { entries: [], at: [], bytes: 0 };
    byPartition.set(partition, of);
    of.entries.push(entry);
    of.at.push(i);
    of.bytes += entry.value.length;
  }
  return byPartition;
}

/** `work`, or `Unavailable` after so many ms; it is left to itself then. */
function within<T>(ms: number, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Unavailable(`Kafka: not confirmed within ${ms} ms`)), ms);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
