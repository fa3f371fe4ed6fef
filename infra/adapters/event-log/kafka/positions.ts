import {
  type NewEntry,
  type OutputRecord,
  type ReadResult,
  type Stage,
  type StageProgress,
  type StageReads,
  sharedByCallers,
  TOPIC,
  type TopicSpec,
  Unavailable,
} from '@tributary/core';
import { type Cursor, compareCursors } from '../stage-runner/work.ts';
import { firstStamp, offsetsOf } from './client/client.ts';
import { type Installation, partitionsOf } from './topics.ts';

/** The position of a partition is lost and cannot be found: an operator has to set it. */
export class PositionUnknown extends Unavailable {}

/** A position in the topic `stages.positions`. */
interface RecordedPosition extends Cursor {
  /** The append time of its record, epoch ms. */
  readonly at: number;
}

/** The facts about a partition that a stage takes over. */
export interface Evidence {
  /** The position of the consumer group. */
  readonly stored: Cursor | undefined;
  /** The first offset that is kept, and the one behind the last. */
  readonly first: number;
  readonly end: number;
}

/** Facts about a partition from records and declarations. Gathered where the group has no position. */
export interface RecordedFacts {
  readonly recorded: RecordedPosition | undefined;
  /** The append time of the first record that is kept, epoch ms; undefined where there is none. */
  readonly firstAt: number | undefined;
  /** Positions are recorded since before the first event was processed. */
  readonly sinceBeginning: boolean;
  /** See `Stage.startsAtFirst`. */
  readonly startsAtFirst: boolean;
  /** The partition was added to the topic: every release that reads it records its positions. */
  readonly added: boolean;
}

/**
 * Where a stage continues. `lost`: the group had lost it; `anew`: the topic was deleted and created again; `fresh`: beginning
 * with the first record repeats nothing.
 */
export interface StartingPoint {
  readonly from: Cursor;
  readonly found: 'stored' | 'lost' | 'anew' | 'fresh';
}

/** The starting point by the group's position; undefined where it has none. */
export function storedStart({ stored, first, end }: Evidence): StartingPoint | undefined {
  if (stored === undefined) return undefined;
  // A position behind the end is of a topic that was deleted and created again.
  if (stored.offset > end) return { from: { offset: first, index: 0 }, found: 'anew' };
  return { from: stored, found: 'stored' };
}

/**
 * The starting point of a partition without a position. A stage does not repeat its work by itself: it continues at the
 * recorded position, or begins with the first record where it certainly never processed any. Undefined where neither is known.
 */
export function recordedStart({ first, end }: Evidence, facts: RecordedFacts): StartingPoint | undefined {
  const { recorded } = facts;
  const atFirst = { offset: first, index: 0 };
  if (recorded !== undefined) {
    const isAnew = recorded.offset > end || (first < recorded.offset && (facts.firstAt ?? 0) > recorded.at);
    if (isAnew) return { from: atFirst, found: 'anew' };
    return { from: { offset: recorded.offset, index: recorded.index }, found: 'lost' };
  }
  // With positions recorded since the beginning, a partition without one was never processed.
  const isFresh = facts.startsAtFirst || facts.added || first === end || facts.sinceBeginning;
  return isFresh ? { from: atFirst, found: 'fresh' } : undefined;
}

interface StartSources extends Pick<Installation, 'client' | 'topics' | 'nameOf'> {
  readonly positions: Pick<
    RecordedPositions,
    'read' | 'of' | 'sinceBeginning' | 'knowsAnything' | 'recordBeginning'
  >;
  readonly stage: Pick<Stage, 'startsAtFirst'>;
}

/** No event was processed while these are empty: each goes to one of them first. */
const FIRST_OUTPUTS: readonly string[] = [TOPIC.accepted, TOPIC.rejected];

/** Finds the starting point of a partition without a position in its group. */
export async function findStart(
  sources: StartSources,
  of: StagePartition,
  evidence: Evidence,
): Promise<StartingPoint | undefined> {
  const { client, positions, stage, topics, nameOf } = sources;
  await positions.read();
  if (!positions.sinceBeginning && !positions.knowsAnything && (await areEmpty(sources, FIRST_OUTPUTS))) {
    await positions.recordBeginning();
    await positions.read();
  }
  const { topic, partition } = of;
  const recorded = positions.of(of);
  return recordedStart(evidence, {
    recorded,
    firstAt: recorded && (await firstStamp(client, nameOf(topic), partition)),
    sinceBeginning: positions.sinceBeginning,
    startsAtFirst: stage.startsAtFirst === true,
    added: partition >= (topics.get(topic)?.earlier?.[0] ?? Number.POSITIVE_INFINITY),
  });
}

async function areEmpty(sources: StartSources, names: readonly string[]): Promise<boolean> {
  const ends = await offsetsOf(
    sources.client,
    names.flatMap((name) => inKafka(sources, name)),
    'end',
  );
  return [...ends.values()].every((end) => end === 0);
}

/** The partitions of a topic, by its name in Kafka. */
function inKafka(installation: Pick<Installation, 'topics' | 'nameOf'>, topic: string) {
  return partitionsOf(installation, topic).map((each) => ({ ...each, topic: installation.nameOf(topic) }));
}

/** A partition of a stage. The topic is without the installation's prefix. */
export interface StagePartition {
  readonly stage: string;
  readonly topic: string;
  readonly partition: number;
}

/** A record of this key: positions are recorded since before any event was processed. */
const BEGINNING_KEY = 'beginning';

/** How long a read of all records may take, ms; the next one continues where it stopped. */
const READ_WITHIN_MS = 20_000;

interface RecordedPositionsOptions {
  readonly spec: TopicSpec;
  /** As `EventLog.read`; waits for a moment at the end of a partition. */
  readonly read: (partition: number, from: number, signal: AbortSignal) => Promise<ReadResult>;
  readonly end: (partition: number) => Promise<number>;
  readonly append: (entries: readonly NewEntry[]) => Promise<unknown>;
}

interface Value {
  /** Absent under `BEGINNING_KEY`, and under other keys that 0.2.0 wrote. */
  readonly offset?: number;
  readonly index?: number;
  /** The position replaces all before, also higher ones. */
  readonly begins?: true;
}

/**
 * The positions of all stages in a compacted topic, by stage, topic and partition. Consumer groups lose theirs when they are
 * deleted, and some days after their last member left. Each position is written in the transaction of the output records
 * before it, or beside the group's where there are none. So a recorded position is exact where output records went with it,
 * and else behind by at most the work that a crash repeats.
 */
export class RecordedPositions {
  readonly #options: RecordedPositionsOptions;
  readonly #positions = new Map<string, RecordedPosition>();
  #sinceBeginning = false;
  /** The next offset to read, by partition. */
  readonly #next = new Map<number, number>();

  constructor(options: RecordedPositionsOptions) {
    this.#options = options;
  }

  /** The record of a position, to be committed with the output records before it. */
  outputRecord(of: StagePartition, at: Cursor): OutputRecord {
    return { topic: this.#options.spec.name, ...positionEntry({ ...of, ...at }) };
  }

  /** Records a position without output records. */
  async record(of: StagePartition, at: Cursor): Promise<void> {
    await this.#options.append([positionEntry({ ...of, ...at })]);
  }

  /** Records the position at which a partition begins, in place of any other. */
  async recordStart(of: StagePartition, at: Cursor): Promise<void> {
    await this.recordStarts([{ ...of, ...at }]);
  }

  async recordStarts(starts: readonly (StagePartition & Cursor)[]): Promise<void> {
    await this.#options.append(starts.map((start) => positionEntry(start, { begins: true })));
  }

  /** Records that no event was processed yet. */
  async recordBeginning(): Promise<void> {
    await this.#options.append([entryOf(BEGINNING_KEY, {})]);
  }

  /**
   * Reads all records until now. `Unavailable` when that takes too long. Calls of the same time share a read: a process
   * takes many partitions over at once.
   */
  readonly read: () => Promise<void> = sharedByCallers(() => this.#readAll());

  of(partition: StagePartition): RecordedPosition | undefined {
    return this.#positions.get(keyOf(partition));
  }

  get sinceBeginning(): boolean {
    return this.#sinceBeginning;
  }

  get knowsAnything(): boolean {
    return this.#positions.size > 0;
  }

  async #readAll(): Promise<void> {
    const { spec } = this.#options;
    const inTime = AbortSignal.timeout(READ_WITHIN_MS);
    const partitions = Array.from({ length: spec.partitions }, (_, partition) => partition);
    await Promise.all(partitions.map((partition) => this.#readPartition(partition, inTime)));
  }

  async #readPartition(partition: number, inTime: AbortSignal): Promise<void> {
    const { spec, read, end: endOf } = this.#options;
    const end = await endOf(partition);
    const known = this.#next.get(partition) ?? 0;
    // A topic that was created again is read from its start; the positions read before still hold.
    for (let next = known > end ? 0 : known; next < end; ) {
      const result = await read(partition, next, inTime);
      if (inTime.aborted)
        throw new Unavailable(`${spec.name}/${partition} could not be read within ${READ_WITHIN_MS} ms`);
      for (const { key, value, timestamp } of result.entries) this.#fold(key, value, timestamp);
      next = result.next;
      this.#next.set(partition, next);
    }
  }

  #fold(key: string, text: string, at: number): void {
    const value = parsedValue(text);
    if (value === undefined) return;
    const { offset, index = 0 } = value;
    if (offset === undefined) {
      if (key === BEGINNING_KEY) this.#sinceBeginning = true;
      return;
    }
    const before = this.#positions.get(key);
    // A process that lost the partition may record late; all entries before the higher position are done.
    if (before !== undefined && value.begins !== true && compareCursors(before, { offset, index }) > 0)
      return;
    this.#positions.set(key, { offset, index, at });
  }
}

function keyOf({ stage, topic, partition }: StagePartition): string {
  return `${stage}/${topic}/${partition}`;
}

function positionEntry({ offset, index, ...of }: StagePartition & Cursor, more: Value = {}): NewEntry {
  return entryOf(keyOf(of), { offset, ...(index > 0 && { index }), ...more });
}

function entryOf(key: string, value: Value): NewEntry {
  return { key, value: JSON.stringify(value), headers: {} };
}

/** Undefined for a malformed value. */
function parsedValue(text: string): Value | undefined {
  try {
    const value = JSON.parse(text) as Value | null;
    if (typeof value !== 'object' || value === null) return undefined;
    const { offset, index = 0 } = value;
    return [offset ?? 0, index].every((n) => Number.isSafeInteger(n) && n >= 0) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** A partition of a stage with its positions, for operators. */
export interface KnownPosition extends StagePartition {
  /** The consumer group's. */
  readonly stored: number | undefined;
  /** In the topic of positions. */
  readonly recorded: number | undefined;
  readonly end: number;
}

/** All partitions of each topic that a stage has a position of, in its group or recorded, by stage and topic. */
export async function knownPositions(
  stages: readonly string[],
  positions: RecordedPositions,
  installation: Installation,
): Promise<readonly KnownPosition[]> {
  await positions.read();
  const topics = [...installation.topics.keys()];
  const progress = await stageProgress(
    stages.map((stage) => ({ stage, topics })),
    installation,
  );
  return progress.flatMap(({ stage, partitions }) => {
    const rows = partitions.map(({ topic, partition, position, end }) => {
      const recorded = positions.of({ stage, topic, partition })?.offset;
      return { stage, topic, partition, stored: position, recorded, end };
    });
    const isKnown = (row: KnownPosition) => row.stored !== undefined || row.recorded !== undefined;
    const known = new Set(rows.filter(isKnown).map(({ topic }) => topic));
    return rows.filter(({ topic }) => known.has(topic));
  });
}

/**
 * Where stages are, by the brokers: two requests to the coordinator of each stage's group, and two to each broker for the
 * first offsets and the ends of all topics.
 */
export async function stageProgress(
  stages: readonly StageReads[],
  installation: Installation,
): Promise<readonly StageProgress[]> {
  const { client, nameOf } = installation;
  const inTopics = (topics: readonly string[]) => topics.flatMap((topic) => inKafka(installation, topic));
  // Positions first: a position that is read before the end is never above it.
  const stored = await Promise.all(
    stages.map(async ({ stage, topics }) => ({
      stage,
      topics,
      positions: await client.fetchOffsets(nameOf(stage), inTopics(topics)),
      members: await client.countMembers(nameOf(stage)),
    })),
  );
  const all = inTopics([...new Set(stages.flatMap(({ topics }) => topics))]);
  const [firsts, ends] = await Promise.all([offsetsOf(client, all, 'first'), offsetsOf(client, all, 'end')]);
  return stored.map(({ stage, topics, positions, members }) => ({
    stage,
    members,
    partitions: topics.flatMap((topic) =>
      partitionsOf(installation, topic).map(({ partition }) => {
        const key = `${nameOf(topic)}/${partition}`;
        const [first, end] = [firsts.get(key) ?? 0, ends.get(key) ?? 0];
        return { topic, partition, first, position: positions.get(key)?.offset, end };
      }),
    ),
  }));
}
