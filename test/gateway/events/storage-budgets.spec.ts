import { organizationScope, TOPIC } from '@tributary/core';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import { deadDelivery } from '../../helpers/dead-delivery.ts';
import { suiteGateway } from '../suite-gateway.ts';

const MIB = 2 ** 20;
const EVENT = { event: 'Paid', user_id: 'u' };
const CALL = { event: 'Paid', userId: 'u' };

const test = await suiteGateway({
  env: { TRIBUTARY_WORKSPACE_BYTES_PER_HOUR: '7MiB', TRIBUTARY_WORKSPACE_BYTES_HELD: '11MiB' },
});
let owner: Client;
let writer: Client;
beforeEach(async () => {
  owner = await test.openWorkspace();
  writer = owner.with({ token: await owner.writeKey() });
});

function write(scope: string, written: number, received = 0): void {
  test.dependencies.budgets?.add([{ scope, received, written }]);
}

describe('a workspace over its budget of the hour wrote on until the disk was full', () => {
  beforeEach(() => write(owner.workspaceId ?? '', 7 * MIB + 5));

  it.each([
    ['an event', './events/track', EVENT],
    ['a batch', './events/batch', { batch: [{ type: 'track', ...EVENT }] }],
    ['a call of an SDK', '/v1/track', CALL],
    ['a batch of an SDK', '/v1/batch', { batch: [{ type: 'track', ...CALL }] }],
    ['an import', '/v1/import', { batch: [{ type: 'track', ...CALL }] }],
  ])('%s is refused, with the budget and the figures', async (_, path, body) => {
    const ends = new Map<string, number>();
    const end = async () => test.dependencies.log.end('events.production', 0);
    ends.set('before', await end());
    const { status, headers, body: answer } = await writer.call('POST', path, body);
    expect(status).toBe(429);
    expect(answer).toMatchObject({
      error: 'storage budget exceeded',
      quota: 'bytes_per_hour',
      limit: 7 * MIB,
      used: 7 * MIB + 5,
    });
    expect(Number(headers['retry-after'])).toBeGreaterThan(0);
    expect(Number(headers['retry-after'])).toBeLessThanOrEqual(3_600);
    expect(await end()).toBe(ends.get('before'));
  });

  it('events of other workspaces are accepted', async () => {
    const other = await test.openWorkspace('other@example.com');
    const theirs = other.with({ token: await other.writeKey() });
    expect((await theirs.call('POST', './events/track', EVENT)).status).toBe(202);
  });

  it('replays and redrives are refused; reads, discards and removals are not', async () => {
    const destination = await owner.destination();
    const rule = await owner.ok<{ id: string }>('POST', './event-forwarding-rules', {
      name: 'R',
      destination_id: destination.id,
    });
    const about = { workspace_id: owner.workspaceId ?? '', destination_id: destination.id, rule_id: rule.id };
    const entry = deadDelivery(Date.now() - 60_000, {}, about);
    await test.dependencies.history.put([entry]);
    const outcomes = () => test.dependencies.log.end(TOPIC.outcomes, 0);
    const before = await outcomes();
    const since = new Date(Date.now() - 60_000).toISOString();
    for (const [path, body] of [
      ['./replays', { since }],
      ['./deliveries/redrive', undefined],
      [`./deliveries/${entry.id}/redrive`, undefined],
    ] as const)
      expect((await owner.call('POST', path, body)).body, path).toMatchObject({ quota: 'bytes_per_hour' });
    expect(await outcomes()).toBe(before);
    expect((await owner.call('GET', './deliveries')).body).toHaveLength(1);
    expect((await owner.call('POST', './deliveries/discard')).body).toMatchObject({ discarded: 1 });
    expect((await owner.call('DELETE', `./event-forwarding-rules/${rule.id}`)).status).toBe(200);
    expect((await owner.call('DELETE', `/workspaces/${owner.workspaceId}`)).status).toBe(200);
  });

  it('its usage and budgets are shown', async () => {
    expect((await owner.call('GET', './storage')).body).toMatchObject({
      state: 'refuse',
      over: 'bytes_per_hour',
      received: 0,
      bytes_per_hour: { used: 7 * MIB + 5, limit: 7 * MIB },
      bytes_held: { limit: 11 * MIB },
    });
  });
});

it('a workspace over the bytes that the log keeps is told of that budget', async () => {
  write(owner.workspaceId ?? '', 0, 12 * MIB);
  const { status, body } = await writer.call('POST', './events/track', EVENT);
  expect([status, body]).toMatchObject([429, { quota: 'bytes_held', limit: 11 * MIB, used: 12 * MIB }]);
});

it('received events count for what the log keeps, and not for what stages write', async () => {
  const at = async () => (await owner.call('GET', './storage')).body;
  expect(await at()).toMatchObject({ state: 'ok', over: null, received: 0 });
  await writer.ok('POST', './events/track', { ...EVENT, properties: { text: 'x'.repeat(5_000) } });
  const { received, bytes_per_hour, bytes_held } = (await at()) as Record<string, never>;
  expect(received).toBeGreaterThan(5_000);
  expect(bytes_per_hour).toMatchObject({ used: 0 });
  expect(bytes_held).toMatchObject({ used: received });
});

it('an operator gives a workspace another budget, by a fact of the catalog', async () => {
  write(owner.workspaceId ?? '', 8 * MIB);
  expect((await writer.call('POST', './events/track', EVENT)).status).toBe(429);
  const { catalog } = test.dependencies;
  const { name, region, version } = catalog.state.workspace(owner.workspaceId ?? '') ?? {
    name: '',
    region: '',
  };
  await catalog.propose({
    v: 1,
    type: 'workspace.updated',
    entity: owner.workspaceId ?? '',
    ...(version === undefined ? {} : { expected_version: version }),
    data: { name, region, storage: { bytes_per_hour: null } },
    by: 'operator:admin',
    from: { address: '', request_id: '' },
    at: new Date().toISOString(),
  });
  expect((await writer.call('POST', './events/track', EVENT)).status).toBe(202);
  expect((await owner.call('GET', './storage')).body).toMatchObject({ bytes_per_hour: { limit: null } });
  // A change by its owner keeps it.
  expect((await owner.call('PUT', `/workspaces/${owner.workspaceId}`, { name: 'New', region })).status).toBe(
    200,
  );
  expect(catalog.state.workspace(owner.workspaceId ?? '')?.storage).toEqual({ bytes_per_hour: null });
});

it('profile writes of an organization over its budget are refused, and so are events of its workspaces', async () => {
  const workspace = await owner.ok<{ org_id: number }>('GET', `/workspaces/${owner.workspaceId}`);
  write(organizationScope(workspace.org_id), 7 * MIB);
  const call = { orgId: workspace.org_id, region: 'eu', ids: { user_id: 'a' }, upsert: {} };
  const scopes = { scopes: 'profile.write', orgId: String(workspace.org_id) };
  const written = await owner.call('POST', '/cdp/v1/users', call, scopes);
  expect([written.status, written.body]).toMatchObject([429, { quota: 'bytes_per_hour' }]);
  expect((await writer.call('POST', './events/track', EVENT)).status).toBe(429);
});
