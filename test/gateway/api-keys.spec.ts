import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { type InjectClient, openTestGateway, type TestGateway } from '../helpers/gateway.ts';

let test: TestGateway;
let owner: InjectClient;
beforeAll(async () => {
  test = await openTestGateway();
  owner = await test.openWorkspace();
});
afterAll(() => test.close());

interface Key {
  readonly id: string;
  readonly key: string;
  readonly last_used_at: string | null;
}

it('shows the raw key once', async () => {
  const created = await owner.call<Key>('POST', './api-keys', { name: 'Server' });
  expect(created.status).toBe(201);
  expect(created.body).toEqual({
    id: expect.any(String),
    workspace_id: owner.workspaceId,
    name: 'Server',
    key: expect.stringMatching(/^trb_api_/),
    key_prefix: created.body.key.slice(0, 14),
    role: 'editor',
    status: 'active',
    last_used_at: null,
    created_by: expect.any(String),
    created_at: expect.any(String),
    updated_at: expect.any(String),
  });
  const listed = (await owner.ok<Key[]>('GET', './api-keys')).find(({ id }) => id === created.body.id);
  const { key, ...shown } = created.body;
  expect(listed).toEqual(shown);
  const stored = test.dependencies.catalog.state.entity(
    'api_key',
    String(owner.workspaceId),
    created.body.id,
  );
  expect(JSON.stringify(stored)).not.toContain(key);
});

it('revokes for good: 401 at once, and the same answer the second time', async () => {
  const { id, key } = await owner.ok<Key>('POST', './api-keys', { name: 'Short-lived', role: 'viewer' });
  const holder = owner.with({ token: key });
  expect((await holder.call('GET', './event-keys')).status).toBe(200);
  const revoked = { status: 200, body: { id, status: 'revoked' } };
  expect(await owner.call('DELETE', `./api-keys/${id}`)).toMatchObject(revoked);
  expect(await holder.call('GET', './event-keys')).toMatchObject({
    status: 401,
    body: { error: 'not authenticated' },
  });
  expect(await owner.call('DELETE', `./api-keys/${id.toUpperCase()}`)).toMatchObject(revoked);
  const listed = (await owner.ok<(Key & { status: string })[]>('GET', './api-keys')).find(
    (shown) => shown.id === id,
  );
  expect(listed?.status).toBe('revoked');
});

it('is 404 for a key that is unknown, malformed or another workspace’s', async () => {
  const other = await test.openWorkspace('other@example.com');
  const theirs = await other.ok<Key>('POST', './api-keys', { name: 'Theirs' });
  for (const id of [randomUUID(), 'no-id', theirs.id])
    expect(await owner.call('DELETE', `./api-keys/${id}`)).toMatchObject({
      status: 404,
      body: { error: 'not found' },
    });
  expect((await other.with({ token: theirs.key }).call('GET', './event-keys')).status).toBe(200);
});

it('notes when a key was used, at most once a minute', async () => {
  const { id, key } = await owner.ok<Key>('POST', './api-keys', { name: 'Used', role: 'admin' });
  const holder = owner.with({ token: key });
  const touch = vi.spyOn(test.dependencies.counters, 'touch');
  await holder.ok('GET', './event-keys');
  await holder.ok('GET', './event-keys');
  expect(touch.mock.calls.filter(([use]) => use.keyId === id)).toHaveLength(1);
  test.clock.pass(60_000);
  await holder.ok('GET', './event-keys');
  expect(touch.mock.calls.filter(([use]) => use.keyId === id)).toHaveLength(2);
  touch.mockRestore();
  const listed = (await owner.ok<Key[]>('GET', './api-keys')).find((shown) => shown.id === id);
  expect(Math.abs(Date.parse(String(listed?.last_used_at)) - test.clock.now())).toBeLessThan(30_000);
});

it.each([
  [{}, '/name'],
  [{ name: 'x', role: 'owner' }, '/role'],
  [{ name: 'x', key: 'trb_api_mine' }, '/key'],
])('refuses %j', async (body, path) => {
  expect(await owner.call('POST', './api-keys', body)).toMatchObject({
    status: 400,
    body: { error: 'invalid request', details: [{ path }] },
  });
});

it('takes null for the role', async () => {
  expect(await owner.call('POST', './api-keys', { name: 'Null', role: null })).toMatchObject({
    status: 201,
    body: { role: 'editor' },
  });
});

it('is for admins alone', async () => {
  const editor = await owner.withApiKey('editor');
  expect((await editor.call('GET', './api-keys')).status).toBe(403);
  expect((await editor.call('POST', './api-keys', { name: 'More', role: 'admin' })).status).toBe(403);
  const admin = await owner.withApiKey('admin');
  expect((await admin.call('POST', './api-keys', { name: 'More' })).status).toBe(201);
});
