import { type Stage, TOPIC, type TopicSpec, Unavailable } from '@tributary/core';
import type { Cursor } from '../../stage-runner/work.ts';
import type { KafkaClient } from '../client/client.ts';
import { appendedEnds, firstStamp, storedOffsets } from '../client/offsets.ts';
import type { RecordedPositions, StagePartition } from './recorded-positions.ts';

/** The position of a partition is lost and cannot be found: an operator has to set it. */
export class PositionUnknown extends Unavailable {}

/** A position in the topic `stages.positions`. */
export interface RecordedPosition extends Cursor {
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
  /** The stage began the topic at its first record, in all partitions. */
  readonly topicBegun: boolean;
  /** Positions are recorded since before the first event was processed. */
  readonly sinceBeginning: boolean;
  /** See `Stage.startsAtFirst`. */
  readonly startsAtFirst: boolean;
  /** The partition was added to the topic: every release that reads it records its positions. */
  readonly added: boolean;
}

/**
 * Traces of earlier work in all partitions of several topics. Gathered where records do not tell: the many partitions of a
 * first start need none.
 */
export interface Traces {
  /** There is a position of the stage in another partition of the topic, in the group or recorded. */
  readonly siblings: boolean;
  /** There is a recorded position of the stage in another topic. */
  readonly stageRecorded: boolean;
  /** A topic that the stage writes to has records. */
  readonly emitted: boolean;
}

export type StartingPoint =
  /** Go on there. `lost`: the group had lost it; `anew`: the topic was deleted and created again. */
  | { readonly from: Cursor; readonly found: 'stored' | 'lost' | 'anew' }
  /** Beginning with the first record repeats nothing. */
  | { readonly from: Cursor; readonly found: 'fresh' }
  /** The stage may have processed records there: the reason why it does not begin by itself. */
  | { readonly unknown: string };

/** The starting point by the group's position; undefined where it has none. */
export function storedStart({ stored, first, end }: Evidence): StartingPoint | undefined {
  if (stored === undefined) return undefined;
  // A position behind the end is of a topic that was deleted and created again.
  if (stored.offset > end) return { from: { offset: first, index: 0 }, found: 'anew' };
  return { from: stored, found: 'stored' };
}

/**
 * The starting point of a partition without a position. A stage does not repeat its work by itself: it continues at the
 * recorded position, or begins with the first record where it certainly never processed any. Undefined where the records do
 * not tell, and `tracedStart` decides.
 */
export function recordedStart({ first, end }: Evidence, facts: RecordedFacts): StartingPoint | undefined {
  const { recorded } = facts;
  if (recorded !== undefined) {
    const isAnew = recorded.offset > end || (first < recorded.offset && (facts.firstAt ?? 0) > recorded.at);
    if (isAnew) return { from: { offset: first, index: 0 }, found: 'anew' };
    return { from: { offset: recorded.offset, index: recorded.index }, found: 'lost' };
  }
  // With positions recorded since the beginning, a partition without one was never processed.
  const isFresh =
    facts.startsAtFirst || facts.added || first === end || facts.topicBegun || facts.sinceBeginning;
  return isFresh ? fresh(first) : undefined;
}

/** The starting point of a partition that nothing is recorded about: the first record, or `unknown`. */
export function tracedStart({ first }: Evidence, traces: Traces): StartingPoint {
  if (traces.siblings) return { unknown: 'the stage has positions in other partitions of the topic' };
  if (first > 0)
    return {
      unknown: `the topic begins at ${first}, so the stage may have read records that are no longer kept`,
    };
  if (traces.stageRecorded || !traces.emitted) return fresh(first);
  return { unknown: 'the topics that the stage writes to have records' };
}

function fresh(first: number): StartingPoint {
  return { from: { offset: first, index: 0 }, found: 'fresh' };
}

export interface StartSources {
  readonly client: KafkaClient;
  readonly positions: Pick<
    RecordedPositions,
    | 'read'
    | 'of'
    | 'sinceBeginning'
    | 'knowsAnything'
    | 'hasBegun'
    | 'knows'
    | 'recordBeginning'
    | 'recordBegun'
  >;
  readonly stage: Pick<Stage, 'name' | 'writes' | 'startsAtFirst'>;
  readonly groupId: string;
  readonly topics: ReadonlyMap<string, TopicSpec>;
  /** The name of a topic in Kafka. */
  readonly nameOf: (topic: string) => string;
}

/** No event was processed while these are empty: each goes to one of them first. */
const FIRST_OUTPUTS: readonly string[] = [TOPIC.accepted, TOPIC.rejected];

/** Finds the starting point of a partition without a position in its group. */
export async function findStart(
  sources: StartSources,
  of: StagePartition,
  evidence: Evidence,
): Promise<StartingPoint> {
  const { positions } = sources;
  await positions.read();
  if (!positions.sinceBeginning && !positions.knowsAnything && (await areEmpty(sources, FIRST_OUTPUTS))) {
    await positions.recordBeginning();
    await positions.read();
  }
  const start = (await foundInRecords(sources, of, evidence)) ?? (await foundByTraces(sources, of, evidence));
  const isBeginning = 'found' in start && start.found === 'fresh' && evidence.first < evidence.end;
  // Decided once for all partitions: for the next one, this one would be a sibling with a position.
  if (isBeginning && !positions.hasBegun(of) && sources.stage.startsAtFirst !== true)
    await positions.recordBegun(of);
  return start;
}

async function foundInRecords(
  { client, positions, stage, topics, nameOf }: StartSources,
  of: StagePartition,
  evidence: Evidence,
): Promise<StartingPoint | undefined> {
  const { topic, partition } = of;
  const recorded = positions.of(of);
  return recordedStart(evidence, {
    recorded,
    firstAt: recorded && (await firstStamp(client, nameOf(topic), partition)),
    topicBegun: positions.hasBegun(of),
    sinceBeginning: positions.sinceBeginning,
    startsAtFirst: stage.startsAtFirst === true,
    added: partition >= (topics.get(topic)?.earlier?.[0] ?? Number.POSITIVE_INFINITY),
  });
}

async function foundByTraces(
  sources: StartSources,
  of: StagePartition,
  evidence: Evidence,
): Promise<StartingPoint> {
  const { positions, stage } = sources;
  // Before reading the records again: a stage records that it begins a topic before it emits.
  const emitted = !(await areEmpty(
    sources,
    stage.writes.filter((name) => name !== TOPIC.poison),
  ));
  const hasStored = await hasStoredSibling(sources, of);
  await positions.read();
  const traces = {
    siblings: hasStored || positions.knows(of.stage, of.topic),
    stageRecorded: positions.knows(of.stage),
    emitted,
  };
  return (await foundInRecords(sources, of, evidence)) ?? tracedStart(evidence, traces);
}

async function areEmpty(
  { client, topics, nameOf }: StartSources,
  names: readonly string[],
): Promise<boolean> {
  const ends = await appendedEnds(
    client,
    names.flatMap((name) =>
      partitionsOf(topics, name).map((partition) => ({ topic: nameOf(name), partition })),
    ),
  );
  return [...ends.values()].every((end) => end === 0);
}

async function hasStoredSibling(
  { client, groupId, topics, nameOf }: StartSources,
  { topic }: StagePartition,
): Promise<boolean> {
  const all = partitionsOf(topics, topic).map((partition) => ({ topic: nameOf(topic), partition }));
  return (await storedOffsets(client, groupId, all)).size > 0;
}

function partitionsOf(topics: ReadonlyMap<string, TopicSpec>, topic: string): readonly number[] {
  return Array.from({ length: topics.get(topic)?.partitions ?? 0 }, (_, partition) => partition);
}
