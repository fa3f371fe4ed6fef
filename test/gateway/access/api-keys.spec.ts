import { randomBytes, randomUUID } from 'node:crypto';
import { makeKey, Unavailable } from '@tributary/core';
import { expect, it, vi } from 'vitest';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway();
const owner = await test.openWorkspace();

interface Key {
  readonly id: string;
  readonly key: string;
  readonly last_used_at: string | null;
}

it('the last use of a key is recorded also when its call was not permitted', async () => {
  const { id, key } = await owner.ok<Key>('POST', './api-keys', { name: 'Curious', role: 'viewer' });
  expect((await owner.with({ token: key }).call('GET', './api-keys')).status).toBe(403);
  const listed = (await owner.ok<Key[]>('GET', './api-keys')).find((shown) => shown.id === id);
  expect(listed?.last_used_at).not.toBeNull();
});

it('an expired key is refused like a revoked one, and listed as expired', async () => {
  const expires_at = new Date(test.clock.now() + 3_600_000).toISOString();
  const { id, key } = await owner.ok<Key>('POST', './api-keys', { name: 'For an hour', expires_at });
  const holder = owner.with({ token: key });
  expect((await holder.call('GET', './event-contracts')).status).toBe(200);
  test.clock.pass(3_600_000);
  expect(await holder.call('GET', './event-contracts')).toMatchObject({
    status: 401,
    body: { error: 'not authenticated' },
  });
  const listed = (await owner.ok<Key[]>('GET', './api-keys')).find((shown) => shown.id === id);
  expect(listed).toMatchObject({ status: 'expired', expires_at });
  expect((await owner.call('DELETE', `./api-keys/${id}`)).body).toEqual({ id, status: 'revoked' });
});

it('a key stored before keys could expire does not expire', async () => {
  const { id, key } = await owner.ok<Key>('POST', './api-keys', { name: 'Old' });
  const { state } = test.dependencies.catalog;
  const made = state.entity('api_key', String(owner.workspaceId), id);
  if (made === undefined) throw new Error('no key');
  const { version, created_at, updated_at, expires_at, ...data } = made;
  const raw = makeKey('api_key', randomBytes(32));
  const old = { ...data, id: randomUUID(), hash: raw.hash };
  const from = { address: '', request_id: '' };
  await test.dependencies.catalog.propose({
    ...{ v: 1, type: 'api_key.created', entity: old.id, by: data.created_by, from, at: created_at },
    data: old,
  });
  expect((await owner.with({ token: raw.raw }).call('GET', './event-contracts')).status).toBe(200);
  expect((await owner.with({ token: key }).call('GET', './event-contracts')).status).toBe(200);
  const listed = (await owner.ok<Key[]>('GET', './api-keys')).find((shown) => shown.id === old.id);
  expect(listed).toMatchObject({ expires_at: null });
});

it('keys are listed while the engine with their last use is down, and the response names the unknown field', async () => {
  const { id } = await owner.ok<Key>('POST', './api-keys', { name: 'Leaked' });
  const lastUsed = vi
    .spyOn(test.dependencies.counters, 'lastUsed')
    .mockRejectedValue(new Unavailable('down'));
  for (const list of ['./api-keys', './event-keys']) {
    const answer = await owner.call<Key[]>('GET', list);
    expect(answer.status).toBe(200);
    expect(answer.headers['x-unknown-fields']).toBe('last_used_at');
    if (list === './api-keys')
      expect(answer.body.find((key) => key.id === id)).toMatchObject({ last_used_at: null });
  }
  lastUsed.mockRestore();
  const answer = await owner.call('GET', './api-keys');
  expect(answer.headers).not.toHaveProperty('x-unknown-fields');
});
