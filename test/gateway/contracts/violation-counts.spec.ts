import { randomUUID } from 'node:crypto';
import { newId } from '@tributary/core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type InjectClient, openTestGateway, type TestGateway } from '../../helpers/gateway.ts';

let test: TestGateway;
let owner: InjectClient;
beforeAll(async () => {
  test = await openTestGateway();
  owner = await test.openWorkspace();
});
afterAll(() => test.close());

const paid = { name: 'Paid', event_type: 'track', event_name: 'Paid', schema_definition: { properties: {} } };
const create = (body: object = paid) => owner.ok<{ id: string }>('POST', './event-contracts', body);

const violation = (contractId: string, at: number, kind: string, action = 'warned') => ({
  kind: 'violation' as const,
  id: newId(),
  workspaceId: String(owner.workspaceId),
  at,
  version: 1,
  facets: {
    contract_id: contractId,
    kind,
    action,
    path: '/amount',
    contract_version: '1',
    environment: 'production',
  },
  body: {
    id: newId(),
    workspace_id: String(owner.workspaceId),
    environment: 'production',
    contract_id: contractId,
    contract_version: 1,
    message_id: `m${at}`,
    event_type: 'track',
    event_name: 'Paid',
    kind,
    path: '/amount',
    message: 'is required',
    action,
    received_at: new Date(at).toISOString(),
  },
});

it('violations are counted of several contracts at once, of those that are named', async () => {
  const [broken, sound] = [await create(), await create({ ...paid, event_name: 'Sound' })];
  const hour = Math.floor(Date.now() / 3_600_000) * 3_600_000;
  await test.dependencies.history.put([
    violation(broken.id, hour, 'required'),
    violation(broken.id, hour - 1, 'type'),
  ]);
  const counts = (query: string) => owner.ok('GET', `./event-contracts/violations/hourly?${query}`);
  const ids = [sound.id, randomUUID(), broken.id.toUpperCase()].join(',');
  expect(await counts(`ids=${ids}`)).toEqual([
    { contract_id: sound.id, total: 0, hourly: [] },
    {
      contract_id: broken.id,
      total: 2,
      hourly: await owner.ok('GET', `./event-contracts/${broken.id}/violations/hourly`),
    },
  ]);
  expect(await counts(`ids=${ids}&hours=1&environment=production`)).toMatchObject([
    { total: 0 },
    { total: 1 },
  ]);
  for (const query of ['', 'ids=', 'ids=x', `ids=${broken.id}&hours=0`])
    expect((await owner.call('GET', `./event-contracts/violations/hourly?${query}`)).status).toBe(400);
  const other = await test.openWorkspace('other@example.com');
  expect(await other.ok('GET', `./event-contracts/violations/hourly?ids=${broken.id}`)).toEqual([]);
});
