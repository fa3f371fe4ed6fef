import type { OutputRecord, TopicSpec, ValueFraming } from '@tributary/core';
import { backoffMs, TooLarge, Unavailable } from '@tributary/core';
import { type PartitionRecords, RecordPacker } from '../../append/record-packer.ts';
import { pause } from '../../stage-runner/waiting.ts';
import type { KafkaClient } from '../client/client.ts';
import { failOn, protocolErrorOf, translateKafkaError } from '../client/errors.ts';
import type { ProducerIdentity, RecordToWrite } from '../client/protocol.ts';
import { type BatchLimits, batchesOf } from '../records/batches.ts';

/** A transaction that is open for longer than this is aborted by its coordinator, ms. */
const TRANSACTION_TIMEOUT_MS = 15_000;

/** How long what the previous transaction left to be finished is waited for, ms. */
const CONCURRENT_PATIENCE_MS = 30_000;
const CONCURRENT_BACKOFF = { firstMs: 2, capMs: 100 };

/** The position to store with a transaction. */
export interface StoredPosition {
  readonly groupId: string;
  /** In Kafka. */
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly metadata: string;
}

export interface TransactionsOptions {
  readonly transactionalId: string;
  /** Its connections are used by one transaction at a time. */
  readonly client: KafkaClient;
  readonly topics: ReadonlyMap<string, TopicSpec>;
  /** The name of a topic in Kafka. */
  readonly nameOf: (topic: string) => string;
  readonly framing: ValueFraming;
  /** Shared by all that writes to the topics. */
  readonly limits: BatchLimits;
}

/** One batch on its way to a partition. */
interface Written {
  readonly records: PartitionRecords;
  readonly batch: readonly RecordToWrite[];
}

/**
 * Transactions under one transactional id, one at a time. After a call that failed nothing is known and only
 * `begin()` helps: it ends what is open, and every earlier user of the id, for good.
 */
export class Transactions {
  readonly #options: TransactionsOptions;
  #identity: ProducerIdentity | undefined;
  /** Of the next record, by topic and partition, in this epoch. */
  #sequences = new Map<string, number>();

  constructor(options: TransactionsOptions) {
    this.#options = options;
  }

  /** True when `commit` may be called. */
  get begun(): boolean {
    return this.#identity !== undefined;
  }

  /** Fences earlier users of the id; their open transaction is finished, one way or the other, when this resolves. */
  async begin(): Promise<void> {
    const { client, transactionalId } = this.#options;
    this.#identity = undefined;
    const identity = await this.#overConcurrent(() =>
      client.initProducer(transactionalId, TRANSACTION_TIMEOUT_MS),
    );
    this.#sequences = new Map();
    this.#identity = identity;
  }

  /**
   * Makes emissions and a position visible together. Any rejection: unknown whether it happened, but for `TooLarge`: it
   * did not, as a topic takes no record of the size of one of them.
   */
  async commit(emissions: readonly OutputRecord[], position: StoredPosition): Promise<void> {
    const identity = this.#identity;
    if (!identity) throw new Unavailable('Kafka: the transactional id was not fenced yet');
    this.#identity = undefined;
    const partitions = this.#recordsOf(emissions);
    await this.#enlist(identity, partitions, position.groupId);
    await Promise.all([this.#write(identity, partitions), this.#store(identity, position)]);
    await this.#options.client.endTransaction(identity);
    this.#identity = identity;
  }

  #recordsOf(emissions: readonly OutputRecord[]): readonly PartitionRecords[] {
    const packer = new RecordPacker();
    for (const emission of emissions) {
      const spec = this.#options.topics.get(emission.topic);
      if (!spec) throw new Error(`emission to "${emission.topic}", which is not declared`);
      packer.place(spec, emission);
    }
    return packer.partitions();
  }

  /** Names the partitions and the group to the coordinator: sent together, answered in order. */
  async #enlist(
    identity: ProducerIdentity,
    partitions: readonly PartitionRecords[],
    groupId: string,
  ): Promise<void> {
    const { client, nameOf } = this.#options;
    const byTopic = Map.groupBy(partitions, ({ topic }) => topic);
    const topics = [...byTopic].map(([topic, of]) => ({
      topic: nameOf(topic),
      partitions: of.map(({ partition }) => partition),
    }));
    await Promise.all([
      this.#overConcurrent(() => client.addPartitions(identity, topics)),
      this.#overConcurrent(() => client.addGroup(identity, groupId)),
    ]);
  }

  async #store(identity: ProducerIdentity, position: StoredPosition): Promise<void> {
    const { groupId, topic, partition, offset, metadata } = position;
    await this.#options.client.commitInTransaction(identity, groupId, [
      { topic, partitions: [{ partition, offset: String(offset), metadata }] },
    ]);
  }

  /** A request takes one batch a partition, so what has more goes in rounds. */
  async #write(identity: ProducerIdentity, partitions: readonly PartitionRecords[]): Promise<void> {
    const { framing, limits } = this.#options;
    const all = partitions.map((records) => ({
      records,
      batches: batchesOf(records, framing, limits.of(records.topic)),
    }));
    for (let round = 0; all.some(({ batches }) => round < batches.length); round++) {
      const parts = all.flatMap(({ records, batches }) => {
        const batch = batches[round];
        return batch ? [{ records, batch }] : [];
      });
      await this.#writeRound(identity, parts);
    }
  }

  async #writeRound(identity: ProducerIdentity, parts: readonly Written[]): Promise<void> {
    const { client, nameOf } = this.#options;
    const leaders = new Map<number, typeof parts>();
    for (const part of parts) {
      const leader = await client.leaderId(nameOf(part.records.topic), part.records.partition);
      leaders.set(leader, [...(leaders.get(leader) ?? []), part]);
    }
    await Promise.all(
      [...leaders].map(async ([leader, led]) => {
        const byTopic = Map.groupBy(led, ({ records }) => records.topic);
        const { answer } = await client.produce(leader, {
          ...identity,
          acks: -1,
          timeout: TRANSACTION_TIMEOUT_MS,
          compression: 0,
          topicData: [...byTopic].map(([topic, of]) => ({
            topic: nameOf(topic),
            partitions: of.map(({ records, batch }) => ({
              partition: records.partition,
              firstSequence: this.#nextSequence(records, batch.length),
              messages: batch,
            })),
          })),
        });
        for (const { topicName, partitions } of (await answer).topics)
          for (const { partition, errorCode } of partitions)
            this.#judge(errorCode, `writing to ${topicName}/${partition}`, () =>
              led.find(
                ({ records }) => nameOf(records.topic) === topicName && records.partition === partition,
              ),
            );
      }),
    );
  }

  /** Also a leader that moved, or an epoch that its coordinator ended: then `begin()` helps, as after any failure. */
  #judge(errorCode: number, doing: string, written: () => Written | undefined): void {
    try {
      failOn(errorCode);
    } catch (thrown) {
      const failure = translateKafkaError(thrown, doing);
      const refused = failure instanceof TooLarge ? written() : undefined;
      if (refused) throw this.#options.limits.refused(refused.records.topic, refused.batch);
      this.#options.client.lookAgain();
      throw failure;
    }
  }

  #nextSequence({ topic, partition }: PartitionRecords, records: number): number {
    const key = `${topic}/${partition}`;
    const first = this.#sequences.get(key) ?? 0;
    // 31 bits, then from 0 again.
    this.#sequences.set(key, (first + records) % 2 ** 31);
    return first;
  }

  /** The previous transaction of the id may still be on its way to be finished: that takes milliseconds. */
  async #overConcurrent<T>(call: () => Promise<T>): Promise<T> {
    const giveUpAt = performance.now() + CONCURRENT_PATIENCE_MS;
    const never = new AbortController().signal;
    for (let attempt = 0; ; attempt++) {
      try {
        return await call();
      } catch (thrown) {
        if (protocolErrorOf(thrown) !== 'CONCURRENT_TRANSACTIONS' || performance.now() > giveUpAt)
          throw thrown;
        await pause(backoffMs(attempt, CONCURRENT_BACKOFF), never);
      }
    }
  }
}
