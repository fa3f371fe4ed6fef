import { Unavailable } from '@tributary/core';
import { type Committed, committed } from '../records/entries.ts';
import type { KafkaClient } from './client.ts';
import { failOn, protocolErrorOf, translateKafkaError } from './errors.ts';
import type { FetchAnswer, FetchedPartition } from './protocol.ts';

/** Bytes of one answer of a broker, at most; one record may be larger. */
const ANSWER_BYTES = 8 * 1024 * 1024;

/** The offset is not kept any more, or not written yet. */
export class OffsetOutOfRange extends Unavailable {}

export interface Fetched extends Committed {
  /** The high watermark of the partition. */
  readonly end: number;
}

/** A partition to read, with the caller's promise. */
interface Wanted {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly maxBytes: number;
  readonly signal: AbortSignal;
  readonly resolve: (fetched: Fetched | undefined) => void;
  readonly reject: (reason: Error) => void;
}

/**
 * Reads many partitions with one request to each broker at a time. A fetch that is called while a request waits at its
 * broker is part of the next request, so `waitMs` bounds its delay.
 */
export class Fetcher {
  readonly #client: KafkaClient;
  readonly #waitMs: () => number;
  readonly #wanted = new Map<number, Wanted[]>();

  /** `waitMs`, called before each request: how long the broker may wait for records. */
  constructor(client: KafkaClient, waitMs: () => number) {
    this.#client = client;
    this.#waitMs = waitMs;
  }

  /**
   * Committed records from the offset on, about `maxBytes` of them; waits until there are some, or the offset can move
   * past records that are not visible. Undefined once the signal fired. Rejects with `OffsetOutOfRange`, else
   * `Unavailable`.
   */
  fetch(
    topic: string,
    partition: number,
    offset: number,
    maxBytes: number,
    signal: AbortSignal,
  ): Promise<Fetched | undefined> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return resolve(undefined);
      const abandon = () => resolve(undefined);
      signal.addEventListener('abort', abandon, { once: true });
      const settled = <T>(settle: (value: T) => void) => {
        return (value: T) => {
          signal.removeEventListener('abort', abandon);
          settle(value);
        };
      };
      const fetch = { topic, partition, offset, maxBytes, signal };
      const wanted = { ...fetch, resolve: settled(resolve), reject: settled<Error>(reject) };
      this.#client.leaderId(topic, partition).then((nodeId) => this.#add(nodeId, wanted), wanted.reject);
    });
  }

  #add(nodeId: number, one: Wanted): void {
    const wanted = this.#wanted.get(nodeId);
    if (wanted) {
      wanted.push(one);
      return;
    }
    this.#wanted.set(nodeId, [one]);
    void this.#serve(nodeId);
  }

  /** Sends requests to one broker for as long as there are partitions to read from it. */
  async #serve(nodeId: number): Promise<void> {
    for (;;) {
      // Callers that were just answered fetch again in the same turn.
      await new Promise((resolve) => setImmediate(resolve));
      const wanted = (this.#wanted.get(nodeId) ?? []).filter(({ signal }) => !signal.aborted);
      if (wanted.length === 0) {
        this.#wanted.delete(nodeId);
        return;
      }
      // A request names a partition once: the fetch that has waited for the longest goes first.
      const byPartition = new Map<string, Wanted>();
      for (const one of wanted) {
        const name = `${one.topic}/${one.partition}`;
        if (!byPartition.has(name)) byPartition.set(name, one);
      }
      const now = [...byPartition.values()];
      this.#wanted.set(
        nodeId,
        wanted.filter((one) => !now.includes(one)),
      );
      const unanswered = await this.#request(nodeId, now);
      this.#wanted.get(nodeId)?.push(...unanswered);
    }
  }

  /** Settles the fetches that the answer has records for, and returns the others. */
  async #request(nodeId: number, wanted: readonly Wanted[]): Promise<readonly Wanted[]> {
    let answer: FetchAnswer;
    try {
      answer = await this.#client.fetch(nodeId, {
        replicaId: -1,
        isolationLevel: 1,
        maxWaitTime: this.#waitMs(),
        minBytes: 1,
        maxBytes: ANSWER_BYTES,
        rackId: '',
        topics: rotated(wanted).map(({ topic, partition, offset, maxBytes }) => ({
          topic,
          partitions: [{ partition, fetchOffset: String(offset), maxBytes }],
        })),
      });
    } catch (thrown) {
      const failure = translateKafkaError(thrown, 'reading');
      for (const { reject } of wanted) reject(failure);
      return [];
    }
    const answers = new Map(
      answer.responses.flatMap(({ topicName, partitions }) =>
        partitions.map((partition) => [`${topicName}/${partition.partition}`, partition] as const),
      ),
    );
    return wanted.filter((one) => !this.#settle(one, answers.get(`${one.topic}/${one.partition}`)));
  }

  /** False where the answer has nothing for it: to be requested again. */
  #settle(wanted: Wanted, answer: FetchedPartition | undefined): boolean {
    if (answer === undefined) return false;
    const { topic, partition, offset } = wanted;
    try {
      failOn(answer.errorCode);
    } catch (thrown) {
      const doing = `reading ${topic}/${partition} at ${offset}`;
      if (protocolErrorOf(thrown) === 'OFFSET_OUT_OF_RANGE') {
        wanted.reject(new OffsetOutOfRange(`Kafka: ${doing}: out of range`, { cause: thrown }));
      } else {
        this.#client.invalidateMetadata();
        wanted.reject(translateKafkaError(thrown, doing));
      }
      return true;
    }
    if (answer.fault !== undefined) {
      wanted.reject(translateKafkaError(answer.fault, `reading ${topic}/${partition} at ${offset}`));
      return true;
    }
    const seen = committed(answer.batches, answer.abortedTransactions, offset);
    if (seen.next === offset) return false;
    wanted.resolve({ ...seen, end: answer.highWatermark });
    return true;
  }
}

/** From a random one on: a broker fills its answer with the partitions that a request names first. */
function rotated(wanted: readonly Wanted[]): readonly Wanted[] {
  const first = Math.floor(Math.random() * wanted.length);
  return [...wanted.slice(first), ...wanted.slice(0, first)];
}
