import type { OutputRecord, ValueFraming } from '@tributary/core';
import { backoffMs, PUBLIC_SCHEMAS, TooLarge, Unavailable } from '@tributary/core';
import { type PartitionRecords, RecordPacker } from '../../record-packer.ts';
import { pause } from '../../stage-runner/work.ts';
import { groupByLeader } from '../client/brokers.ts';
import type { KafkaClient } from '../client/client.ts';
import type { ClientPool } from '../client/client-pool.ts';
import { failOn, protocolErrorOf, translateKafkaError } from '../client/errors.ts';
import type { ProducerIdentity, RecordToWrite } from '../client/protocol.ts';
import type { FirstBounds, PartitionedRecord } from '../growth/first-bounds.ts';
import { type BatchLimits, batchesOf } from '../records/batches.ts';
import type { Membership } from './membership.ts';

/** The coordinator aborts a transaction that is open for longer, ms. */
const TRANSACTION_TIMEOUT_MS = 15_000;

/** How long to wait while the coordinator completes the previous transaction, ms. */
const CONCURRENT_TIMEOUT_MS = 30_000;
const CONCURRENT_BACKOFF = { firstMs: 2, capMs: 100 };

/** The position to store with a transaction. */
export interface StoredPosition {
  /** In Kafka. */
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly metadata: string;
}

export interface TransactionsOptions {
  readonly transactionalId: string;
  readonly clients: Pick<ClientPool, 'use'>;
  readonly membership: Pick<Membership, 'groupId' | 'member'>;
  /** Fires when the partition leaves this process. */
  readonly leaving: AbortSignal;
  /** Places the output records. */
  readonly bounds: Pick<FirstBounds, 'partition'>;
  /** The name of a topic in Kafka. */
  readonly nameOf: (topic: string) => string;
  readonly framing: ValueFraming;
  /** Shared by all writers to the topics. */
  readonly limits: BatchLimits;
}

/** One batch and the records that it is part of. */
interface Written {
  readonly records: PartitionRecords;
  readonly batch: readonly RecordToWrite[];
}

/**
 * Transactions under one transactional id, one at a time. After a failure the outcome is unknown and only `begin()` helps:
 * it finishes or aborts the open transaction, and refuses every earlier user of the id from then on.
 */
export class Transactions {
  readonly #options: TransactionsOptions;
  #identity: ProducerIdentity | undefined;
  /** The sequence number of the next record in this epoch, by topic and partition. */
  #sequences = new Map<string, number>();

  constructor(options: TransactionsOptions) {
    this.#options = options;
  }

  /** True when `commit` may be called. */
  get begun(): boolean {
    return this.#identity !== undefined;
  }

  /** Fences earlier users of the id. When it resolves their open transaction is finished or aborted. */
  async begin(): Promise<void> {
    const { clients, transactionalId } = this.#options;
    this.#identity = undefined;
    const identity = await clients.use((client) =>
      this.#afterPrevious(() => client.initProducer(transactionalId, TRANSACTION_TIMEOUT_MS)),
    );
    this.#sequences = new Map();
    this.#identity = identity;
  }

  /**
   * Makes output records and a position visible together. After a rejection the outcome is unknown, but for `TooLarge`: a
   * topic takes no record of the size of one of them, and nothing was committed.
   */
  async commit(outputRecords: readonly OutputRecord[], position: StoredPosition): Promise<void> {
    const identity = this.#identity;
    if (!identity) throw new Unavailable('Kafka: the transactional id was not fenced yet');
    this.#identity = undefined;
    const partitioned = await this.#options.bounds.partition(outputRecords);
    const partitions = recordsOf(partitioned.records);
    await this.#options.clients.use(async (client) => {
      await this.#enlist(client, identity, partitions);
      await Promise.all([this.#write(client, identity, partitions), this.#store(client, identity, position)]);
      await client.endTransaction(identity);
    });
    partitioned.committed();
    this.#identity = identity;
  }

  /** Adds the partitions and the group to the transaction: sent together, answered in order. */
  async #enlist(
    client: KafkaClient,
    identity: ProducerIdentity,
    partitions: readonly PartitionRecords[],
  ): Promise<void> {
    const { nameOf, membership } = this.#options;
    const byTopic = Map.groupBy(partitions, ({ topic }) => topic);
    const topics = [...byTopic].map(([topic, of]) => ({
      topic: nameOf(topic),
      partitions: of.map(({ partition }) => partition),
    }));
    await Promise.all([
      this.#afterPrevious(() => client.addPartitions(identity, topics)),
      this.#afterPrevious(() => client.addGroup(identity, membership.groupId)),
    ]);
  }

  async #store(client: KafkaClient, identity: ProducerIdentity, position: StoredPosition): Promise<void> {
    const { topic, partition, offset, metadata } = position;
    const { membership, leaving } = this.#options;
    // After a rejoin the member names a generation in which the partition is another's: the position would be accepted.
    leaving.throwIfAborted();
    await client.commitInTransaction({
      producer: identity,
      member: membership.member,
      topics: [{ topic, partitions: [{ partition, offset: String(offset), metadata }] }],
    });
  }

  /** A request takes one batch a partition, so a partition with more of them is written in rounds. */
  async #write(
    client: KafkaClient,
    identity: ProducerIdentity,
    partitions: readonly PartitionRecords[],
  ): Promise<void> {
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
      await this.#writeRound(client, identity, parts);
    }
  }

  async #writeRound(
    client: KafkaClient,
    identity: ProducerIdentity,
    parts: readonly Written[],
  ): Promise<void> {
    const { nameOf } = this.#options;
    const leaders = await groupByLeader(client, parts, ({ records: { topic, partition } }) => ({
      topic: nameOf(topic),
      partition,
    }));
    await Promise.all(
      [...leaders].map(async ([leader, led]) => {
        const byTopic = Map.groupBy(led, ({ records }) => records.topic);
        const { answer } = await client.produce(leader, {
          ...identity,
          acks: -1,
          timeout: TRANSACTION_TIMEOUT_MS,
          compression: 'large',
          topicData: [...byTopic].map(([topic, of]) => ({
            topic: nameOf(topic),
            isPublic: PUBLIC_SCHEMAS.has(topic),
            partitions: of.map(({ records, batch }) => ({
              partition: records.partition,
              firstSequence: this.#nextSequence(records, batch.length),
              messages: batch,
            })),
          })),
        });
        for (const { topicName, partitions } of (await answer).topics)
          for (const { partition, errorCode } of partitions)
            this.#failOn(client, errorCode, `writing to ${topicName}/${partition}`, () =>
              led.find(
                ({ records }) => nameOf(records.topic) === topicName && records.partition === partition,
              ),
            );
      }),
    );
  }

  /** Also for a leader that moved, or an epoch that the coordinator ended. */
  #failOn(client: KafkaClient, errorCode: number, doing: string, written: () => Written | undefined): void {
    try {
      failOn(errorCode);
    } catch (thrown) {
      const failure = translateKafkaError(thrown, doing);
      const refused = failure instanceof TooLarge ? written() : undefined;
      if (refused) throw this.#options.limits.refused(refused.records.topic, refused.batch);
      client.invalidateMetadata();
      throw failure;
    }
  }

  #nextSequence({ topic, partition }: PartitionRecords, records: number): number {
    const key = `${topic}/${partition}`;
    const first = this.#sequences.get(key) ?? 0;
    // Sequence numbers have 31 bits.
    this.#sequences.set(key, (first + records) % 2 ** 31);
    return first;
  }

  /** Repeats the call while the coordinator completes the previous transaction, which takes milliseconds. */
  async #afterPrevious<T>(call: () => Promise<T>): Promise<T> {
    const { leaving } = this.#options;
    const deadline = performance.now() + CONCURRENT_TIMEOUT_MS;
    for (let attempt = 0; ; attempt++) {
      leaving.throwIfAborted();
      try {
        return await call();
      } catch (thrown) {
        if (protocolErrorOf(thrown) !== 'CONCURRENT_TRANSACTIONS' || performance.now() > deadline)
          throw thrown;
        await pause(backoffMs(attempt, CONCURRENT_BACKOFF), leaving);
      }
    }
  }
}

function recordsOf(partitioned: readonly PartitionedRecord[]): readonly PartitionRecords[] {
  const packer = new RecordPacker();
  for (const { spec, record, partition } of partitioned) packer.pack(spec, record, partition);
  return packer.partitions();
}
