import { countedEvent, countRecords, type EventLog, Tally, TOPIC } from '@tributary/core';
import { expect, it } from 'vitest';
import { event, type RecordedCounters, setUp, until } from '../harness.ts';
import { openLog, runOn } from '../on-log.ts';

/** Appends a record for each event. */
async function appendCounts(log: EventLog, ids: readonly string[]): Promise<void> {
  const records = ids.flatMap((id) =>
    countRecords([
      Tally.of([
        { event: countedEvent(event(id)), rule: '', destination: '', measures: 'received+accepted' },
      ]),
    ]),
  );
  await log.append(TOPIC.funnelCounts, records);
}

function counted({ batches }: RecordedCounters): number {
  return batches.flatMap(({ increments }) => increments).reduce((sum, { count }) => sum + count, 0);
}

const ids = (name: string, count: number) => Array.from({ length: count }, (_, n) => `${name}${n}`);

it('continues to count when the log was wiped while the counters stayed, each event once', async () => {
  const { stages, counters } = setUp();
  const old = await openLog();
  await appendCounts(old, ids('old', 50));
  const oldRuns = await runOn(old, stages, ['funnel']);
  await until(() => counted(counters) === 50);
  await oldRuns.get('funnel')?.stop();

  const anew = await openLog();
  await appendCounts(anew, ids('new', 7));
  const runs = await runOn(anew, stages, ['funnel']);
  await until(() => counted(counters) === 57);
  await runs.get('funnel')?.stop();

  const restarted = setUp();
  for (const [partition, offset] of counters.offsets) restarted.counters.offsets.set(partition, offset);
  await appendCounts(anew, ids('later', 3));
  await runOn(anew, restarted.stages, ['funnel']);
  await until(() => counted(restarted.counters) > 0);
  expect(restarted.counters.batches).toMatchObject([{ from: 7, to: 10, increments: [{ count: 3 }] }]);
});
