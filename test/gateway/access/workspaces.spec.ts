import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { refusedFor } from '../../helpers/gateway.ts';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway();

interface Workspace {
  readonly id: string;
  readonly name: string;
  readonly organization_id: string;
  readonly org_id: number;
}

it('a workspace is created in a new organization, with the caller as its admin', async () => {
  const ann = await test.signIn('ann@example.com');
  const created = await ann.call<Workspace>('POST', '/workspaces', { name: 'Shop' });
  expect(created.status).toBe(201);
  expect(created.headers.etag).toBe('"1"');
  expect(created.body).toEqual({
    id: expect.any(String),
    name: 'Shop',
    organization_id: expect.any(String),
    org_id: expect.any(Number),
    region: 'eu',
    status: 'active',
    alerts: null,
    alerts_email_status: null,
    role: 'admin',
    created_at: expect.stringMatching(/Z$/),
    updated_at: expect.stringMatching(/Z$/),
  });
  const read = await ann.with({ workspaceId: created.body.id }).call('GET', `/workspaces/${created.body.id}`);
  expect(read).toMatchObject({ status: 200, body: created.body });
  expect(read.headers.etag).toBe('"1"');
});

it('a workspace is added only to an organization of the caller', async () => {
  const bea = await test.signIn('bea@example.com');
  const first = await bea.ok<Workspace>('POST', '/workspaces', { name: 'One' });
  const inside = { name: 'Two', organization_id: first.organization_id };
  expect(await bea.call('POST', '/workspaces', inside)).toMatchObject({
    status: 201,
    body: { organization_id: first.organization_id },
  });
  expect((await bea.call('POST', '/workspaces', { ...inside, organization_id: randomUUID() })).status).toBe(
    403,
  );
});

it('a guest gets the organization number that the profile API requires, without access to the organization', async () => {
  const owner = await test.openWorkspace('host@example.com');
  const guest = await test.signIn('guest@example.com');
  await owner.ok('POST', './members', { email: 'guest@example.com', role: 'viewer' });
  const { organization_id, org_id } = await guest
    .with({ workspaceId: String(owner.workspaceId) })
    .ok<Workspace>('GET', `/workspaces/${owner.workspaceId}`);
  expect((await guest.call('GET', `/organizations/${organization_id}`)).status).toBe(403);
  const search = { orgId: org_id, regions: ['eu'], search: { email: ['ada@example.com'] } };
  const headers = { scopes: 'profile.read', orgId: String(org_id) };
  expect((await guest.call('POST', '/cdp/v1/users/_search', search, headers)).status).toBe(200);
});

describe('a workspace', () => {
  it('is renamed and moved between the regions of its organization', async () => {
    const ann = await test.signIn('ann@example.com');
    const organization = await ann.ok<{ id: string }>('POST', '/organizations', {
      name: 'Org',
      regions: ['eu', 'us'],
    });
    const { id } = await ann.ok<Workspace>('POST', '/workspaces', {
      name: 'Shop',
      organization_id: organization.id,
    });
    const inside = ann.with({ workspaceId: id });
    const fields = { name: 'Moved', region: 'us' };
    const changed = await inside.call('PUT', `/workspaces/${id}`, fields, { 'if-match': '"1"' });
    expect(changed).toMatchObject({
      status: 200,
      body: { ...fields, role: 'admin' },
      headers: { etag: '"2"' },
    });
    expect((await inside.call('PUT', `/workspaces/${id}`, fields, { 'if-match': '"1"' })).status).toBe(412);
    expect((await inside.call('PUT', `/workspaces/${id}`, fields)).headers.etag).toBe('"2"');
    const astray = await inside.call('PUT', `/workspaces/${id}`, { name: 'x', region: 'mars' });
    expect(astray).toMatchObject({
      status: 400,
      body: { details: [{ path: '/region', message: 'must be one of eu, us' }] },
    });
    expect((await inside.call('PUT', `/workspaces/${id}`, { name: 'x' })).status).toBe(400);
  });

  it('that is archived accepts no calls, except reading and archiving by its admins', async () => {
    const owner = await test.openWorkspace('archivist@example.com');
    const path = `/workspaces/${owner.workspaceId}`;
    const server = await owner.withApiKey('admin');
    const key = await owner.writeKey();
    const site = owner.with({ token: key });
    const event = { event: 'E', user_id: 'u' };
    expect((await site.call('POST', './events/track', event)).status).toBe(202);
    expect((await owner.call('DELETE', path, undefined, { 'if-match': '"7"' })).status).toBe(412);
    for (let time = 0; time < 2; time++)
      expect(await owner.call('DELETE', path)).toMatchObject({
        status: 200,
        body: { id: owner.workspaceId, status: 'archived' },
      });
    const denied = { status: 403, body: { error: 'permission denied' } };
    expect(await site.call('POST', './events/track', event)).toMatchObject(denied);
    expect(await server.call('GET', path)).toMatchObject(denied);
    expect(await server.call('GET', './event-contracts')).toMatchObject(denied);
    expect(await owner.call('GET', './event-contracts')).toMatchObject(denied);
    expect(await owner.call('PUT', path, { name: 'x', region: 'eu' })).toMatchObject(denied);
    expect(await owner.ok('GET', path)).toMatchObject({ status: 'archived', role: 'admin' });
    const stranger = await test.signIn('stranger@example.com');
    expect((await stranger.with({ workspaceId: String(owner.workspaceId) }).call('GET', path)).status).toBe(
      403,
    );
    const listed = await owner.ok<Workspace[]>('GET', '/workspaces');
    expect(listed.map(({ id }) => id)).not.toContain(owner.workspaceId);
    expect(await owner.ok('GET', '/workspaces?status=archived')).toMatchObject([{ id: owner.workspaceId }]);
  });
});

it('a workspace keeps the receivers of notices for destinations without their own until a PUT omits them', async () => {
  const owner = await test.openWorkspace('dan@example.com');
  const path = `/workspaces/${owner.workspaceId}`;
  const { id } = await owner.destination();
  const shop = { name: 'Shop', region: 'eu' };
  const alerts = { destination_id: id, email: 'Ops@example.com' };
  const stored = { enabled: true, destination_id: id, email: 'ops@example.com' };
  expect(await owner.ok('PUT', path, { ...shop, alerts })).toMatchObject({ ...shop, alerts: stored });
  expect(await owner.ok('GET', path)).toMatchObject({ alerts: stored });
  const unchanged = await owner.call('PUT', path, { ...shop, alerts: stored });
  expect(unchanged.headers.etag).toBe('"2"');
  expect(await owner.ok('PUT', path, shop)).toMatchObject({ alerts: null });
  const missing = await owner.call('PUT', path, { ...shop, alerts: { destination_id: randomUUID() } });
  expect(missing).toMatchObject(refusedFor('/alerts/destination_id'));
});
