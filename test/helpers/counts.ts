import type { Counters, FunnelIncrement } from '@tributary/core';

type Accepted = Partial<FunnelIncrement> & Pick<FunnelIncrement, 'workspaceId' | 'name' | 'minute'>;

/** Counts accepted track events, in production unless they say otherwise. */
export async function countAccepted(
  counters: Pick<Counters, 'applied' | 'apply'>,
  events: readonly Accepted[],
): Promise<void> {
  const partition = { topic: 'funnel.counts', partition: 0 };
  const from = await counters.applied(partition);
  const fixed = {
    environment: 'production',
    source: '',
    key: '',
    type: 'track',
    rule: '',
    destination: '',
    measures: 'received+accepted',
    count: 1,
    samples: [],
  } as const;
  const increments = events.map((event) => ({ ...fixed, ...event }));
  await counters.apply({ ...partition, from, to: from + 1, increments });
}
