import { afterAll, beforeAll, expect, it } from 'vitest';
import { type InjectClient, openTestGateway, type TestGateway } from '../../helpers/gateway.ts';

const HOUR = 3_600_000;

let test: TestGateway;
let owner: InjectClient;
let hour: number;
beforeAll(async () => {
  test = await openTestGateway();
  owner = await test.openWorkspace();
  hour = Math.floor(test.clock.now() / HOUR) * HOUR;
  // Half past the hour, so that it does not change during the test.
  test.clock.pass(hour + HOUR / 2 - test.clock.now());
  const increment = (ago: number, eventName: string, count: number, environment = 'production' as const) => ({
    workspaceId: String(owner.workspaceId),
    environment,
    eventType: 'track' as const,
    eventName,
    hour: hour - ago * HOUR,
    count,
  });
  await test.dependencies.counters.apply({
    topic: 'events.accepted',
    partition: 0,
    from: 0,
    to: 9,
    increments: [
      increment(0, 'Now', 2),
      { ...increment(0, 'Now', 5), environment: 'development' },
      increment(23, 'Yesterday', 3),
      increment(24, 'Too long ago', 4),
    ],
    keyUses: [],
  });
});
afterAll(() => test.close());

const at = (ago: number) => new Date(hour - ago * HOUR).toISOString();
const record = (ago: number, event_name: string, event_count: number) => ({
  event_type: 'track',
  event_name,
  hour_bucket: at(ago),
  event_count,
});

it('the volume has the current hour and the 23 before it, oldest first, of both environments', async () => {
  expect(await owner.call('GET', './event-volume')).toMatchObject({
    status: 200,
    body: [record(23, 'Yesterday', 3), record(0, 'Now', 7)],
  });
});

it('the volume has the requested number of hours', async () => {
  expect(await owner.ok('GET', './event-volume?hours=1')).toEqual([record(0, 'Now', 7)]);
  expect(await owner.ok('GET', './event-volume?hours=25')).toHaveLength(3);
  expect(await owner.ok('GET', './event-volume?hours=720')).toHaveLength(3);
});

it('the volume is filtered by environment', async () => {
  expect(await owner.ok('GET', './event-volume?environment=development')).toEqual([record(0, 'Now', 5)]);
});

it.each([
  'hours=0',
  'hours=721',
  'hours=-1',
  'hours=1.5',
  'hours=1e1',
  'hours=',
  'hours=%2024',
  'hours=24h',
  'hours=%2B5',
  'hours=1&hours=2',
  'hours=1000000000000',
  'limit=10',
  'cursor=x',
  'environment=',
  'environment=staging',
  'days=1',
])('the query %s is refused', async (query) => {
  expect(await owner.call('GET', `./event-volume?${query}`)).toMatchObject({
    status: 400,
    body: { error: 'invalid request', details: [{ path: query.split('=')[0] }] },
  });
});

it('the volume has only events of the workspace', async () => {
  const other = await test.openWorkspace('other@example.com');
  expect(await other.ok('GET', './event-volume')).toEqual([]);
});
