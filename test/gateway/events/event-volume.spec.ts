import { beforeAll, expect, it } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import { countAccepted } from '../../helpers/counts.ts';
import { suiteGateway } from '../suite-gateway.ts';

const HOUR = 3_600_000;

const test = await suiteGateway();
let owner: Client;
let hour: number;
beforeAll(async () => {
  owner = await test.openWorkspace();
  hour = Math.floor(test.clock.now() / HOUR) * HOUR;
  // Half past the hour, so that it does not change during the test.
  test.clock.pass(hour + HOUR / 2 - test.clock.now());
  const accepted = { workspaceId: String(owner.workspaceId), name: 'Now', minute: hour };
  await countAccepted(test.dependencies.counters, [
    { ...accepted, environment: 'production', count: 2 },
    { ...accepted, environment: 'development', count: 5 },
    ...[1, 23, 24].map((ago) => ({ ...accepted, name: `${ago}`, minute: hour - ago * HOUR, count: 1 })),
  ]);
});

const records = (event_count: number) => [
  { event_type: 'track', event_name: 'Now', hour_bucket: new Date(hour).toISOString(), event_count },
];

it('the volume is that of both environments, or of one', async () => {
  expect(await owner.ok('GET', './event-volume?hours=1')).toEqual(records(7));
  expect(await owner.ok('GET', './event-volume?environment=development')).toEqual(records(5));
});

it('the volume is that of the current hour and the 23 before, or of `hours`', async () => {
  const names = async (query: string) =>
    (await owner.ok<{ event_name: string }[]>('GET', `./event-volume${query}`)).map(
      ({ event_name }) => event_name,
    );
  expect(await names('')).toEqual(['23', '1', 'Now']);
  expect(await names('?hours=2')).toEqual(['1', 'Now']);
  expect(await names('?hours=25')).toEqual(['24', '23', '1', 'Now']);
});
