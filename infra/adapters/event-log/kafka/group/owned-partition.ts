import {
  backoffMs,
  Fenced,
  type OutputRecord,
  PUBLIC_SCHEMAS,
  recordChars,
  type Stage,
  TooLarge,
  Unavailable,
  type ValueFraming,
} from '@tributary/core';
import { type PartitionRecords, RecordPacker } from '../../entries.ts';
import type { StageRunner } from '../../stage-runner/partition-loop.ts';
import {
  type CommitThrottle,
  type Cursor,
  compareCursors,
  type FetchLimits,
  type OwnedPartition,
  PartitionLost,
  pause,
  type Taken,
  unlessAborted,
} from '../../stage-runner/work.ts';
import { groupByLeader } from '../client/brokers.ts';
import { type ClientPool, type KafkaClient, offsetOf } from '../client/client.ts';
import {
  failOn,
  type PositionToStore,
  type ProducerIdentity,
  protocolErrorOf,
  type RecordToWrite,
  translateKafkaError,
} from '../client/protocol.ts';
import { BoundsBarrier, FirstBounds, type Layouts, type PartitionedRecord } from '../growth.ts';
import {
  type Evidence,
  findStart,
  PositionUnknown,
  type RecordedPositions,
  type StagePartition,
  type StartingPoint,
  storedStart,
} from '../positions.ts';
import { OffsetOutOfRange, type PartitionReader } from '../reading.ts';
import { type BatchLimits, batchesOf } from '../record-batch.ts';
import type { Installation } from '../topics.ts';
import type { Membership } from './membership.ts';

/** The pause between commits of a partition, as a multiple of their mean duration; at most `MAX_PAUSE_MS`. */
const PAUSE_FACTOR = 4;
/** Maximum of the pause between commits, ms. */
const MAX_PAUSE_MS = 60;

/** How often a position without output records is stored, ms: a crash repeats at most as much work. */
const POSITION_MS = 500;

/** Weight of the newest commit in the mean. */
const NEWEST = 0.2;

/** A stage in its consumer group, as each of its partitions needs it. */
export interface StageGroup extends Installation {
  readonly stage: Stage;
  readonly membership: Membership;
  /** Shared by all stages of the process. */
  readonly transactionClients: ClientPool;
  readonly layouts: Layouts;
  readonly positions: RecordedPositions;
  /** The offset of the first visible record at or behind an offset; where there is none yet, how far that is known. */
  readonly visibleFrom: (topic: string, partition: number, offset: number) => Promise<number>;
  readonly framing: ValueFraming;
  /** Shared by all writers to the topics. */
  readonly limits: BatchLimits;
  readonly runner: StageRunner;
}

/**
 * One partition that this process owns for a stage. A former owner commits before its successor reads the position, or
 * never:
 * - the successor first initialises the partition's transactional id, which finishes or aborts the former owner's open
 *   transaction and refuses all later ones of that epoch;
 * - each commit, in a transaction or outside, names the member and its generation, and the coordinator of the group
 *   refuses a member that left and one of an older generation, even if it initialised the transactional id later.
 */
export class KafkaPartition implements OwnedPartition {
  readonly topic: string;
  readonly partition: number;
  readonly throttle = new KafkaCommitThrottle();
  readonly barrier: BoundsBarrier;
  readonly #group: StageGroup;
  readonly #reader: PartitionReader;
  readonly #transactions: Transactions;
  /** In Kafka. */
  readonly #name: string;
  /** Fires when this process loses the partition. */
  readonly #leaving: AbortSignal;
  #committed: Cursor = { offset: 0, index: 0 };
  #missedUntil = 0;

  constructor(
    group: StageGroup,
    topic: string,
    partition: number,
    reader: PartitionReader,
    leaving: AbortSignal,
  ) {
    this.#group = group;
    this.topic = topic;
    this.partition = partition;
    this.#reader = reader;
    this.#leaving = leaving;
    this.#name = group.nameOf(topic);
    const { layouts, membership } = group;
    const bounds = new FirstBounds(layouts);
    const id = `${membership.groupId}.${topic}.${partition}`;
    this.#transactions = new Transactions(id, bounds, leaving, group);
    this.barrier = new BoundsBarrier(
      (other) => this.#reachedIn(other),
      async () => {
        await layouts.caughtUp();
        bounds.forget();
      },
    );
  }

  /** Takes the partition over. Rejects with `Unavailable` while that is not possible; the caller repeats it. */
  async acquire(): Promise<this> {
    this.#committed = await this.#startFrom(await this.#takeOver());
    return this;
  }

  get committed(): Cursor {
    return this.#committed;
  }

  async fetch(from: Cursor, limits: FetchLimits, signal: AbortSignal): Promise<readonly Taken[]> {
    const first =
      limits.waitMs === undefined
        ? await this.#read(from, signal)
        : await this.#reader.fetchWithin(limits.waitMs, from, signal);
    if (first.length === 0) return first;
    if (limits.gatherMs === undefined || limits.gatherMs <= 0) return first;
    const gathered = [...first];
    const until = performance.now() + limits.gatherMs;
    while (weighsLess(gathered, limits)) {
      const [last, leftMs] = [gathered.at(-1), until - performance.now()];
      if (last === undefined || leftMs <= 0) break;
      const more = await this.#reader.fetchWithin(leftMs, last.after, signal);
      if (more.length === 0) break;
      gathered.push(...more);
    }
    return gathered;
  }

  async #read(from: Cursor, signal: AbortSignal): Promise<readonly Taken[]> {
    try {
      return await this.#reader.fetch(from, signal);
    } catch (thrown) {
      if (!(thrown instanceof OffsetOutOfRange)) throw thrown;
      const { client, logger, runner } = this.#group;
      const { stage, topic, partition } = this.#of();
      const first = await offsetOf(client, this.#name, partition, 'first');
      if (from.offset >= first) {
        throw new PartitionLost(`${topic}/${partition} does not reach to ${from.offset}`, { cause: thrown });
      }
      // Reported once, also where the read is repeated.
      const missed = first - Math.max(from.offset, this.#missedUntil);
      if (missed > 0) {
        runner.metrics.count('tributary_stage_missed_records_total', { stage, topic }, missed);
        logger.error(
          { stage, topic, partition, from: from.offset, to: first },
          'records were deleted by retention before the stage read them',
        );
      }
      this.#missedUntil = first;
      return this.#reader.fetch({ offset: first, index: 0 }, signal, from.offset);
    }
  }

  readonly end = (): Promise<number> => {
    return offsetOf(this.#group.client, this.#name, this.partition, 'end');
  };

  /** A commit in progress when the partition is lost is abandoned: the next owner fences before it reads the position. */
  async commit(from: Cursor, to: Cursor, outputRecords: readonly OutputRecord[]): Promise<void> {
    await unlessAborted(this.#commit(from, to, outputRecords), this.#leaving);
  }

  async #commit(from: Cursor, to: Cursor, outputRecords: readonly OutputRecord[]): Promise<void> {
    this.#leaving.throwIfAborted();
    if (!this.#transactions.begun) {
      // The outcome of the last commit is unknown.
      const stored = await this.#takeOver();
      this.#committed = stored ?? from;
      if (compareCursors(this.#committed, to) === 0) return;
      if (compareCursors(this.#committed, from) !== 0) {
        throw new Fenced(`the position is ${this.#committed.offset}, not ${from.offset}`);
      }
    }
    // A transaction costs five round trips, a position alone one.
    if (outputRecords.length > 0) {
      const recorded = this.#group.positions.outputRecord(this.#of(), to);
      await this.#transactions.commit([...outputRecords, recorded], this.#position(to));
    } else await this.#store(to);
    this.#committed = to;
  }

  /**
   * Ends the transactions of earlier owners for good and returns the position they got to; undefined where there never
   * was one. The membership is confirmed first so that a late process does not disturb the owner. After the fencing it
   * need not be: a process that lost the partition in between is refused when it commits.
   */
  async #takeOver(): Promise<Cursor | undefined> {
    const { membership, layouts } = this.#group;
    await membership.confirm();
    this.#leaving.throwIfAborted();
    await this.#transactions.begin();
    // An owner before may have emitted under the newest layouts.
    await layouts.caughtUp();
    this.#leaving.throwIfAborted();
    return this.#stored();
  }

  /** The position to begin at: that of the last owner, as far as it is known and its records are kept. */
  async #startFrom(stored: Cursor | undefined): Promise<Cursor> {
    const { client, positions, membership } = this.#group;
    const first = await offsetOf(client, this.#name, this.partition, 'first');
    const end = await this.end();
    const evidence: Evidence = { stored, first, end };
    const start = storedStart(evidence) ?? (await findStart(this.#group, this.#of(), evidence));
    if (start === undefined)
      throw new PositionUnknown(
        `the position of ${this.topic}/${this.partition} is lost and nothing is recorded about it, so the stage does not begin at the first record by itself. \`tributary positions\` shows what is known and sets it`,
      );
    this.#report(start, evidence);
    // The group has the position from now on, also if the first records are deleted before the first commit.
    if (start.found !== 'stored') await this.#storeInGroup(start.from);
    // The recorded start overrides higher positions, and no generation refuses it: only the owner may write it.
    this.#leaving.throwIfAborted();
    await membership.confirm();
    await positions.recordStart(this.#of(), start.from);
    return start.from;
  }

  #report(start: StartingPoint, { stored, first, end }: Evidence): void {
    const { logger } = this.#group;
    const { stage, topic, partition } = this.#of();
    if (start.found === 'anew')
      logger.error(
        { stage, topic, partition, stored: stored?.offset, end, first },
        'the position is behind the end: the topic was created again, and the stage begins at its first record',
      );
    if (start.found === 'lost')
      logger.warn(
        { stage, topic, partition, position: start.from.offset, first, end },
        'the consumer group has lost its position; the stage continues from its recorded position',
      );
  }

  #of(): StagePartition {
    return { stage: this.#group.stage.name, topic: this.topic, partition: this.partition };
  }

  async #stored(partition = this.partition): Promise<Cursor | undefined> {
    const { client, membership } = this.#group;
    const stored = await client.fetchOffsets(membership.groupId, [{ topic: this.#name, partition }]);
    const found = stored.get(`${this.#name}/${partition}`);
    return found && { offset: found.offset, index: Number(found.metadata) };
  }

  /** The record needs no generation: all below it is done, also where another member owns the partition by now. */
  async #store(to: Cursor): Promise<void> {
    await Promise.all([this.#storeInGroup(to), this.#group.positions.record(this.#of(), to)]);
  }

  async #storeInGroup({ offset, index }: Cursor): Promise<void> {
    this.#leaving.throwIfAborted();
    await this.#group.membership.commitOffset(this.#name, this.partition, offset, metadataOf(index));
  }

  /** Records that are not visible to readers, and those that are not kept any more, are done. */
  async #reachedIn(partition: number): Promise<number> {
    const stored = await this.#stored(partition);
    return this.#group.visibleFrom(this.topic, partition, stored?.offset ?? 0);
  }

  #position({ offset, index }: Cursor) {
    return { topic: this.#name, partition: this.partition, offset, metadata: metadataOf(index) };
  }
}

function weighsLess(taken: readonly Taken[], { maxEntries, maxBytes }: FetchLimits): boolean {
  if (taken.length >= maxEntries) return false;
  return taken.reduce((sum, { entry }) => sum + recordChars(entry), 0) < maxBytes;
}

/** The index within a record, where it is not 0. */
function metadataOf(index: number): string {
  return index === 0 ? '' : String(index);
}

/**
 * The pause of a partition between commits. A transaction costs brokers about the same for one record as for a hundred, so
 * partitions that commit as soon as they can slow a busy broker down for all. The first event after a pause does not wait.
 */
export class KafkaCommitThrottle implements CommitThrottle {
  readonly positionMs = POSITION_MS;
  #meanMs = 0;

  pauseAfter(tookMs: number): number {
    this.#meanMs = this.#meanMs === 0 ? tookMs : this.#meanMs * (1 - NEWEST) + tookMs * NEWEST;
    return Math.min(this.#meanMs * PAUSE_FACTOR, MAX_PAUSE_MS);
  }
}

/** The coordinator aborts a transaction that is open for longer, ms. */
const TRANSACTION_TIMEOUT_MS = 15_000;

/** How long to wait while the coordinator completes the previous transaction, ms. */
const CONCURRENT_TIMEOUT_MS = 30_000;
const CONCURRENT_BACKOFF = { firstMs: 2, capMs: 100 };

/** The error of a batch that is not in the answer. */
const UNKNOWN_SERVER_ERROR = -1;

/** One batch and the records that it is part of. */
interface Written {
  readonly records: PartitionRecords;
  readonly batch: readonly RecordToWrite[];
}

interface TransactionsGroup extends Pick<StageGroup, 'nameOf' | 'framing' | 'limits'> {
  readonly transactionClients: Pick<ClientPool, 'use'>;
  readonly membership: Pick<Membership, 'groupId' | 'member'>;
}

/**
 * Transactions under one transactional id, one at a time. After a failure the outcome is unknown and only `begin()` helps:
 * it finishes or aborts the open transaction, and refuses every earlier user of the id from then on.
 */
export class Transactions {
  readonly #id: string;
  readonly #bounds: Pick<FirstBounds, 'partition'>;
  readonly #leaving: AbortSignal;
  readonly #group: TransactionsGroup;
  #identity: ProducerIdentity | undefined;
  /** The sequence number of the next record in this epoch, by topic and partition. */
  #sequences = new Map<string, number>();

  /** `bounds` places the output records; `leaving` fires when the partition leaves this process. */
  constructor(
    id: string,
    bounds: Pick<FirstBounds, 'partition'>,
    leaving: AbortSignal,
    group: TransactionsGroup,
  ) {
    this.#id = id;
    this.#bounds = bounds;
    this.#leaving = leaving;
    this.#group = group;
  }

  /** True when `commit` may be called. */
  get begun(): boolean {
    return this.#identity !== undefined;
  }

  /** Fences earlier users of the id. When it resolves their open transaction is finished or aborted. */
  async begin(): Promise<void> {
    this.#identity = undefined;
    const identity = await this.#group.transactionClients.use((client) =>
      this.#afterPrevious(() => client.initProducer(this.#id, TRANSACTION_TIMEOUT_MS)),
    );
    this.#sequences = new Map();
    this.#identity = identity;
  }

  /**
   * Makes output records and a position visible together. After a rejection the outcome is unknown, but for `TooLarge`: a
   * topic takes no record of the size of one of them, and nothing was committed.
   */
  async commit(outputRecords: readonly OutputRecord[], position: PositionToStore): Promise<void> {
    const identity = this.#identity;
    if (!identity) throw new Unavailable('Kafka: the transactional id was not fenced yet');
    this.#identity = undefined;
    const partitioned = await this.#bounds.partition(outputRecords);
    const partitions = recordsOf(partitioned.records);
    await this.#group.transactionClients.use(async (client) => {
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
    const { nameOf, membership } = this.#group;
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

  async #store(client: KafkaClient, identity: ProducerIdentity, position: PositionToStore): Promise<void> {
    // After a rejoin the member names a generation in which the partition is another's: the position would be accepted.
    this.#leaving.throwIfAborted();
    const { member } = this.#group.membership;
    await client.commitInTransaction({ producer: identity, member, position });
  }

  /** A request takes one batch a partition, so a partition with more of them is written in rounds. */
  async #write(
    client: KafkaClient,
    identity: ProducerIdentity,
    partitions: readonly PartitionRecords[],
  ): Promise<void> {
    const { framing, limits } = this.#group;
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
    const { nameOf } = this.#group;
    const leaders = await groupByLeader(client, parts, ({ records: { topic, partition } }) => ({
      topic: nameOf(topic),
      partition,
    }));
    await Promise.all(
      [...leaders].map(async ([leader, led]) => {
        const { answer } = await client.produce(leader, {
          ...identity,
          acks: -1,
          timeout: TRANSACTION_TIMEOUT_MS,
          batches: led.map(({ records, batch }) => ({
            topic: nameOf(records.topic),
            isPublic: PUBLIC_SCHEMAS.has(records.topic),
            partition: records.partition,
            firstSequence: this.#nextSequence(records, batch.length),
            messages: batch,
          })),
        });
        const answers = await answer;
        for (const written of led) {
          const name = `${nameOf(written.records.topic)}/${written.records.partition}`;
          this.#check(client, answers.get(name)?.errorCode ?? UNKNOWN_SERVER_ERROR, name, written);
        }
      }),
    );
  }

  /** Throws also for a leader that moved, or an epoch that the coordinator ended. */
  #check(client: KafkaClient, errorCode: number, name: string, { records, batch }: Written): void {
    try {
      failOn(errorCode);
    } catch (thrown) {
      const failure = translateKafkaError(thrown, `writing to ${name}`);
      if (failure instanceof TooLarge) throw this.#group.limits.refused(records.topic, batch);
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
    const leaving = this.#leaving;
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
