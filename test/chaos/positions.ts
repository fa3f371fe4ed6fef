import { setTimeout as sleep } from 'node:timers/promises';
import { TOPIC } from '@tributary/core';
import type { Admin } from 'kafkajs';
import { eventually } from '../helpers/client.ts';
import { withAdmin } from '../helpers/kafka.ts';

/** The progress of a stage in one partition at a moment. */
export interface Sample {
  /** Of `performance.now()`, ms. */
  readonly at: number;
  readonly stage: string;
  readonly partition: number;
  readonly committed: number;
  readonly end: number;
}

/** The stages every departure passes, with the topic of the records that show their progress. */
export const STAGES = {
  validate: 'events.production',
  count: TOPIC.accepted,
  route: TOPIC.accepted,
  deliver: TOPIC.deliveries,
} as const;

const EVERY_MS = 100;

/** The longest time for the coordinators to return positions for the first time, ms. */
const FIRST_WITHIN_MS = 30_000;

/**
 * Polls the committed positions of the stages, as any admin client may, until `signal` fires. A failed poll
 * is skipped: a moving coordinator answers the next one.
 */
export async function watchPositions(
  brokers: string,
  prefix: string,
  signal: AbortSignal,
): Promise<{ readonly samples: readonly Sample[]; readonly ended: Promise<void> }> {
  const samples: Sample[] = [];
  const ended = withAdmin(brokers, async (admin) => {
    while (!signal.aborted) {
      for (const [stage, topic] of Object.entries(STAGES))
        samples.push(
          ...(await sample(admin, `${prefix}${stage}`, `${prefix}${topic}`, stage).catch(() => [])),
        );
      await sleep(EVERY_MS);
    }
  });
  await eventually(
    () => samples.length,
    (seen) => seen > 0,
    FIRST_WITHIN_MS,
  );
  return { samples, ended };
}

async function sample(
  admin: Admin,
  groupId: string,
  topic: string,
  stage: string,
): Promise<readonly Sample[]> {
  const [stored, ends] = await Promise.all([
    admin.fetchOffsets({ groupId, topics: [topic] }),
    admin.fetchTopicOffsets(topic),
  ]);
  const at = performance.now();
  const committed = new Map(
    stored.flatMap(({ partitions }) =>
      partitions.map(({ partition, offset }) => [partition, Number(offset)]),
    ),
  );
  return ends.map(({ partition, high }) => ({
    at,
    stage,
    partition,
    committed: Math.max(0, committed.get(partition) ?? 0),
    end: Number(high),
  }));
}
