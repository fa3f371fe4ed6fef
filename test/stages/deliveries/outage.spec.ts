import {
  type Delivery,
  type LogEntry,
  type OutputRecord,
  parseRetrySchedule,
  retryDelays,
  retryTopic,
  TOPIC,
} from '@tributary/core';
import { expect, it } from 'vitest';
import { entryOf, event, handedOn, START, setUp } from '../harness.ts';

const LADDER = retryDelays(parseRetrySchedule(['10s', '1m', '10m', '1h', '6h']));
const TICK_MS = process.env.TRIBUTARY_TEST_LONG === undefined ? 1_000 : 500;
const MINUTE = 60_000;
const EVENTS_A_SECOND = 4;
/** The batch size of the scripted connector. */
const BATCH = 10;

/** Entries that wait until they are due, as in the retry topics. */
class RetryTopics {
  readonly #waiting: { readonly at: number; readonly entry: LogEntry }[] = [];
  put(outputRecord: OutputRecord, now: number): void {
    const step = LADDER.find(({ label }) => retryTopic(label) === outputRecord.topic);
    if (step === undefined) return;
    this.#waiting.push({ at: now + step.ms, entry: handedOn(outputRecord) });
  }
  due(now: number): readonly LogEntry[] {
    const due = this.#waiting.filter(({ at }) => at <= now).map(({ entry }) => entry);
    const left = this.#waiting.filter(({ at }) => at > now);
    this.#waiting.splice(0, this.#waiting.length, ...left);
    return due;
  }
  get size(): number {
    return this.#waiting.length;
  }
}

it('a destination is down for an hour: its backlog returns at a bounded rate, and delays no other', async () => {
  const { world, time, catalog, run } = setUp();
  for (const place of ['down', 'well']) {
    catalog.addDestination(place);
    catalog.addRule(`to-${place}`, place, { event_names: [place] });
  }
  const calls = new Map<string, number[]>([
    ['down', []],
    ['well', []],
  ]);
  const latencies: number[] = [];
  let isDown = true;
  world.deliver = ({ destination_id, created_at }: Delivery) => {
    calls.get(destination_id)?.push(time.now - START);
    if (destination_id === 'down' && isDown) return { outcome: 'retry', reason: 'ECONNREFUSED' };
    if (destination_id === 'well') latencies.push(time.now - Date.parse(created_at));
    else delivered.add(created_at);
    return { outcome: 'delivered' };
  };
  const delivered = new Set<string>();
  const topics = new RetryTopics();
  const under: Promise<void>[] = [];
  const hand = (stage: string, entries: readonly LogEntry[]) => {
    for (const entry of entries) {
      const done = run(stage, [entry]).then(async (outputRecords) => {
        for (const outputRecord of outputRecords) {
          if (outputRecord.topic === TOPIC.deliveriesSlow) hand('deliver.slow', [handedOn(outputRecord)]);
          else topics.put(outputRecord, time.now);
        }
      });
      under.push(done);
    }
  };

  let sent = 0;
  const sentTo = { down: 0, well: 0 };
  const backAt = 60 * MINUTE;
  for (let at = 0; at < 200 * MINUTE && (at < 70 * MINUTE || topics.size > 0); at += TICK_MS) {
    isDown = at < backAt;
    hand('deliver.retry', topics.due(time.now));
    if (at < 70 * MINUTE) {
      for (let n = 0; n < (EVENTS_A_SECOND * TICK_MS) / 1_000; n++) {
        const place = sent % 2 === 0 ? 'down' : 'well';
        sentTo[place] += 1;
        const accepted = entryOf(TOPIC.accepted, 0, event(`${sent++}`, { event: place }));
        const routed = await run('route', [{ ...accepted, timestamp: time.now }]);
        hand(
          'deliver',
          routed.map((outputRecord) => handedOn(outputRecord)),
        );
      }
    }
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    time.pass(TICK_MS);
  }
  await Promise.all(under);

  const toDown = calls.get('down') ?? [];
  const during = toDown.filter((at) => at < backAt).length;
  const perSecond = new Map<number, number>();
  for (const at of toDown.filter((one) => one >= backAt))
    perSecond.set(Math.floor(at / 1_000), (perSecond.get(Math.floor(at / 1_000)) ?? 0) + 1);
  const busiest = Math.max(...perSecond.values());
  const back = (toDown.at(-1) ?? 0) - backAt;
  console.log(
    `an hour down: ${during} tried meanwhile of ${sentTo.down} deliveries; then at most ${busiest} deliveries a second, the last after ${Math.round(back / MINUTE)} min; the other destination waited ${Math.max(...latencies)} ms at most`,
  );
  expect(calls.get('well')).toHaveLength(sentTo.well);
  expect(Math.max(...latencies)).toBeLessThanOrEqual(TICK_MS);
  // One call each time its circuit has cooled down, with one call's batch.
  expect(during).toBeLessThan((backAt / 15_000 + 10) * BATCH);
  expect(toDown.length - during).toBe(sentTo.down);
  expect(busiest).toBeLessThan(sentTo.down / 60);
  expect(topics.size).toBe(0);
});
