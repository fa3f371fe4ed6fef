import { type Stage, TOPIC, type TopicSpec, Unavailable } from '@tributary/core';
import type { KafkaClient } from '../client/client.ts';
import { appendedEnds, firstStamp, storedOffsets } from '../client/offsets.ts';
import type { RecordedPositions, StagePartition } from './recorded-positions.ts';
import type { FurtherEvidence } from './starting-point.ts';

/** The position of a partition is lost and was not found again: an operator has to say where the stage goes on. */
export class PositionUnknown extends Unavailable {}

export interface EvidenceSources {
  readonly client: KafkaClient;
  readonly positions: RecordedPositions;
  readonly stage: Pick<Stage, 'name' | 'writes' | 'startsAtFirst'>;
  readonly groupId: string;
  readonly topics: ReadonlyMap<string, TopicSpec>;
  /** The name of a topic in Kafka. */
  readonly nameOf: (topic: string) => string;
}

/** Nothing was worked off while these are empty: each event goes to one of them first. */
const FIRST_OUTPUTS: readonly string[] = [TOPIC.accepted, TOPIC.rejected];

/** Looks for what is known of a partition that has no position in its group. */
export async function gatherEvidence(sources: EvidenceSources, of: StagePartition): Promise<FurtherEvidence> {
  const { client, positions, stage, nameOf } = sources;
  const { topic, partition } = of;
  // Looked at before what is recorded: a stage records that it begins a topic before it emits anything.
  const emitted = !(await areEmpty(
    sources,
    stage.writes.filter((name) => name !== TOPIC.poison),
  ));
  const hasStored = await hasStoredSibling(sources, of);
  await positions.read();
  if (!positions.sinceBeginning && !positions.knowsAnything && (await areEmpty(sources, FIRST_OUTPUTS))) {
    await positions.recordBeginning();
    await positions.read();
  }
  return {
    recorded: positions.of(of),
    firstAt: await firstStamp(client, nameOf(topic), partition),
    topicBegun: positions.hasBegun(of),
    sinceBeginning: positions.sinceBeginning,
    siblings: hasStored || positions.knows(of.stage, topic),
    stageRecorded: positions.knows(of.stage),
    emitted,
    startsAtFirst: stage.startsAtFirst === true,
  };
}

async function areEmpty(
  { client, topics, nameOf }: EvidenceSources,
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
  { client, groupId, topics, nameOf }: EvidenceSources,
  { topic }: StagePartition,
): Promise<boolean> {
  const all = partitionsOf(topics, topic).map((partition) => ({ topic: nameOf(topic), partition }));
  return (await storedOffsets(client, groupId, all)).size > 0;
}

function partitionsOf(topics: ReadonlyMap<string, TopicSpec>, topic: string): readonly number[] {
  return Array.from({ length: topics.get(topic)?.partitions ?? 0 }, (_, partition) => partition);
}
