import type { KafkaClient } from '../client/client.ts';
import { failOn, translateKafkaError } from '../client/errors.ts';
import type { RecordedPositions, StagePartition } from '../positions/recorded-positions.ts';

/** The position of a stage in another log with the same offsets. */
export interface ImportedPosition extends StagePartition {
  readonly offset: number;
  /** The index within that record. */
  readonly index: number;
}

/** Bound of the positions in one append. */
const RECORDED_AT_ONCE = 200;

export interface PositionsTarget {
  readonly client: KafkaClient;
  readonly positions: RecordedPositions;
  /** The name of a topic or a group in Kafka. */
  readonly nameOf: (name: string) => string;
}

/**
 * Gives stages the positions that they have in another log: in their consumer groups, which must have no members, and in
 * the topic of positions, where a partition without one counts as never processed from then on. May be repeated.
 */
export async function importPositions(
  positions: readonly ImportedPosition[],
  { client, positions: recorded, nameOf }: PositionsTarget,
): Promise<void> {
  for (const [stage, ofStage] of Map.groupBy(positions, (each) => each.stage)) {
    const groupId = nameOf(stage);
    try {
      const { responses } = await client.commitOffsets({
        groupId,
        // As a client that is no member: the coordinator refuses it while the group has members.
        memberId: '',
        groupGenerationId: -1,
        topics: [...Map.groupBy(ofStage, ({ topic }) => topic)].map(([topic, of]) => ({
          topic: nameOf(topic),
          partitions: of.map(({ partition, offset, index }) => ({
            partition,
            offset: String(offset),
            metadata: index === 0 ? '' : String(index),
          })),
        })),
      });
      for (const { partitions } of responses) for (const { errorCode } of partitions) failOn(errorCode);
    } catch (thrown) {
      throw translateKafkaError(thrown, `storing the positions of ${groupId}`);
    }
  }
  await recorded.recordBeginning();
  for (let from = 0; from < positions.length; from += RECORDED_AT_ONCE)
    await recorded.recordStarts(positions.slice(from, from + RECORDED_AT_ONCE));
}
