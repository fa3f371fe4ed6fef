import { randomBytes, randomUUID } from 'node:crypto';
import { makeKey } from '@tributary/core';
import { expect, it, vi } from 'vitest';
import { DEDICATED_TOPIC, refusedFor } from '../../helpers/gateway.ts';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway();
const owner = await test.openWorkspace();

interface WriteKey {
  readonly id: string;
  readonly key: string;
  readonly enabled_rules: number;
  readonly last_used_at: string | null;
}

it('a write key writes to a dedicated topic that the operator declared', async () => {
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

it('a write key references only a source of its workspace', async () => {
  const source = await owner.ok<{ id: string }>('POST', './sources', { name: 'Shop', type: 'web' });
  const body = { name: 'Web', environment: 'production' };
  expect(await owner.call('POST', './event-keys', { ...body, source_id: source.id })).toMatchObject({
    status: 201,
    body: { source_id: source.id },
  });
  expect(await owner.call('POST', './event-keys', { ...body, source_id: null })).toMatchObject({
    status: 201,
    body: { source_id: null },
  });
  const other = await test.openWorkspace('other@example.com');
  const theirs = await other.ok<{ id: string }>('POST', './sources', { name: 'Theirs', type: 'web' });
  for (const source_id of [theirs.id, randomUUID(), 'no-id', ''])
    expect(await owner.call('POST', './event-keys', { ...body, source_id })).toMatchObject(
      refusedFor('/source_id'),
    );
});

it('a write key whose topic is no longer declared caused an unexplained 500: it is 503', async () => {
  const made = await owner.ok<WriteKey>('POST', './event-keys', { name: 'Big', environment: 'production' });
  const { catalog } = test.dependencies;
  const stored = catalog.state.entity('write_key', String(owner.workspaceId), made.id);
  if (stored === undefined) throw new Error('no key');
  const { version, created_at, updated_at, ...data } = stored;
  const { raw, hash } = makeKey('write_key', randomBytes(32));
  const id = randomUUID();
  const from = { address: '', request_id: '' };
  await catalog.propose({
    ...{ v: 1, type: 'write_key.created', entity: id, by: data.created_by, from, at: created_at },
    data: { ...data, id, hash, pubsub_topic: 'events.closed-down' },
  });
  const producer = owner.with({ token: raw });
  const event = { event: 'Clicked', user_id: 'u', message_id: 'm-1' };
  const error = vi.spyOn(test.dependencies.logger, 'error');
  for (let time = 0; time < 3; time++) {
    const answer = await producer.call('POST', './events/track', event);
    expect(answer).toMatchObject({ status: 503, body: { error: 'unavailable', message_id: 'm-1' } });
    expect(answer.headers['retry-after']).toBe('1');
  }
  const batch = [{ type: 'track', ...event }, { type: 'nonsense' }];
  expect(await producer.call('POST', './events/batch', { batch })).toMatchObject({
    status: 503,
    body: { error: 'unavailable', message_ids: ['m-1', null] },
  });
  expect(error.mock.calls).toEqual([
    [
      expect.objectContaining({ topic: 'events.closed-down', key_id: id }),
      expect.stringMatching(/TRIBUTARY_TOPICS/),
    ],
  ]);
  error.mockRestore();
});

it('a new write key states how many rules match its environment, which by default are those of production', async () => {
  const client = await test.openWorkspace('rules@example.com');
  const destination = await client.destination();
  const rule = (more: object) =>
    client.ok<{ environments: string[] }>('POST', './event-forwarding-rules', {
      name: 'R',
      destination_id: destination.id,
      ...more,
    });
  const rulesOf = async (environment: string) =>
    (await client.ok<WriteKey>('POST', './event-keys', { name: 'K', environment })).enabled_rules;
  expect((await rule({})).environments).toEqual(['production']);
  await rule({ environments: ['production', 'development'], enabled: false });
  expect([await rulesOf('production'), await rulesOf('development')]).toEqual([1, 0]);
  await rule({ environments: ['development'] });
  expect([await rulesOf('production'), await rulesOf('development')]).toEqual([1, 1]);
  const elsewhere = await owner.ok<WriteKey>('POST', './event-keys', {
    name: 'K',
    environment: 'production',
  });
  expect(elsewhere.enabled_rules).toBe(0);
});
