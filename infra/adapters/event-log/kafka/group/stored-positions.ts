import { Unavailable } from '@tributary/core';
import type { KafkaClient } from '../client/client.ts';
import { failOn, translateKafkaError } from '../client/errors.ts';
import type { GroupMember, OffsetCommitAnswer } from '../client/protocol.ts';

/** The position of one partition. Topics have their names in Kafka. */
export interface PositionToStore {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly metadata: string;
}

interface Pending {
  readonly position: PositionToStore;
  readonly by: GroupMember;
  readonly resolve: () => void;
  readonly reject: (reason: Error) => void;
}

/**
 * Stores positions of a group outside of transactions. Positions that come while a request is in flight share the next one:
 * a coordinator takes some milliseconds for a request, however many partitions it names, and one request at a time.
 */
export class StoredPositions {
  readonly #client: KafkaClient;
  readonly #groupId: string;
  #pending: Pending[] = [];
  #storing = false;

  constructor(client: KafkaClient, groupId: string) {
    this.#client = client;
    this.#groupId = groupId;
  }

  /**
   * Resolves when the position is stored. It is sent with the membership given, also if that ended while it was queued: then
   * the coordinator refuses it. After a rejection it is unknown whether the position was stored.
   */
  store(position: PositionToStore, by: GroupMember): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#pending.push({ position, by, resolve, reject });
      if (!this.#storing) void this.#storeAll();
    });
  }

  async #storeAll(): Promise<void> {
    this.#storing = true;
    // Positions of the same turn of the event loop share a request.
    await new Promise((resolve) => setImmediate(resolve));
    for (;;) {
      const first = this.#pending[0];
      if (first === undefined) break;
      const together = this.#pending.filter(
        ({ by }) => by.memberId === first.by.memberId && by.generationId === first.by.generationId,
      );
      this.#pending = this.#pending.filter((waiting) => !together.includes(waiting));
      await this.#request(together, first.by);
    }
    this.#storing = false;
  }

  async #request(together: readonly Pending[], { memberId, generationId }: GroupMember): Promise<void> {
    const topics = [...Map.groupBy(together, ({ position }) => position.topic)].map(([topic, of]) => ({
      topic,
      partitions: of.map(({ position: { partition, offset, metadata } }) => ({
        partition,
        offset: String(offset),
        metadata,
      })),
    }));
    try {
      const answer = await this.#client.commitOffsets({
        groupId: this.#groupId,
        memberId,
        groupGenerationId: generationId,
        topics,
      });
      for (const waiting of together) this.#settle(waiting, answer);
    } catch (thrown) {
      const failure = translateKafkaError(thrown, 'storing positions');
      for (const { reject } of together) reject(failure);
    }
  }

  #settle({ position: { topic, partition }, resolve, reject }: Pending, answer: OffsetCommitAnswer): void {
    const found = answer.responses
      .find((of) => of.topic === topic)
      ?.partitions.find((of) => of.partition === partition);
    try {
      if (!found) throw new Unavailable('Kafka: no answer about a position');
      failOn(found.errorCode);
      resolve();
    } catch (thrown) {
      this.#client.invalidateMetadata();
      reject(translateKafkaError(thrown, `storing the position of ${topic}/${partition}`));
    }
  }
}
