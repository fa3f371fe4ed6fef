import {
  type NewEntry,
  type Position,
  type TopicSpec,
  type TributaryError,
  Unavailable,
  type ValueFraming,
} from '@tributary/core';
import { GroupCommit } from '../../../group-commit/group-commit.ts';
import { type PartitionRecords, type Placed, RecordPacker } from '../../append/record-packer.ts';
import type { KafkaClient } from '../client/client.ts';
import { failOn, translateKafkaError } from '../client/errors.ts';
import type { ProduceAnswer, RecordToWrite } from '../client/protocol.ts';
import { batchesOf } from '../records/batches.ts';

export interface AppenderOptions {
  readonly client: Pick<KafkaClient, 'leaderId' | 'produce' | 'lookAgain'>;
  /** The name of a topic in Kafka. */
  readonly nameOf: (topic: string) => string;
  readonly framing: ValueFraming;
  readonly maxUnconfirmedBytes: number;
  /** How long the brokers may take to have a group in all in-sync replicas, ms. */
  readonly timeoutMs: number;
}

/** One `append`: what it wants and where it went. */
interface Request {
  readonly spec: TopicSpec;
  readonly entries: readonly NewEntry[];
  /** By `performance.now()`: what is not on its way by then stays where it is. */
  readonly sendUntil: number;
  placed: readonly Placed[];
}

/** What became of one partition's part of a group. */
interface Outcome {
  /** Of each record, in order; undefined: not known to be there. */
  readonly offsets: (number | undefined)[];
  failure?: TributaryError;
}

/** The part of one partition in one request to its leader. */
interface Part {
  readonly records: PartitionRecords;
  readonly batch: readonly RecordToWrite[];
  /** The first record of the batch, counted in `records`. */
  readonly first: number;
}

const GROUP_BYTES = 4 * 1024 * 1024;

/** What an append that was refused may take beyond its timeout, ms. */
const REFUSED_WITHIN_MS = 2_000;

/**
 * Makes entries durable in groups: acks from all in-sync replicas. Nothing is sent again, so what is confirmed of one
 * partition stands in the order of the calls: what failed is the caller's to repeat, and may be there.
 */
export class Appender {
  readonly #options: AppenderOptions;
  readonly #groups: GroupCommit<Request>;
  readonly #outcomes = new WeakMap<PartitionRecords, Outcome>();
  readonly #calls = new Set<Promise<void>>();
  /** Settles when the last group is on its way. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: AppenderOptions) {
    this.#options = options;
    this.#groups = new GroupCommit({
      commit: (group) => this.#commit(group),
      maxInFlight: 4,
      eagerRequests: 64,
      maxUnconfirmedBytes: options.maxUnconfirmedBytes,
      maxGroupBytes: GROUP_BYTES,
    });
  }

  /** The position of each entry. `bytes` is what they count for against the bounds. */
  async append(spec: TopicSpec, entries: readonly NewEntry[], bytes: number): Promise<readonly Position[]> {
    const { timeoutMs } = this.#options;
    const request: Request = { spec, entries, sendUntil: performance.now() + timeoutMs, placed: [] };
    const answered = within(timeoutMs + REFUSED_WITHIN_MS, this.#groups.add(request, bytes));
    this.#calls.add(answered);
    await answered.finally(() => this.#calls.delete(answered));
    if (request.placed.length === 0) throw new Unavailable('Kafka: it did not come to be appended in time');
    return request.placed.map((placed) => this.#positionOf(spec.name, placed));
  }

  /** Resolves when nobody waits for an answer. */
  async drained(): Promise<void> {
    while (this.#calls.size > 0) await Promise.allSettled(this.#calls);
  }

  #positionOf(topic: string, { records, record, index }: Placed): Position {
    const outcome = this.#outcomes.get(records);
    const offset = outcome?.offsets[record];
    if (offset === undefined) throw outcome?.failure ?? new Unavailable('Kafka: not confirmed');
    return { topic, partition: records.partition, offset, index };
  }

  /** A failure is that of the partitions concerned, and their requests find it. Rejects for what cannot be written at all. */
  async #commit(group: readonly Request[]): Promise<void> {
    // Groups go off one after the other and are confirmed side by side.
    const sent = this.#turn.then(() => this.#send(group));
    // What failed before it was on its way is its own group's, not that of all behind it.
    this.#turn = sent.catch(() => {});
    await Promise.all(await sent);
  }

  /** Resolves to the confirmations once all of the group is on its way. */
  async #send(group: readonly Request[]): Promise<readonly Promise<void>[]> {
    const packer = new RecordPacker();
    const now = performance.now();
    for (const request of group) {
      // Its caller was told, or is about to be.
      if (request.sendUntil < now) continue;
      request.placed = request.entries.map((entry) => packer.place(request.spec, entry));
    }
    const waiting = packer.partitions().map((records) => {
      this.#outcomes.set(records, { offsets: [] });
      return { records, batches: batchesOf(records, this.#options.framing), first: 0 };
    });
    const confirmations: Promise<void>[] = [];
    // A request takes one batch a partition.
    for (let round = 0; waiting.some(({ batches }) => round < batches.length); round++) {
      const parts: Part[] = [];
      for (const partition of waiting) {
        const batch = partition.batches[round];
        if (!batch) continue;
        parts.push({ records: partition.records, batch, first: partition.first });
        partition.first += batch.length;
      }
      for (const [leader, led] of await this.#byLeader(parts)) {
        confirmations.push((await this.#produce(leader, led)).confirmed);
      }
    }
    return confirmations;
  }

  async #byLeader(parts: readonly Part[]): Promise<ReadonlyMap<number, readonly Part[]>> {
    const { client, nameOf } = this.#options;
    const byLeader = new Map<number, Part[]>();
    for (const part of parts) {
      const { topic, partition } = part.records;
      try {
        const leader = await client.leaderId(nameOf(topic), partition);
        byLeader.set(leader, [...(byLeader.get(leader) ?? []), part]);
      } catch (thrown) {
        this.#fail([part], thrown);
      }
    }
    return byLeader;
  }

  /** Resolves once the request is on its way, with its confirmation, which never rejects. */
  async #produce(leader: number, parts: readonly Part[]): Promise<{ readonly confirmed: Promise<void> }> {
    const { client, nameOf, timeoutMs } = this.#options;
    const byTopic = Map.groupBy(parts, ({ records }) => records.topic);
    try {
      const { answer } = await client.produce(leader, {
        acks: -1,
        timeout: timeoutMs,
        compression: 0,
        topicData: [...byTopic].map(([topic, ofTopic]) => ({
          topic: nameOf(topic),
          partitions: ofTopic.map(({ records, batch }) => ({
            partition: records.partition,
            messages: batch,
          })),
        })),
      });
      return {
        confirmed: answer
          .then((all) => this.#settleAll(parts, all))
          .catch((thrown) => this.#fail(parts, thrown)),
      };
    } catch (thrown) {
      this.#fail(parts, thrown);
      return { confirmed: Promise.resolve() };
    }
  }

  #settleAll(parts: readonly Part[], { topics }: ProduceAnswer): void {
    const { nameOf } = this.#options;
    for (const part of parts) {
      const { topic, partition } = part.records;
      const ofTopic = topics.find(({ topicName }) => topicName === nameOf(topic));
      this.#settle(
        part,
        ofTopic?.partitions.find((each) => each.partition === partition),
      );
    }
  }

  #settle(part: Part, answer: { readonly errorCode: number; readonly baseOffset: string } | undefined): void {
    try {
      if (!answer) throw new Unavailable('Kafka: no answer for a partition');
      failOn(answer.errorCode);
      const base = Number(answer.baseOffset);
      const outcome = this.#outcomes.get(part.records);
      for (let i = 0; i < part.batch.length; i++) if (outcome) outcome.offsets[part.first + i] = base + i;
    } catch (thrown) {
      this.#options.client.lookAgain();
      this.#fail([part], thrown);
    }
  }

  #fail(parts: readonly Part[], thrown: unknown): void {
    for (const { records } of parts) {
      const outcome = this.#outcomes.get(records);
      const doing = `appending to ${records.topic}/${records.partition}`;
      if (outcome) outcome.failure ??= translateKafkaError(thrown, doing);
    }
  }
}

/** Who waits behind others that wait for a silent broker does not wait for all of them. */
function within(ms: number, confirmed: Promise<void>): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Unavailable(`Kafka: not confirmed within ${ms} ms`)), ms);
    confirmed.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
