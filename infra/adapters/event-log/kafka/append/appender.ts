import {
  type NewEntry,
  Overloaded,
  type Position,
  type TooLarge,
  type TopicSpec,
  Unavailable,
  type ValueFraming,
} from '@tributary/core';
import type { KafkaClient } from '../client/client.ts';
import { failOn, translateKafkaError } from '../client/errors.ts';
import type { ProduceAnswer } from '../client/protocol.ts';
import { Call, type Part } from './call.ts';
import { PartitionOfGroup, takeGroup } from './group.ts';
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
 * Nothing is sent again that may be there, so what is confirmed of one partition stands in the order of the calls: what
 * failed is the caller's to repeat, and may be there. A batch that a broker refuses for its size is not there, and is tried
 * in parts. Partitions wait for their own leader alone.
 */
export class Appender {
  readonly #options: AppenderOptions;
  readonly #queues = new Map<string, PartitionQueue[]>();
  readonly #leaders = new Map<number, Leader>();
  readonly #unanswered = new Set<Call>();
  #unconfirmedBytes = 0;
  #undispatchedCalls = 0;

  constructor(options: AppenderOptions) {
    this.#options = options;
  }

  /**
   * The position of each entry. `bytes` is what they count for against the bound. Rejects with `Overloaded` when that is
   * passed (nothing was taken), with `Unavailable` when a part of them is not known to be durable, with `TooLarge` when the
   * call holds more than its partition takes at once: of a call with several entries some may be durable all the same.
   */
  append(spec: TopicSpec, entries: readonly NewEntry[], bytes: number): Promise<readonly Position[]> {
    const { maxUnconfirmedBytes, timeoutMs } = this.#options;
    if (this.#unconfirmedBytes > 0 && this.#unconfirmedBytes + bytes > maxUnconfirmedBytes) {
      return Promise.reject(new Overloaded(`${this.#unconfirmedBytes} bytes wait to be made durable`));
    }
    this.#unconfirmedBytes += bytes;
    const call = new Call({
      spec,
      entries,
      timeoutMs,
      // Who waits behind others that wait for a silent broker does not wait for all of them.
      answerWithinMs: timeoutMs + REFUSED_WITHIN_MS,
      onAnswered: (answered) => this.#unanswered.delete(answered),
      onSettled: () => {
        this.#unconfirmedBytes -= bytes;
      },
    });
    this.#unanswered.add(call);
    for (const part of call.parts) {
      const queue = this.#queueOf(spec, part.partition);
      queue.add(part);
      this.#wantsToLeave(queue);
    }
    this.#undispatchedCalls++;
    if (this.#undispatchedCalls >= EAGER_CALLS) this.#dispatch();
    else if (this.#undispatchedCalls === 1) setImmediate(() => this.#dispatch());
    return call.appended;
  }

  /** Resolves when nobody waits for an answer. */
  async drained(): Promise<void> {
    while (this.#unanswered.size > 0)
      await Promise.allSettled([...this.#unanswered].map(({ appended }) => appended));
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
    for (const partition of group) {
      partition.queue.leaving = true;
      partition.queue.inFlight.push(partition);
    }
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
    for (const partition of group) {
      if (partition.tooLarge) void this.#narrow(partition, partition.tooLarge);
      else partition.settle();
      if (!partition.tooLarge) forget(partition);
    }
    this.#drive(leader);
  }

  /**
   * A partition takes no batch of the size that was sent: its operator lowered `max.message.bytes`. The calls that it was
   * made of go again in halves, until the one that is too large stands alone and is refused; meanwhile nothing else goes
   * to the partition. A call is `Unavailable` instead where a later one with its key is on its way already: order is kept.
   */
  async #narrow(refused: PartitionOfGroup, reason: TooLarge): Promise<void> {
    const { queue } = refused;
    queue.held++;
    const behind = queue.inFlight.slice(queue.inFlight.indexOf(refused) + 1);
    const left: Part[] = [];
    for (const part of refused.confirmPlaced()) {
      const keys = new Set(part.entries.map(({ key }) => key));
      if (!behind.some((later) => later.hasAny(keys))) left.push(part);
      else part.call.failed(new Unavailable(`Kafka: ${refused.doing}: it would come behind later ones`));
    }
    await this.#appendInHalves(queue, left, reason);
    forget(refused);
    queue.held--;
    this.#wantsToLeave(queue);
    if (queue.leader) this.#drive(queue.leader);
  }

  async #appendInHalves(queue: PartitionQueue, parts: readonly Part[], reason: TooLarge): Promise<void> {
    const [first] = parts;
    if (first === undefined) return;
    if (parts.length === 1) {
      first.call.failed(reason);
      return;
    }
    const bytes = parts.reduce((sum, part) => sum + part.bytes, 0);
    queue.maxBytes = Math.max(1, Math.min(queue.maxBytes, Math.floor(bytes / 2)));
    const middle = parts.length >> 1;
    for (const half of [parts.slice(0, middle), parts.slice(middle)]) await this.#appendAlone(queue, half);
  }

  async #appendAlone(queue: PartitionQueue, parts: readonly Part[]): Promise<void> {
    const { client, nameOf, framing } = this.#options;
    try {
      const alone = new PartitionOfGroup(queue, parts, framing);
      const nodeId = await client.leaderId(nameOf(queue.spec.name), queue.partition);
      const leader = this.#leaders.get(nodeId) ?? new Leader(nodeId);
      for (let round = 0; round < alone.batches.length && !alone.failed; round++)
        await (await this.#produce(leader, { round, partitions: [alone] })).confirmed;
      if (alone.tooLarge) await this.#appendInHalves(queue, alone.confirmPlaced(), alone.tooLarge);
      else alone.settle();
    } catch (thrown) {
      const failure = translateKafkaError(thrown, `appending to ${queue.spec.name}/${queue.partition}`);
      for (const part of parts) part.call.failed(failure);
    }
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
          .catch((thrown) => this.#gaveNoAnswer(leader, request, thrown)),
      };
    } catch (thrown) {
      this.#gaveNoAnswer(leader, request, thrown);
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
        partition.fail(thrown);
        if (partition.tooLarge) continue;
        client.lookAgain();
        this.#lostLeader(queue);
      }
    }
  }

  /** What else waits for this leader need not find out the same. */
  #gaveNoAnswer(leader: Leader, { partitions }: Request, thrown: unknown): void {
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

/** It is settled: nothing can come before or behind it any more. */
function forget(partition: PartitionOfGroup): void {
  const { inFlight } = partition.queue;
  inFlight.splice(inFlight.indexOf(partition), 1);
}
