import { Unavailable } from '@tributary/core';
import type { KafkaClient } from '../client/client.ts';
import { failOn, translateKafkaError } from '../client/errors.ts';
import type { OffsetCommitAnswer } from '../client/protocol.ts';

/** Of one partition of a stage. Topics go by their names in Kafka. */
export interface PositionToStore {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly metadata: string;
}

/** In whose name a position is stored. */
export interface StoringMember {
  readonly memberId: string;
  readonly generation: number;
}

interface Waiting {
  readonly position: PositionToStore;
  readonly by: StoringMember;
  readonly resolve: () => void;
  readonly reject: (reason: Error) => void;
}

/**
 * Stores positions of a group outside of transactions: what comes while a request is under way goes as the next one.
 * A coordinator takes some milliseconds for a request however many partitions it names, and one request at a time.
 */
export class StoredPositions {
  readonly #client: KafkaClient;
  readonly #groupId: string;
  #waiting: Waiting[] = [];
  #storing = false;

  constructor(client: KafkaClient, groupId: string) {
    this.#client = client;
    this.#groupId = groupId;
  }

  /**
   * Resolves when it is stored. In the name of the membership given, also if it changed while the position waited: then
   * the coordinator refuses it. Any rejection: unknown whether it was stored.
   */
  store(position: PositionToStore, by: StoringMember): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ position, by, resolve, reject });
      if (!this.#storing) void this.#storeAll();
    });
  }

  async #storeAll(): Promise<void> {
    this.#storing = true;
    // Those whose batches ended in the same turn go together.
    await new Promise((resolve) => setImmediate(resolve));
    for (;;) {
      const first = this.#waiting[0];
      if (first === undefined) break;
      const together = this.#waiting.filter(
        ({ by }) => by.memberId === first.by.memberId && by.generation === first.by.generation,
      );
      this.#waiting = this.#waiting.filter((waiting) => !together.includes(waiting));
      await this.#request(together, first.by);
    }
    this.#storing = false;
  }

  async #request(together: readonly Waiting[], { memberId, generation }: StoringMember): Promise<void> {
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
        groupGenerationId: generation,
        topics,
      });
      for (const waiting of together) this.#settle(waiting, answer);
    } catch (thrown) {
      const failure = translateKafkaError(thrown, 'storing positions');
      for (const { reject } of together) reject(failure);
    }
  }

  #settle({ position: { topic, partition }, resolve, reject }: Waiting, answer: OffsetCommitAnswer): void {
    const found = answer.responses
      .find((of) => of.topic === topic)
      ?.partitions.find((of) => of.partition === partition);
    try {
      if (!found) throw new Unavailable('Kafka: no answer about a position');
      failOn(found.errorCode);
      resolve();
    } catch (thrown) {
      this.#client.lookAgain();
      reject(translateKafkaError(thrown, `storing the position of ${topic}/${partition}`));
    }
  }
}
