import { Unavailable } from '@tributary/core';
import { type Committed, committed } from '../records/committed.ts';
import type { KafkaClient } from './client.ts';
import { failOn, protocolErrorOf, translateKafkaError } from './errors.ts';
import type { FetchAnswer } from './protocol.ts';

/** Bytes of one answer of a broker, at most; one record may be larger. */
const ANSWER_BYTES = 8 * 1024 * 1024;

/** The offset asked for is not kept any more, or not written yet. */
export class OffsetOutOfRange extends Unavailable {}

export interface Fetched extends Committed {
  /** The end of the partition as its leader knew it. */
  readonly end: number;
}

interface Want {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly maxBytes: number;
  readonly signal: AbortSignal;
  readonly resolve: (fetched: Fetched | undefined) => void;
  readonly reject: (reason: Error) => void;
}

/**
 * Reads many partitions with one request a broker at a time. What wants to be read while a request waits at its
 * broker is part of the next one, so `waitMs` bounds how long it is held up.
 */
export class Fetcher {
  readonly #client: KafkaClient;
  readonly #waitMs: () => number;
  readonly #wants = new Map<number, Want[]>();

  /** `waitMs` is asked before each request: how long its broker may wait for something to come. */
  constructor(client: KafkaClient, waitMs: () => number) {
    this.#client = client;
    this.#waitMs = waitMs;
  }

  /**
   * Committed records from the offset on, about `maxBytes` of them; waits until there are some or the offset can be
   * moved past what nobody sees. Undefined once the signal fired. Rejects with `OffsetOutOfRange`, else `Unavailable`.
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
      const give = () => resolve(undefined);
      signal.addEventListener('abort', give, { once: true });
      const settled = <T>(settle: (value: T) => void) => {
        return (value: T) => {
          signal.removeEventListener('abort', give);
          settle(value);
        };
      };
      const want = { topic, partition, offset, maxBytes, signal };
      const waiting = { ...want, resolve: settled(resolve), reject: settled<Error>(reject) };
      // Whoever does not want it any more does not wait for a leader either.
      this.#client.leaderId(topic, partition).then((nodeId) => this.#add(nodeId, waiting), waiting.reject);
    });
  }

  #add(nodeId: number, want: Want): void {
    const wants = this.#wants.get(nodeId);
    if (wants) {
      wants.push(want);
      return;
    }
    this.#wants.set(nodeId, [want]);
    void this.#serve(nodeId);
  }

  /** Asks one broker for as long as somebody wants something of it. */
  async #serve(nodeId: number): Promise<void> {
    for (;;) {
      // Those who were just answered get a turn to want more.
      await new Promise((resolve) => setImmediate(resolve));
      const wants = (this.#wants.get(nodeId) ?? []).filter(({ signal }) => !signal.aborted);
      if (wants.length === 0) {
        this.#wants.delete(nodeId);
        return;
      }
      // A request names a partition once: whoever wants it for the longest goes first.
      const byPartition = new Map<string, Want>();
      for (const want of wants) {
        const name = `${want.topic}/${want.partition}`;
        if (!byPartition.has(name)) byPartition.set(name, want);
      }
      const now = [...byPartition.values()];
      const later = wants.filter((want) => !now.includes(want));
      this.#wants.set(nodeId, later);
      const unanswered = await this.#ask(nodeId, now);
      this.#wants.get(nodeId)?.push(...unanswered);
    }
  }

  /** Settles what the answer settles; the rest is to be asked again. */
  async #ask(nodeId: number, wants: readonly Want[]): Promise<readonly Want[]> {
    let answer: FetchAnswer;
    try {
      answer = await this.#client.fetch(nodeId, {
        replicaId: -1,
        isolationLevel: 1,
        maxWaitTime: this.#waitMs(),
        minBytes: 1,
        maxBytes: ANSWER_BYTES,
        rackId: '',
        topics: inRandomOrder(wants).map(({ topic, partition, offset, maxBytes }) => ({
          topic,
          partitions: [{ partition, fetchOffset: String(offset), maxBytes }],
        })),
      });
    } catch (thrown) {
      const failure = translateKafkaError(thrown, 'reading');
      for (const want of wants) want.reject(failure);
      return [];
    }
    const answers = new Map(
      answer.responses.flatMap(({ topicName, partitions }) =>
        partitions.map((partition) => [`${topicName}/${partition.partition}`, partition] as const),
      ),
    );
    return wants.filter((want) => !this.#settle(want, answers.get(`${want.topic}/${want.partition}`)));
  }

  #settle(want: Want, answer: FetchAnswer['responses'][number]['partitions'][number] | undefined): boolean {
    if (answer === undefined) return false;
    const { topic, partition, offset } = want;
    try {
      failOn(answer.errorCode);
    } catch (thrown) {
      const doing = `reading ${topic}/${partition} at ${offset}`;
      if (protocolErrorOf(thrown) === 'OFFSET_OUT_OF_RANGE') {
        want.reject(new OffsetOutOfRange(`Kafka: ${doing}: out of range`, { cause: thrown }));
      } else {
        this.#client.lookAgain();
        want.reject(translateKafkaError(thrown, doing));
      }
      return true;
    }
    const seen = committed(answer.messages, answer.abortedTransactions ?? [], offset);
    if (seen.next === offset) return false;
    want.resolve({ ...seen, end: Number(answer.highWatermark) });
    return true;
  }
}

/** The bytes of an answer go to the partitions named first: each gets its turn to be one of them. */
function inRandomOrder(wants: readonly Want[]): readonly Want[] {
  const first = Math.floor(Math.random() * wants.length);
  return [...wants.slice(first), ...wants.slice(0, first)];
}
