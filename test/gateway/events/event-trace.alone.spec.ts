// Runs alone: it compares times.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type InjectClient, openTestGateway, type TestGateway } from '../../helpers/gateway.ts';

const ROUNDS = 3;
const EVENTS = 1_000;
/** Concurrent requests of a producer. */
const AT_A_TIME = 20;
/** Between two queries, ms: a person who keeps asking. */
const ASKS_EVERY_MS = 500;

let test: TestGateway;
let owner: InjectClient;
let producer: InjectClient;
beforeAll(async () => {
  test = await openTestGateway();
  owner = await test.openWorkspace();
  const { key } = await owner.ok<{ key: string }>('POST', './event-keys', {
    name: 'p',
    environment: 'production',
  });
  producer = owner.with({ token: key });
});
afterAll(() => test.close());

/** Events a second that were made durable. */
async function eventsPerSecond(): Promise<number> {
  const began = performance.now();
  let left = EVENTS;
  const send = async () => {
    while (left-- > 0)
      await producer.ok('POST', './events/track', { event: 'Seen', user_id: `u${left % 100}` });
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, send));
  return (EVENTS * 1_000) / (performance.now() - began);
}

it('events lose at most a tenth of their speed while somebody keeps asking where one is', async () => {
  await eventsPerSecond(); // warm-up
  const { message_id } = await producer.ok<{ message_id: string }>('POST', './events/track', {
    event: 'Sought',
    user_id: 'u',
  });
  const ratios: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const alone = await eventsPerSecond();
    // No stage runs here, so no dedupe claim gives the event's position and each search reads the whole log:
    // the most expensive case.
    const asking = setInterval(() => owner.call('GET', `./events/${message_id}`), ASKS_EVERY_MS);
    const asked = await eventsPerSecond();
    clearInterval(asking);
    ratios.push(asked / alone);
  }
  const [, median = 0] = ratios.toSorted((a, b) => a - b);
  console.log(`events/s while somebody asks: ${ratios.map((ratio) => ratio.toFixed(2)).join(', ')} of alone`);
  expect(await owner.ok('GET', `./events/${message_id}`)).toMatchObject({
    status: 'under_way',
    stage: 'validate',
  });
  expect(median).toBeGreaterThan(0.9);
});
