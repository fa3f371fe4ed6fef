import { type EventLog, TOPIC } from '@tributary/core';
import { expect, it } from 'vitest';
import { event, type RecordedCounters, setUp, until } from '../harness.ts';
import { openLog, runOn } from '../on-log.ts';

async function appendEvents(log: EventLog, ids: readonly string[]): Promise<void> {
  const headers = {};
  await log.append(
    TOPIC.accepted,
    ids.map((id) => ({ key: 'key', value: JSON.stringify(event(id)), headers })),
  );
}

function counted({ batches }: RecordedCounters): number {
  return batches.flatMap(({ increments }) => increments).reduce((sum, { count }) => sum + count, 0);
}

const ids = (name: string, count: number) => Array.from({ length: count }, (_, n) => `${name}${n}`);

it('continues to count when the log was wiped while the counters stayed, each event once', async () => {
  const { stages, counters } = setUp();
  const old = await openLog();
  await appendEvents(old, ids('old', 50));
  const oldRuns = await runOn(old, stages, ['count']);
  await until(() => counted(counters) === 50);
  await oldRuns.get('count')?.stop();

  const anew = await openLog();
  await appendEvents(anew, ids('new', 7));
  const runs = await runOn(anew, stages, ['count']);
  await until(() => counted(counters) === 57);
  await runs.get('count')?.stop();

  const restarted = setUp();
  for (const [partition, offset] of counters.offsets) restarted.counters.offsets.set(partition, offset);
  await appendEvents(anew, ids('later', 3));
  await runOn(anew, restarted.stages, ['count']);
  await until(() => counted(restarted.counters) > 0);
  expect(restarted.counters.batches).toMatchObject([{ from: 7, to: 10, increments: [{ count: 3 }] }]);
});
