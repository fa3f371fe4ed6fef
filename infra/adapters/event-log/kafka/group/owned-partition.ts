import { Fenced, type Logger, type Metrics, type OutputRecord, Unavailable } from '@tributary/core';
import { type Cursor, compareCursors, type Taken } from '../../stage-runner/cursor.ts';
import { PartitionLost } from '../../stage-runner/failure.ts';
import type { FetchLimits, OwnedPartition } from '../../stage-runner/partition-loop.ts';
import { unlessAborted } from '../../stage-runner/waiting.ts';
import type { KafkaClient } from '../client/client.ts';
import { OffsetOutOfRange } from '../client/fetcher.ts';
import { offsetOf } from '../client/offsets.ts';
import { PositionUnknown } from '../positions/evidence.ts';
import type { RecordedPositions, StagePartition } from '../positions/recorded-positions.ts';
import {
  type Evidence,
  type FurtherEvidence,
  foundStart,
  type StartingPoint,
  storedStart,
} from '../positions/starting-point.ts';
import type { Membership } from './membership.ts';
import type { PartitionReader } from './partition-reader.ts';
import { Rest } from './rest.ts';
import type { Transactions } from './transactions.ts';

export interface KafkaPartitionOptions {
  readonly stage: string;
  readonly groupId: string;
  /** Without an installation's prefix. */
  readonly topic: string;
  /** In Kafka. */
  readonly name: string;
  readonly partition: number;
  readonly client: KafkaClient;
  readonly membership: Membership;
  readonly reader: PartitionReader;
  readonly transactions: Transactions;
  readonly positions: RecordedPositions;
  /** Asked where the group has no position. */
  readonly evidence: () => Promise<FurtherEvidence>;
  /** Fires when the partition is not this process's any more. */
  readonly leaving: AbortSignal;
  readonly metrics: Metrics;
  readonly logger: Logger;
}

/**
 * One partition that this process owns for a stage. Two things keep anyone else from committing beside it: whoever
 * takes over fences the partition's transactional id and only then reads the position; and the coordinator is asked
 * whether this process is a member of the present generation after each fencing and with each position stored outside
 * of a transaction. So whatever a former owner still believes, it commits before its successor reads, or never.
 */
export class KafkaPartition implements OwnedPartition {
  readonly topic: string;
  readonly partition: number;
  readonly rest = new Rest();
  readonly #options: KafkaPartitionOptions;
  #committed: Cursor = { offset: 0, index: 0 };
  #missedUntil = 0;

  /** Takes over. `Unavailable` while that is not possible; the same again may be. */
  static async acquire(options: KafkaPartitionOptions): Promise<KafkaPartition> {
    const owned = new KafkaPartition(options);
    const stored = await owned.#takeOver();
    owned.#committed = await owned.#startFrom(stored);
    return owned;
  }

  private constructor(options: KafkaPartitionOptions) {
    this.#options = options;
    this.topic = options.topic;
    this.partition = options.partition;
  }

  get committed(): Cursor {
    return this.#committed;
  }

  async fetch(from: Cursor, limits: FetchLimits, signal: AbortSignal): Promise<readonly Taken[]> {
    const first =
      limits.waitMs === undefined
        ? await this.#read(from, signal)
        : await this.#options.reader.fetchWithin(limits.waitMs, from, signal);
    if (first.length === 0) return first;
    if (limits.gatherMs === undefined || limits.gatherMs <= 0) return first;
    const gathered = [...first];
    const until = performance.now() + limits.gatherMs;
    while (weighsLess(gathered, limits)) {
      const [last, leftMs] = [gathered.at(-1), until - performance.now()];
      if (last === undefined || leftMs <= 0) break;
      const more = await this.#options.reader.fetchWithin(leftMs, last.after, signal);
      if (more.length === 0) break;
      gathered.push(...more);
    }
    return gathered;
  }

  async #read(from: Cursor, signal: AbortSignal): Promise<readonly Taken[]> {
    try {
      return await this.#options.reader.fetch(from, signal);
    } catch (thrown) {
      if (!(thrown instanceof OffsetOutOfRange)) throw thrown;
      const { client, name, stage, logger, metrics } = this.#options;
      const [topic, partition] = [this.topic, this.partition];
      const first = await offsetOf(client, name, this.partition, 'first');
      if (from.offset >= first) {
        throw new PartitionLost(`${topic}/${partition} does not reach to ${from.offset}`, { cause: thrown });
      }
      // The same again, after a failure, is told once.
      const missed = first - Math.max(from.offset, this.#missedUntil);
      if (missed > 0) {
        metrics.count('tributary_stage_missed_records_total', { stage, topic }, missed);
        logger.error(
          { stage, topic, partition, from: from.offset, to: first },
          'retention was faster than the stage',
        );
      }
      this.#missedUntil = first;
      return this.#options.reader.fetch({ offset: first, index: 0 }, signal, from.offset);
    }
  }

  readonly end = (): Promise<number> => {
    const { client, name } = this.#options;
    return offsetOf(client, name, this.partition, 'end');
  };

  /** What is under way when the partition is left ends as it may: whoever has it next fences first. */
  async commit(from: Cursor, to: Cursor, emissions: readonly OutputRecord[]): Promise<void> {
    await unlessAborted(this.#commit(from, to, emissions), this.#options.leaving);
  }

  async #commit(from: Cursor, to: Cursor, emissions: readonly OutputRecord[]): Promise<void> {
    const { transactions, positions, leaving } = this.#options;
    leaving.throwIfAborted();
    if (!transactions.begun) {
      // The last commit ended in doubt.
      const stored = await this.#takeOver();
      this.#committed = stored ?? from;
      if (compareCursors(this.#committed, to) === 0) return;
      if (compareCursors(this.#committed, from) !== 0) {
        throw new Fenced(`the position is ${this.#committed.offset}, not ${from.offset}`);
      }
    }
    // A transaction costs five round trips, a position alone one.
    if (emissions.length > 0) {
      const recorded = positions.emission(this.#of(), to);
      await transactions.commit([...emissions, recorded], this.#position(to));
    } else await this.#store(to);
    this.#committed = to;
  }

  /** Fences whoever had the partition and says where they got to; undefined when nobody ever had it. */
  async #takeOver(): Promise<Cursor | undefined> {
    const { transactions, membership, leaving } = this.#options;
    // Before: not to disturb the rightful owner. After: whoever takes over later fences later, and finds all of it.
    await membership.confirm();
    leaving.throwIfAborted();
    await transactions.begin();
    await membership.confirm();
    leaving.throwIfAborted();
    return this.#stored();
  }

  /** Where to begin: where the last owner got to, as far as that is known and still there. */
  async #startFrom(stored: Cursor | undefined): Promise<Cursor> {
    const { client, name, positions } = this.#options;
    const first = await offsetOf(client, name, this.partition, 'first');
    const end = await offsetOf(client, name, this.partition, 'end');
    const evidence: Evidence = { stored, first, end };
    const start = storedStart(evidence) ?? (await this.#found(evidence));
    if ('unknown' in start)
      throw new PositionUnknown(
        `the position of ${this.topic}/${this.partition} is lost and the stage does not begin at the first record by itself: ${start.unknown}. \`tributary positions\` shows what is known and sets it`,
      );
    this.#report(start, evidence);
    // From now on it says so itself, also if what is first is dropped meanwhile.
    if (start.found !== 'stored') await this.#storeInGroup(start.from);
    await positions.recordStart(this.#of(), start.from);
    return start.from;
  }

  async #found(evidence: Evidence): Promise<StartingPoint> {
    const { positions, evidence: gather } = this.#options;
    const further = await gather();
    const start = foundStart(evidence, further);
    const isBeginning = 'found' in start && start.found === 'fresh' && evidence.first < evidence.end;
    // The first partition decides for all: to the next one this one would be a sibling with a position.
    if (isBeginning && !further.topicBegun && !further.startsAtFirst) await positions.recordBegun(this.#of());
    return start;
  }

  #report(
    start: Exclude<StartingPoint, { readonly unknown: string }>,
    { stored, first, end }: Evidence,
  ): void {
    const { stage, logger } = this.#options;
    const { topic, partition } = this;
    if (start.found === 'anew')
      logger.error(
        { stage, topic, partition, stored: stored?.offset, end, first },
        'the position lies behind the end: the topic was made anew, the stage begins at its start',
      );
    if (start.found === 'lost')
      logger.warn(
        { stage, topic, partition, position: start.from.offset, first, end },
        'the consumer group has lost its position; the stage goes on at the one it recorded',
      );
  }

  #of(): StagePartition {
    return { stage: this.#options.stage, topic: this.topic, partition: this.partition };
  }

  async #stored(): Promise<Cursor | undefined> {
    const { client, groupId, name, partition } = this.#options;
    const stored = await client.fetchOffsets(groupId, [{ topic: name, partitions: [partition] }]);
    const found = stored[0]?.partitions[0];
    if (!found) throw new Unavailable('Kafka: no answer about a position');
    if (Number(found.offset) < 0) return undefined;
    return { offset: Number(found.offset), index: Number(found.metadata || 0) };
  }

  /** All below is done, also where another member owns the partition by now: so the record needs no generation. */
  async #store(to: Cursor): Promise<void> {
    await Promise.all([this.#storeInGroup(to), this.#options.positions.record(this.#of(), to)]);
  }

  async #storeInGroup({ offset, index }: Cursor): Promise<void> {
    const { membership, name, leaving } = this.#options;
    leaving.throwIfAborted();
    await membership.commitOffset(name, this.partition, offset, metadataOf(index));
  }

  #position({ offset, index }: Cursor) {
    const { groupId, name } = this.#options;
    return { groupId, topic: name, partition: this.partition, offset, metadata: metadataOf(index) };
  }
}

function weighsLess(taken: readonly Taken[], { maxEntries, maxBytes }: FetchLimits): boolean {
  if (taken.length >= maxEntries) return false;
  return taken.reduce((sum, { entry }) => sum + entry.value.length, 0) < maxBytes;
}

/** The index inside of a record stands beside the offset; none for most. */
function metadataOf(index: number): string {
  return index === 0 ? '' : String(index);
}
