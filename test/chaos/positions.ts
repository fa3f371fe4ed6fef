import { TOPIC } from '@tributary/core';
import type { Admin } from 'kafkajs';
import { withAdmin } from '../helpers/kafka.ts';

/** How far a stage had got in one partition at a moment. */
export interface Sample {
  /** Of `performance.now()`, ms. */
  readonly at: number;
  readonly stage: string;
  readonly partition: number;
  readonly committed: number;
  readonly end: number;
}

/** The stages every departure passes, with the topic whose records tell how far each got. */
export const STAGES = {
  validate: 'events.production',
  count: TOPIC.accepted,
  route: TOPIC.accepted,
  deliver: TOPIC.deliveries,
} as const;

const EVERY_MS = 100;

/** Looks at the committed positions of the stages again and again, as any admin client may, until `signal` fires. */
export async function watchPositions(
  brokers: string,
  prefix: string,
  signal: AbortSignal,
): Promise<{ readonly samples: readonly Sample[]; readonly ended: Promise<void> }> {
  const samples: Sample[] = [];
  const first = Promise.withResolvers<void>();
  const ended = withAdmin(brokers, async (admin) => {
    while (!signal.aborted) {
      for (const [stage, topic] of Object.entries(STAGES))
        samples.push(...(await sample(admin, `${prefix}${stage}`, `${prefix}${topic}`, stage)));
      first.resolve();
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
    }
  });
  await Promise.race([first.promise, ended]);
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
