import { join } from 'node:path';
import { type HealthSample, Unavailable } from '@tributary/core';
import { openSqliteHealthBoard } from '@tributary/infra';
import { beforeEach, expect, it } from 'vitest';
import { Client } from '../../helpers/client.ts';
import { inProcess, openTestGateway } from '../../helpers/gateway.ts';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway();
let owner: Client;
beforeEach(async () => {
  owner = await test.openWorkspace();
});

const webhook = { name: 'Hook', type: 'webhook', settings: { url: 'https://hooks.example.com/in' } };
const create = () => owner.ok<{ id: string }>('POST', './destinations', webhook);

it('reports the state of all of them at once, a page at a time', async () => {
  const [one, other] = [await create(), await create()];
  const all = await owner.ok<{ id: string }[]>('GET', './destinations/health');
  expect(all.map(({ id }) => id)).toEqual([other.id, one.id]);
  expect(all[0]).toEqual(await owner.ok('GET', `./destinations/${other.id}/health`));
  const some = await owner.call<{ id: string }[]>('GET', `./destinations/health?ids=${one.id}&count=true`);
  expect([some.body.map(({ id }) => id), some.headers['x-total-count']]).toEqual([[one.id], '1']);
});

it('is shown without the retrying deliveries while history does not answer', async () => {
  const { id } = await create();
  const { history } = test.dependencies;
  const down: typeof history = Object.assign(Object.create(history), {
    groups: () => Promise.reject(new Unavailable('down')),
  });
  const told = await openTestGateway({ folder: test.folder, dependencies: { history: down } });
  const asking = new Client(inProcess(told.app), owner.token, owner.workspaceId);
  const shown = { state: 'no_traffic', retrying: null };
  expect(await asking.ok('GET', `./destinations/${id}/health`)).toMatchObject(shown);
  expect(await asking.ok('GET', './destinations/health?state=no_traffic')).toMatchObject([shown]);
  await told.close();
});

it('reports its history: by the minute for some hours, else by the hour', async () => {
  const { id } = await create();
  const now = test.clock.now();
  const minute = Math.floor(now / 60_000) * 60_000 - 120_000;
  const sample = (at: number, delivered: number): HealthSample => ({
    workspace_id: String(owner.workspaceId),
    destination_id: id,
    at,
    delivered,
    retry: 1,
    dead: 0,
    put_off: 0,
    latency: [
      [10, delivered],
      [20, 1],
    ],
    waiting: 5,
    oldest_waiting_ms: 700,
    circuit: 'open',
  });
  const board = openSqliteHealthBoard({ folder: join(test.folder, 'health'), clock: Date.now });
  await board.record([sample(minute, 3), sample(minute + 60_000, 99)]);
  await board.close();
  const history = (hours: number) => owner.ok('GET', `./destinations/${id}/health/history?hours=${hours}`);
  expect(await history(1)).toMatchObject({
    id,
    bucket: 'minute',
    buckets: [
      { at: new Date(minute).toISOString(), delivered: 3, retried: 1, success_rate: 0.75, circuit: 'open' },
      { delivered: 99, success_rate: 0.99, waiting: 5, oldest_waiting_ms: 700, p50_ms: 8, p99_ms: 8 },
    ],
  });
  const byHour = await history(48);
  expect(byHour).toMatchObject({ bucket: 'hour' });
  const { buckets } = byHour as { buckets: readonly { delivered: number }[] };
  expect(buckets.reduce((sum, { delivered }) => sum + delivered, 0)).toBe(102);
  const quiet = await create();
  expect(await owner.ok('GET', `./destinations/${quiet.id}/health/history`)).toMatchObject({ buckets: [] });
});
