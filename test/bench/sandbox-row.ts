import { NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openIsolatedVmSandbox } from '@tributary/infra';
import { benchEvent } from './event.ts';
import { type BenchRow, median, perSecond } from './table.ts';

const BATCH = 200;
const BAR = 100_000;

/** Events a second through one sandbox process, for a small function. */
export async function sandboxRow({ rounds }: { rounds: number }): Promise<BenchRow> {
  const sandbox = openIsolatedVmSandbox({ processes: 1, logger: NO_LOGGER, metrics: NO_METRICS });
  const program = {
    id: 'bench/1',
    owner: 'bench',
    source:
      'function transform(event) { event.properties.total = event.properties.price * event.properties.quantity; return event; }',
  };
  const event = JSON.stringify({ type: 'track', message_id: 'm', ...benchEvent(1) });
  const inputs = Array.from({ length: BATCH }, () => ({
    event,
    context: '{}',
    at: 1_767_225_600_000,
    seed: 'bench',
  }));
  const figures: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    const startedAt = performance.now();
    let events = 0;
    while (performance.now() - startedAt < 2_000) {
      const results = await sandbox.run(program, inputs);
      if (!results.every(({ ok }) => ok)) throw new Error('an event failed in the sandbox');
      events += BATCH;
    }
    if (round > 0) figures.push(events / ((performance.now() - startedAt) / 1_000));
  }
  await sandbox.close();
  const figure = median(figures);
  return {
    path: `sandbox, one process, batches of ${BATCH}`,
    figure: perSecond(figure),
    baseline: '-',
    ratio: null,
    bar: `>= ${perSecond(BAR)}`,
    holds: figure >= BAR,
  };
}
