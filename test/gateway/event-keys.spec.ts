import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { DEDICATED_TOPIC, type InjectClient, openTestGateway, type TestGateway } from '../helpers/gateway.ts';

let test: TestGateway;
let owner: InjectClient;
beforeAll(async () => {
  test = await openTestGateway();
  owner = await test.openWorkspace();
});
afterAll(() => test.close());

interface WriteKey {
  readonly id: string;
  readonly key: string;
  readonly last_used_at: string | null;
}

it.each([
  ['production', /^trb_wk_prod_/],
  ['development', /^trb_wk_dev_/],
] as const)('makes a key for %s and shows it once', async (environment, form) => {
  const created = await owner.call<WriteKey>('POST', './event-keys', { name: 'Web', environment });
  expect(created.status).toBe(201);
  const { key, ...shown } = created.body;
  expect(key).toMatch(form);
  expect(shown).toEqual({
    id: expect.any(String),
    workspace_id: owner.workspaceId,
    name: 'Web',
    key_prefix: key.slice(0, key.lastIndexOf('_') + 7),
    environment,
    pubsub_topic: `events.${environment}`,
    source_id: null,
    status: 'active',
    last_used_at: null,
    created_by: expect.any(String),
    created_at: expect.any(String),
    updated_at: expect.any(String),
  });
  expect((await owner.ok<WriteKey[]>('GET', './event-keys'))[0]).toEqual(shown);
});

it('writes to a dedicated topic where the operator declared it', async () => {
  const body = { name: 'Big', environment: 'production', pubsub_topic: DEDICATED_TOPIC };
  expect(await owner.call('POST', './event-keys', body)).toMatchObject({
    status: 201,
    body: { pubsub_topic: DEDICATED_TOPIC },
  });
  expect(await owner.call('POST', './event-keys', { ...body, pubsub_topic: null })).toMatchObject({
    status: 201,
    body: { pubsub_topic: 'events.production' },
  });
});

it.each([
  [{ name: 'x' }, '/environment'],
  [{ name: 'x', environment: 'staging' }, '/environment'],
  [{ name: 'x', environment: null }, '/environment'],
  [{ environment: 'production' }, '/name'],
  [{ name: 'x', environment: 'production', pubsub_topic: 'catalog' }, '/pubsub_topic'],
  [{ name: 'x', environment: 'production', pubsub_topic: 'events.development' }, '/pubsub_topic'],
])('refuses %j', async (body, path) => {
  expect(await owner.call('POST', './event-keys', body)).toMatchObject({
    status: 400,
    body: { error: 'invalid request', details: [{ path }] },
  });
});

it('sends events until it is revoked', async () => {
  const { id, key } = await owner.ok<WriteKey>('POST', './event-keys', {
    name: 'Web',
    environment: 'production',
  });
  const producer = owner.with({ token: key });
  const event = { event: 'Clicked', user_id: 'u' };
  expect((await producer.call('POST', './events/track', event)).status).toBe(202);
  const revoked = { status: 200, body: { id, status: 'revoked' } };
  expect(await owner.call('DELETE', `./event-keys/${id}`)).toMatchObject(revoked);
  expect((await producer.call('POST', './events/track', event)).status).toBe(401);
  expect(await owner.call('DELETE', `./event-keys/${id}`)).toMatchObject(revoked);
});

it('shows when its last event came', async () => {
  const { id } = await owner.ok<WriteKey>('POST', './event-keys', { name: 'Web', environment: 'production' });
  const at = test.clock.now();
  await test.dependencies.counters.apply({
    topic: 'events.accepted',
    partition: 0,
    from: 0,
    to: 1,
    increments: [],
    keyUses: [{ keyId: id, at }],
  });
  const listed = (await owner.ok<WriteKey[]>('GET', './event-keys')).find((shown) => shown.id === id);
  expect(listed?.last_used_at).toBe(new Date(at).toISOString());
});

it('is 404 for a key that is unknown or malformed', async () => {
  for (const id of [randomUUID(), 'no-id'])
    expect((await owner.call('DELETE', `./event-keys/${id}`)).status).toBe(404);
});

it('is listed for viewers, made by admins', async () => {
  const editor = await owner.withApiKey('editor');
  expect((await editor.call('GET', './event-keys')).status).toBe(200);
  const body = { name: 'x', environment: 'production' };
  expect((await editor.call('POST', './event-keys', body)).status).toBe(403);
});
