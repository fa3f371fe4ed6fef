import { type LogEntry, type StageProgress, Unavailable } from '@tributary/core';
import { expect, it } from 'vitest';
import { createMetrics, exposition } from './metrics.ts';
import { StageProgressReader, StageReporter } from './stage-progress.ts';

const TOPIC = 'events.accepted';
const START = 1_700_000_000_000;

/** One partition of a log whose records have times; an offset without one holds a marker. */
class Log {
  readonly times: (number | undefined)[] = [];
  position: number | undefined;
  members = 1;
  reads = 0;
  failing = false;

  async progress(): Promise<readonly StageProgress[]> {
    if (this.failing) throw new Unavailable('no broker');
    const partitions = [
      { topic: TOPIC, partition: 0, first: 0, position: this.position, end: this.times.length },
    ];
    return [{ stage: 'route', members: this.members, partitions }];
  }

  async read(topic: string, partition: number, from: number) {
    this.reads++;
    const offset = this.times.findIndex((time, at) => at >= from && time !== undefined);
    if (offset < 0) return { entries: [], next: this.times.length };
    const timestamp = this.times[offset] ?? 0;
    const position = { topic, partition, offset, index: 0 };
    const entry: LogEntry = { key: 'k', value: '{}', headers: {}, timestamp, position };
    return { entries: [entry], next: offset + 1 };
  }
}

const STAGES = [{ stage: 'route', topics: [TOPIC] }];

/** Samples at a time in seconds. */
function opened() {
  const log = new Log();
  const reader = new StageProgressReader(log, STAGES);
  const sampleAt = async (second: number) =>
    (await reader.sample(() => START + second * 1_000)).get('route')?.partitions[0];
  return { log, sampleAt };
}

it('reads the age of a lag of before its own start once, and then follows the ends', async () => {
  const { log, sampleAt } = opened();
  log.times.push(...Array.from({ length: 100 }, (_, i) => START - 100_000 + i * 1_000));
  log.position = 10;
  expect(await sampleAt(0)).toMatchObject({ position: 10, lag: 90, oldestAt: START - 90_000 });
  expect(log.reads).toBe(1);
  log.position = 60;
  expect(await sampleAt(10)).toMatchObject({ lag: 40, oldestAt: expect.closeTo(START - 40_000, -4) });
  expect(log.reads).toBe(1);
});

it('counts a marker behind the last record as no lag, and asks about it once', async () => {
  const { log, sampleAt } = opened();
  log.times.push(START, undefined);
  log.position = 1;
  expect(await sampleAt(0)).toMatchObject({ lag: 0, position: 1, end: 2 });
  expect(await sampleAt(5)).toMatchObject({ lag: 0 });
  expect(log.reads).toBe(1);
  log.times.push(START + 6_000, undefined);
  expect(await sampleAt(10)).toMatchObject({ lag: 2, oldestAt: START + 6_000 });
});

it('reports a stalled stage, by the time of the record at which it stalled', async () => {
  const { log, sampleAt } = opened();
  log.position = 0;
  await sampleAt(0);
  log.times.push(START + 3_000);
  await sampleAt(10);
  expect(await sampleAt(20)).toMatchObject({ lag: 1, oldestAt: START + 3_000 });
  const { reads } = log;
  expect(await sampleAt(30)).toMatchObject({ lag: 1, oldestAt: START + 3_000 });
  expect(log.reads).toBe(reads);
});

it('begins at the first kept record for a stage that never ran, and for a topic that was created again', async () => {
  const { log, sampleAt } = opened();
  log.times.push(START, START);
  expect(await sampleAt(0)).toMatchObject({ position: 0, lag: 2 });
  log.position = 99;
  expect(await sampleAt(5)).toMatchObject({ position: 0, lag: 2 });
});

it('reports nothing any more once the log has not answered for a minute', async () => {
  let now = START;
  const log = new Log();
  log.times.push(START);
  const metrics = createMetrics({ processMetrics: false });
  const warnings: string[] = [];
  const ignored = () => undefined;
  const logger = {
    debug: ignored,
    info: ignored,
    error: ignored,
    warn: (_: object, text: string) => void warnings.push(text),
  };
  const reporter = new StageReporter(log, STAGES, { logger, metrics, clock: () => now });
  const text = async () => (await exposition([await metrics.snapshot()])).body;
  await reporter.report();
  expect(await text()).toContain(
    `tributary_stage_lag_records{stage="route",topic="${TOPIC}",partition="0"} 1\n`,
  );
  expect(await text()).toContain('tributary_stage_members{stage="route"} 1\n');
  log.failing = true;
  now += 59_000;
  await reporter.report();
  expect(await text()).toContain('tributary_stage_lag_records{');
  now += 2_000;
  await reporter.report();
  expect(warnings).toHaveLength(2);
  expect(await text()).not.toMatch(
    /tributary_(stage_lag_records|stage_position|stage_members|log_end_offset)\{/,
  );
  expect(await text()).toContain(`tributary_stage_lag_collected_timestamp_seconds ${START / 1_000}\n`);
  log.failing = false;
  await reporter.report();
  expect(await text()).toContain('tributary_stage_lag_records{');
});
