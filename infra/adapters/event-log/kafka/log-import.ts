import {
  type Logger,
  PUBLIC_SCHEMAS,
  type TopicSpec,
  TributaryError,
  Unavailable,
  type ValueFraming,
} from '@tributary/core';
import { type StoredRecord, specOf } from '../entries.ts';
import type { KafkaConnection } from './client/brokers.ts';
import { KafkaClient } from './client/client.ts';
import { failOn, type RecordToWrite, translateKafkaError } from './client/protocol.ts';
import type { RecordedPositions, StagePartition } from './positions.ts';
import { cutBatches } from './record-batch.ts';
import { createKafkaTopics, type Installation, setTopicSettings, type TopicSettings } from './topics.ts';

/**
 * Records keep the timestamps that they had, and none expires before all are there. `KafkaLog.alterTopics` corrects both
 * settings; it changes no record that is there.
 */
const IMPORT_SETTINGS: TopicSettings = { 'message.timestamp.type': 'CreateTime', 'retention.ms': '-1' };

const PRODUCE_TIMEOUT_MS = 30_000;
/** Records in one batch of filler: 0.9 MB, compressed far less. */
const FILLER_RECORDS = 100_000;

/**
 * A record got another offset than it has in the source: something else was appended to the partition. Its content is of
 * no use then.
 */
export class OffsetTaken extends TributaryError {
  readonly code = 'offset_taken';
  readonly retryable = false;
}

interface LogImportOptions {
  readonly connection: KafkaConnection;
  readonly prefix: string;
  readonly topics: ReadonlyMap<string, TopicSpec>;
  readonly framing: ValueFraming;
  /** Replication factor of topics that are created. Default 3, or the number of brokers where there are fewer. */
  readonly replicationFactor?: number | undefined;
  readonly logger: Logger;
}

/**
 * Appends the records of another log under the offsets that they have there. There are no
 * transactions, whose markers would take offsets. The only writer of its topics; partitions may be imported side by side,
 * each by one call at a time.
 */
export class LogImport {
  readonly #options: LogImportOptions;
  readonly #client: KafkaClient;

  constructor(options: LogImportOptions) {
    const { connection, logger } = options;
    this.#options = options;
    this.#client = new KafkaClient({ connection, logger, requestTimeoutMs: PRODUCE_TIMEOUT_MS + 1_000 });
  }

  /** Makes all topics take records with their timestamps; creates the missing ones if `create`. */
  async prepareTopics(create: boolean): Promise<void> {
    const { replicationFactor } = this.#options;
    const nameOf = (topic: string) => this.#nameOf(topic);
    const installation = { ...this.#options, client: this.#client, nameOf };
    if (create) await createKafkaTopics(installation, { replicationFactor, settings: IMPORT_SETTINGS });
    await setTopicSettings(installation, IMPORT_SETTINGS);
  }

  /** Appends records without content from an offset up to another. To be dropped afterwards: readers would get them. */
  async fill(topic: string, partition: number, from: number, to: number, timestamp: number): Promise<void> {
    const filler: RecordToWrite = { key: null, value: Buffer.alloc(0), headers: {}, timestamp };
    for (let at = from; at < to; at += FILLER_RECORDS) {
      const batch = new Array<RecordToWrite>(Math.min(FILLER_RECORDS, to - at)).fill(filler);
      await this.#append(topic, partition, batch, at);
    }
  }

  /**
   * Appends records, the first of which has the offset of the partition's end. `OffsetTaken` if it is another one.
   * `Unavailable` if some are not known to be there: then look at the end, once it is settled.
   */
  async append(topic: string, partition: number, records: readonly StoredRecord[]): Promise<void> {
    const { framing } = this.#options;
    const written = records.map(({ key, headers, value, timestamp }): RecordToWrite => {
      return { key: key === '' ? null : key, value: framing.frame(topic, value), headers, timestamp };
    });
    let at = records[0]?.offset ?? 0;
    for (const batch of cutBatches(written)) {
      await this.#append(topic, partition, batch, at);
      at += batch.length;
    }
  }

  /** The stages whose consumer groups have members. */
  async runningStages(stages: readonly string[]): Promise<readonly string[]> {
    const members = await Promise.all(stages.map((stage) => this.#client.countMembers(this.#nameOf(stage))));
    return stages.filter((_, at) => (members[at] ?? 0) > 0);
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  async #append(
    topic: string,
    partition: number,
    messages: readonly RecordToWrite[],
    offset: number,
  ): Promise<void> {
    const name = this.#nameOf(specOf(this.#options.topics, topic).name);
    const leader = await this.#client.leaderId(name, partition);
    const { answer } = await this.#client.produce(leader, {
      acks: -1,
      timeout: PRODUCE_TIMEOUT_MS,
      batches: [{ topic: name, isPublic: PUBLIC_SCHEMAS.has(topic), partition, messages }],
    });
    const appended = (await answer).get(`${name}/${partition}`);
    try {
      if (appended === undefined) throw new Unavailable('no answer for a partition');
      failOn(appended.errorCode);
    } catch (thrown) {
      this.#client.invalidateMetadata();
      throw translateKafkaError(thrown, `appending to ${name}/${partition}`);
    }
    if (Number(appended.baseOffset) !== offset)
      throw new OffsetTaken(
        `a record of ${name}/${partition} was appended at ${appended.baseOffset} instead of ${offset}: something else was written there. Stop what writes to it, delete the topic ${name} (kafka-topics --delete), and run this again: the topic is copied anew`,
      );
  }

  #nameOf(topic: string): string {
    return `${this.#options.prefix}${topic}`;
  }
}

/** The position of a stage in another log with the same offsets. */
export interface ImportedPosition extends StagePartition {
  readonly offset: number;
  /** The index within that record. */
  readonly index: number;
}

/** Bound of the positions in one append. */
const RECORDED_AT_ONCE = 200;

/**
 * Gives stages the positions that they have in another log: in their consumer groups, which must have no members, and in
 * the topic of positions, where a partition without one counts as never processed from then on. May be repeated.
 */
export async function importPositions(
  positions: readonly ImportedPosition[],
  recorded: RecordedPositions,
  { client, nameOf }: Pick<Installation, 'client' | 'nameOf'>,
): Promise<void> {
  for (const [stage, ofStage] of Map.groupBy(positions, (each) => each.stage)) {
    const groupId = nameOf(stage);
    try {
      const codes = await client.commitOffsets(
        // As a client that is no member: the coordinator refuses it while the group has members.
        { groupId, memberId: '', generationId: -1 },
        ofStage.map(({ topic, partition, offset, index }) => ({
          topic: nameOf(topic),
          partition,
          offset,
          metadata: index === 0 ? '' : String(index),
        })),
      );
      for (const code of codes.values()) failOn(code);
    } catch (thrown) {
      throw translateKafkaError(thrown, `storing the positions of ${groupId}`);
    }
  }
  await recorded.recordBeginning();
  for (let from = 0; from < positions.length; from += RECORDED_AT_ONCE)
    await recorded.recordStarts(positions.slice(from, from + RECORDED_AT_ONCE));
}
