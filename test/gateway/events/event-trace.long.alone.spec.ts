// Runs alone in the long form: it compares times.
import { expect, it, onTestFinished } from 'vitest';
import { percentile } from '../../bench/table.ts';
import type { Client } from '../../helpers/client.ts';
import { openTestGateway } from '../../helpers/gateway.ts';
import { measured } from '../../helpers/measured.ts';

/** The share of their speed that events keep. */
const KEPT = 0.9;
const ROUNDS = 3;
const EVENTS = 1_000;
/** Concurrent requests of a producer. */
const AT_A_TIME = 20;
/** Between two queries, ms: a person who keeps asking. */
const ASKS_EVERY_MS = 500;

/** Events a second that were made durable. */
async function eventsPerSecond(producer: Client): Promise<number> {
  const began = performance.now();
  let left = EVENTS;
  const send = async () => {
    while (left-- > 0)
      await producer.ok('POST', './events/track', { event: 'Seen', user_id: `u${left % 100}` });
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, send));
  return (EVENTS * 1_000) / (performance.now() - began);
}

/** The share of its speed that a producer keeps. Each time on a new log, as a query reads all of it. */
async function speedWhileAsked(): Promise<number> {
  const test = await openTestGateway();
  onTestFinished(() => test.close());
  const owner = await test.openWorkspace();
  const key = await owner.writeKey();
  const producer = owner.with({ token: key });
  await eventsPerSecond(producer); // warm-up
  const { message_id } = await producer.ok<{ message_id: string }>('POST', './events/track', {
    event: 'Sought',
    user_id: 'u',
  });
  const ratios: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const alone = await eventsPerSecond(producer);
    // No stage runs here, so no dedupe claim gives the event's position and each search reads the whole log:
    // the most expensive case.
    const asking = setInterval(() => owner.call('GET', `./events/${message_id}`), ASKS_EVERY_MS);
    const asked = await eventsPerSecond(producer);
    clearInterval(asking);
    ratios.push(asked / alone);
  }
  console.log(`events/s while somebody asks: ${ratios.map((ratio) => ratio.toFixed(2)).join(', ')} of alone`);
  expect(await owner.ok('GET', `./events/${message_id}`)).toMatchObject({
    status: 'under_way',
    stage: 'validate',
  });
  return percentile(ratios, 0.5);
}

it('events lose at most a tenth of their speed under continuous requests for the trace of one', async () => {
  const kept = await measured(speedWhileAsked, (ratio) => ratio > KEPT);
  expect(kept).toBeGreaterThan(KEPT);
});
