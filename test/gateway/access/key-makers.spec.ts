import { gateway } from '@tributary/gateway';
import { createServer } from '@tributary/gateway/server';
import { openLogCatalog } from '@tributary/infra';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Client } from '../../helpers/client.ts';
import { inProcess, refusedFor } from '../../helpers/gateway.ts';
import { makeClientKey, PROFILE_CALLS, ProfileClient, sendInto } from '../../helpers/profile-client.ts';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway();
let people = 0;

interface Named {
  readonly id: string;
  readonly type: string;
  readonly status: string;
}

const DENIED = { status: 403, body: { error: 'permission denied' } };
const NOT_KNOWN = { status: 401, body: { error: 'not authenticated' } };
const newAddress = () => `maker-${++people}@example.com`;

/** A new organization with a workspace, its owner, and the paths of its members. */
async function open() {
  const owner = await test.openWorkspace(newAddress());
  const { organization_id: organizationId } = await owner.ok<{ organization_id: string }>(
    'GET',
    `/workspaces/${owner.workspaceId}`,
  );
  const { org_id: orgId } = await owner.ok<{ org_id: number }>('GET', `/organizations/${organizationId}`);
  const inOrganization = `/organizations/${organizationId}/members`;
  const inWorkspace = `/workspaces/${owner.workspaceId}/members`;
  const join = async (place: string, role: string) => {
    const email = newAddress();
    const { id } = await owner.ok<{ id: string }>('POST', place, { email, role });
    const client = (await test.signIn(email)).with({ workspaceId: String(owner.workspaceId) });
    await client.ok('GET', '/workspaces');
    return { client, path: `${place}/${id}` };
  };
  return { owner, organizationId, orgId, inOrganization, inWorkspace, join };
}

type Opened = Awaited<ReturnType<typeof open>>;

/** A key of every kind, created by an admin of the organization. */
async function makeKeys({ organizationId, orgId }: Opened, maker: Client) {
  const body = { name: 'stays', role: 'admin' };
  const api = await maker.ok<{ id: string; key: string }>('POST', './api-keys', body);
  const site = { name: 'site', environment: 'production' };
  const write = await maker.ok<{ id: string; key: string }>('POST', './event-keys', site);
  const client = await makeClientKey(maker, organizationId, ['profile.read']);
  const reader = new ProfileClient(sendInto(test.app), orgId, {}).withKey(client.key, 'profile.read');
  return { api, write, client, server: maker.with({ token: api.key }), reader };
}

describe('a removed admin', () => {
  it('loses access by keys created before, and the response to the removal lists each of them', async () => {
    const place = await open();
    const { client, path } = await place.join(place.inOrganization, 'admin');
    const { api, write, client: clientKey, server, reader } = await makeKeys(place, client);
    expect((await server.call('GET', './api-keys')).status).toBe(200);
    expect((await reader.call(...PROFILE_CALLS['profile.read'])).status).toBe(200);
    const gone = await place.owner.call<{ keys: readonly Named[] }>('DELETE', path);
    expect(gone).toMatchObject({ status: 200, body: { status: 'deleted' } });
    expect(gone.body.keys.map(({ id, type, status }) => [type, id, status])).toEqual([
      ['api_key', api.id, 'revoked'],
      ['write_key', write.id, 'active'],
      ['client_key', clientKey.id, 'revoked'],
    ]);
    expect(await server.call('GET', './api-keys')).toMatchObject(NOT_KNOWN);
    expect(await reader.call(...PROFILE_CALLS['profile.read'])).toMatchObject(NOT_KNOWN);
    const again = await place.owner.call('DELETE', path);
    expect(again).toMatchObject({ status: 200, body: { status: 'deleted', keys: [] } });
  });

  it('loses access by a key that was created with a key of theirs', async () => {
    const place = await open();
    const { client: admin, path } = await place.join(place.inOrganization, 'admin');
    const maker = { name: 'maker', role: 'admin', may_manage: ['keys'] };
    const first = await admin.ok<{ key: string }>('POST', './api-keys', maker);
    const second = await admin
      .with({ token: first.key })
      .ok<{ key: string }>('POST', './api-keys', { name: 'second', role: 'admin' });
    await place.owner.ok('DELETE', path);
    for (const { key } of [first, second])
      expect(await admin.with({ token: key }).call('GET', './sources')).toMatchObject(NOT_KNOWN);
  });

  it('keeps keys only if another person decides it: not by leaving, not by an API key', async () => {
    const place = await open();
    const { client, path } = await place.join(place.inWorkspace, 'admin');
    const { key } = await client.ok<{ key: string }>('POST', './api-keys', { name: 'k', role: 'admin' });
    const members = { name: 'm', role: 'admin', may_manage: ['members'] };
    const manager = await place.owner.ok<{ key: string }>('POST', './api-keys', members);
    expect(await client.call('DELETE', `${path}?keys=keep`)).toMatchObject(DENIED);
    expect(await client.call('PUT', path, { role: 'viewer', keys: 'keep' })).toMatchObject(DENIED);
    const byKey = place.owner.with({ token: manager.key });
    expect(await byKey.call('DELETE', `${path}?keys=keep`)).toMatchObject(DENIED);
    expect(await place.owner.call('DELETE', `${path}?keys=forget`)).toMatchObject({ status: 400 });
    const kept = await place.owner.call<{ keys: readonly Named[] }>('DELETE', `${path}?keys=keep`);
    expect(kept.body.keys).toMatchObject([{ type: 'api_key', status: 'active' }]);
    expect((await client.with({ token: key }).call('GET', './api-keys')).status).toBe(200);
    const listed = await place.owner.ok<readonly object[]>('GET', './api-keys');
    expect(listed[1]).toMatchObject({ status: 'active', created_by_role: null });
  });

  it('loses the keys when leaving the workspace', async () => {
    const place = await open();
    const { client, path } = await place.join(place.inWorkspace, 'admin');
    const { key } = await client.ok<{ key: string }>('POST', './api-keys', { name: 'k', role: 'editor' });
    await client.ok('DELETE', path);
    expect(await client.with({ token: key }).call('GET', './sources')).toMatchObject(NOT_KNOWN);
  });

  it('creates no key through a gateway that has not yet read the removal', async () => {
    const place = await open();
    const { client, path } = await place.join(place.inOrganization, 'admin');
    const { log } = test.dependencies;
    const catalog = openLogCatalog({ log, logger: test.dependencies.logger });
    onTestFinished(() => catalog.close());
    await catalog.catchUp(5_000);
    // The other gateway authorizes by its state before the removal, but keeps folding.
    const before = Object.create(catalog.state, {});
    const frozen = { organizationRole: () => 'admin', workspaceRole: () => 'admin' };
    const late = createServer();
    await late.register(gateway, {
      ...test.dependencies,
      catalog: new Proxy(catalog, {
        get: (target, name) => {
          if (name !== 'state') {
            const value = Reflect.get(target, name, target) as unknown;
            return typeof value === 'function' ? value.bind(target) : value;
          }
          return new Proxy(before, {
            get: (_, called) => {
              if (called in frozen) return frozen[called as keyof typeof frozen];
              const value = Reflect.get(target.state, called, target.state) as unknown;
              return typeof value === 'function' ? value.bind(target.state) : value;
            },
          });
        },
      }),
    });
    onTestFinished(() => late.close());
    const behind = new Client(inProcess(late), client.token, String(place.owner.workspaceId));
    expect((await behind.call('POST', './api-keys', { name: 'early', role: 'admin' })).status).toBe(201);
    await place.owner.ok('DELETE', path);
    expect(await behind.call('POST', './api-keys', { name: 'late', role: 'admin' })).toMatchObject({
      status: 409,
    });
    const clientKeys = `/organizations/${place.organizationId}/client-keys`;
    expect(await behind.call('POST', clientKeys, { name: 'late', scopes: ['profile.read'] })).toMatchObject({
      status: 409,
    });
    const listed = await place.owner.ok<readonly Named[]>('GET', './api-keys');
    expect(listed.map(({ status }) => status)).toEqual(['revoked']);
  });
});

describe('a demoted admin', () => {
  it('loses the API keys that outrank the new role, and keeps those that it covers', async () => {
    const place = await open();
    const { client, path } = await place.join(place.inWorkspace, 'admin');
    const keys = await Promise.all(
      ['admin', 'editor', 'viewer'].map((role) =>
        client.ok<{ key: string }>('POST', './api-keys', { name: role, role }),
      ),
    );
    const answer = await place.owner.call<{ keys: readonly Named[] }>('PUT', path, { role: 'editor' });
    expect(answer).toMatchObject({ status: 200, body: { role: 'editor' } });
    expect(answer.body.keys.map(({ status }) => status).toSorted()).toEqual(['active', 'active', 'revoked']);
    const statuses = keys.map(
      async ({ key }) => (await client.with({ token: key }).call('GET', './sources')).status,
    );
    expect(await Promise.all(statuses)).toEqual([401, 200, 200]);
  });

  it('loses the client keys and API keys of an organization, unless the caller keeps them', async () => {
    const place = await open();
    const { client, path } = await place.join(place.inOrganization, 'admin');
    const { server, reader } = await makeKeys(place, client);
    await place.owner.ok('PUT', path, { role: 'member', keys: 'keep' });
    expect((await server.call('GET', './sources')).status).toBe(200);
    await place.owner.ok('PUT', path, { role: 'admin' });
    await place.owner.ok('PUT', path, { role: 'member' });
    expect(await server.call('GET', './sources')).toMatchObject(NOT_KNOWN);
    expect(await reader.call(...PROFILE_CALLS['profile.read'])).toMatchObject(NOT_KNOWN);
  });
});

describe('an API key with the role admin', () => {
  const calls = ({ inWorkspace }: Opened, member: string) =>
    [
      ['keys', 'POST', './api-keys', { name: 'more', role: 'viewer' }],
      ['members', 'POST', inWorkspace, { email: newAddress(), role: 'viewer' }],
      ['members', 'PUT', member, { role: 'editor' }],
      ['members', 'DELETE', member, undefined],
    ] as const;

  it('creates no keys and changes no members', async () => {
    const place = await open();
    const { path } = await place.join(place.inWorkspace, 'viewer');
    const server = await place.owner.withApiKey('admin');
    for (const [, method, at, body] of calls(place, path))
      expect(await server.call(method, at, body)).toMatchObject(DENIED);
    for (const at of [place.inOrganization, `/organizations/${place.organizationId}/client-keys`])
      expect(await server.call('GET', at)).toMatchObject(DENIED);
    const site = { name: 'site', environment: 'production' };
    expect((await server.call('POST', './event-keys', site)).status).toBe(201);
    expect((await place.owner.ok<readonly object[]>('GET', './api-keys')).length).toBe(1);
  });

  it.each(['keys', 'members'] as const)(
    'has only the grant to manage %s if it was created with it',
    async (grant) => {
      const place = await open();
      const { path } = await place.join(place.inWorkspace, 'viewer');
      const body = { name: 'granted', role: 'admin', may_manage: [grant] };
      const made = await place.owner.call<{ key: string }>('POST', './api-keys', body);
      expect(made).toMatchObject({ status: 201, body: { may_manage: [grant] } });
      const server = place.owner.with({ token: made.body.key });
      for (const [needed, method, at, fields] of calls(place, path)) {
        const { status } = await server.call(method, at, fields);
        expect(status < 300, `${method} ${at}`).toBe(needed === grant);
      }
      const handsOn = { name: 'x', role: 'admin', may_manage: [grant] };
      expect(await server.call('POST', './api-keys', handsOn)).toMatchObject(DENIED);
      const [listed] = (await place.owner.ok<readonly object[]>('GET', './api-keys')).slice(-1);
      expect(listed).toMatchObject({ name: 'granted', may_manage: [grant] });
    },
  );

  it('gets these grants only from admins of the organization, and only with the role admin', async () => {
    const place = await open();
    const { client: guest } = await place.join(place.inWorkspace, 'admin');
    const body = { name: 'x', role: 'admin', may_manage: ['members', 'keys'] };
    expect(await guest.call('POST', './api-keys', body)).toMatchObject(DENIED);
    expect((await guest.call('POST', './api-keys', { ...body, may_manage: [] })).status).toBe(201);
    expect(await place.owner.call('POST', './api-keys', { ...body, role: 'editor' })).toMatchObject(
      refusedFor('/may_manage'),
    );
    for (const may_manage of [['organization'], ['keys', 'keys'], 'keys', [null]])
      expect((await place.owner.call('POST', './api-keys', { ...body, may_manage })).status).toBe(400);
    const { client: admin } = await place.join(place.inOrganization, 'admin');
    expect((await admin.call('POST', './api-keys', body)).status).toBe(201);
  });
});

describe('the region of a workspace', () => {
  /** An organization in three regions. */
  async function abroad() {
    const place = await open();
    const regions = ['eu', 'us', 'ap-south'];
    await place.owner.ok('PUT', `/organizations/${place.organizationId}`, { name: 'O', regions });
    return { ...place, path: `/workspaces/${place.owner.workspaceId}` };
  }

  it('was changed by a guest admin, who then read the customers of another region', async () => {
    const place = await abroad();
    const { client: guest } = await place.join(place.inWorkspace, 'admin');
    const reader = new ProfileClient(sendInto(test.app), place.orgId, {}).withToken(String(guest.token));
    for (const region of ['us', 'ap-south', 'mars', 'EU'])
      for (const name of ['Same', 'Other'])
        expect(await guest.call('PUT', place.path, { name, region })).toMatchObject(DENIED);
    const [path, body] = PROFILE_CALLS['profile.delete'];
    expect((await reader.call(path, { ...body, region: 'ap-south' })).status).toBe(403);
    const renamed = await guest.call('PUT', place.path, { name: 'Renamed', region: 'eu' });
    expect(renamed).toMatchObject({ status: 200, body: { name: 'Renamed', region: 'eu' } });
  });

  it('is changed by no API key, not even one with all grants', async () => {
    const place = await abroad();
    const body = { name: 'k', role: 'admin', may_manage: ['keys', 'members'] };
    const { key } = await place.owner.ok<{ key: string }>('POST', './api-keys', body);
    const server = place.owner.with({ token: key });
    expect(await server.call('PUT', place.path, { name: 'x', region: 'us' })).toMatchObject(DENIED);
    expect((await server.call('PUT', place.path, { name: 'x', region: 'eu' })).status).toBe(200);
  });

  it('is not changed by a member of the organization who is an admin only of the workspace', async () => {
    const place = await abroad();
    const email = newAddress();
    await place.owner.ok('POST', place.inOrganization, { email, role: 'member' });
    await place.owner.ok('POST', place.inWorkspace, { email, role: 'admin' });
    const both = (await test.signIn(email)).with({ workspaceId: String(place.owner.workspaceId) });
    expect(await both.call('PUT', place.path, { name: 'x', region: 'us' })).toMatchObject(DENIED);
    const { client: admin } = await place.join(place.inOrganization, 'admin');
    expect(await admin.call('PUT', place.path, { name: 'x', region: 'us' })).toMatchObject({
      status: 200,
      body: { region: 'us' },
    });
    expect((await admin.call('PUT', place.path, { name: 'x', region: 'mars' })).status).toBe(400);
  });

  it('is replaced without its organization: another organization is refused', async () => {
    const place = await abroad();
    const other = await open();
    const fields = { name: 'x', region: 'eu', organization_id: other.organizationId };
    expect((await place.owner.call('PUT', place.path, fields)).status).toBe(400);
    const intoTheirs = { name: 'x', organization_id: other.organizationId };
    expect(await place.owner.call('POST', '/workspaces', intoTheirs)).toMatchObject(DENIED);
  });
});
