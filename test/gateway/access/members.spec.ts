import { gateway } from '@tributary/gateway';
import { createServer } from '@tributary/gateway/server';
import { openLogCatalog } from '@tributary/infra';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Client } from '../../helpers/client.ts';
import { inProcess } from '../../helpers/gateway.ts';
import { suiteGateway } from '../suite-gateway.ts';

interface Member {
  readonly id: string;
  readonly account_id: string | null;
  readonly email: string | null;
  readonly role: string;
  readonly status: string;
}

const test = await suiteGateway();
let people = 0;

/** An address used by no other test of this file. */
const newAddress = () => `person-${++people}@example.com`;

/** A new organization with a workspace, and its owner. */
async function open() {
  const owner = await test.openWorkspace(newAddress());
  const workspace = await owner.ok<{ organization_id: string }>('GET', `/workspaces/${owner.workspaceId}`);
  const members = `/organizations/${workspace.organization_id}/members`;
  const guests = `/workspaces/${owner.workspaceId}/members`;
  return { owner, members, guests, organizationId: workspace.organization_id };
}

const add = (client: Client, place: string, email: string, role: string) =>
  client.ok<Member>('POST', place, { email, role });

/** A signed-in person with a role. */
async function join(owner: Client, place: string, role: string) {
  const email = newAddress();
  const member = await add(owner, place, email, role);
  return { client: (await test.signIn(email)).with({ workspaceId: String(owner.workspaceId) }), member };
}

describe.each(['members', 'guests'] as const)('the %s of an organization or a workspace', (kind) => {
  const least = kind === 'members' ? 'member' : 'viewer';

  it('are invited by an address in any spelling, and become members at their first sign-in', async () => {
    const { owner, [kind]: place } = await open();
    const email = newAddress();
    const added = await owner.call<Member>('POST', place, { email: email.toUpperCase(), role: least });
    expect(added).toMatchObject({
      status: 201,
      headers: { etag: '"1"' },
      body: { account_id: null, email, role: least, status: 'pending' },
    });
    const person = (await test.signIn(email)).with({ workspaceId: String(owner.workspaceId) });
    const listed = await person.call<Member[]>('GET', place);
    expect(listed.status).toBe(200);
    expect(listed.body[0]).toMatchObject({ id: added.body.id, email, status: 'active' });
    const read = await owner.call<Member>('GET', `${place}/${added.body.id}`);
    expect(read).toMatchObject({ status: 200, headers: { etag: '"2"' } });
    expect(read.body.account_id).toMatch(/^[0-9a-f-]{36}$/);
  });

  it('are added once, also before their first sign-in', async () => {
    const { owner, [kind]: place } = await open();
    const email = newAddress();
    const { id } = await add(owner, place, email, least);
    const body = { email, role: least };
    const causes = [{ kind: `${kind === 'members' ? 'organization' : 'workspace'}_member`, id }];
    const refused = { status: 409, body: { error: 'conflict', reason: 'taken', causes } };
    expect(await owner.call('POST', place, body)).toMatchObject(refused);
    await (await test.signIn(email)).ok('GET', '/workspaces');
    expect(await owner.call('POST', place, body)).toMatchObject(refused);
  });

  it('change their role at the version that the caller read', async () => {
    const { owner, [kind]: place } = await open();
    const { id } = await add(owner, place, newAddress(), least);
    const path = `${place}/${id}`;
    const changed = await owner.call('PUT', path, { role: 'admin' }, { 'if-match': '"1"' });
    expect(changed).toMatchObject({ status: 200, body: { role: 'admin' }, headers: { etag: '"2"' } });
    expect((await owner.call('PUT', path, { role: least }, { 'if-match': '"1"' })).status).toBe(412);
    expect((await owner.call('PUT', path, { role: 'admin' })).headers.etag).toBe('"2"');
    expect((await owner.call('DELETE', path, undefined, { 'if-match': '"1"' })).status).toBe(412);
  });

  it('lose access when they are removed, and removing them again has the same response', async () => {
    const { owner, [kind]: place } = await open();
    const { client, member } = await join(owner, place, 'admin');
    expect((await client.call('GET', place)).status).toBe(200);
    for (let time = 0; time < 2; time++)
      expect(await owner.call('DELETE', `${place}/${member.id}`)).toMatchObject({
        status: 200,
        body: { id: member.id, status: 'deleted' },
      });
    expect((await client.call('GET', place)).status).toBe(403);
    expect((await owner.call('GET', `${place}/${member.id}`)).status).toBe(404);
    expect((await owner.call('DELETE', `${place}/nonsense`)).status).toBe(404);
  });

  it('can leave with any role, and cannot remove others with the lowest role', async () => {
    const { owner, [kind]: place } = await open();
    const { client, member } = await join(owner, place, least);
    const other = await add(owner, place, newAddress(), least);
    await client.ok('GET', place);
    expect((await client.call('DELETE', `${place}/${other.id}`)).status).toBe(403);
    expect((await client.call('PUT', `${place}/${member.id}`, { role: 'admin' })).status).toBe(403);
    expect((await client.call('DELETE', `${place}/${member.id}`)).status).toBe(200);
    expect((await client.call('GET', place)).status).toBe(403);
  });
});

describe('owners', () => {
  it('are appointed and demoted only by owners', async () => {
    const { owner, members } = await open();
    const { client: admin, member } = await join(owner, members, 'admin');
    const [owning] = (await owner.ok<Member[]>('GET', members)).filter(({ role }) => role === 'owner');
    const denied = { status: 403, body: { error: 'permission denied' } };
    const invitation = { email: newAddress(), role: 'owner' };
    expect(await admin.call('POST', members, invitation)).toMatchObject(denied);
    expect(await admin.call('PUT', `${members}/${member.id}`, { role: 'owner' })).toMatchObject(denied);
    expect(await admin.call('PUT', `${members}/${owning?.id}`, { role: 'admin' })).toMatchObject(denied);
    expect(await admin.call('DELETE', `${members}/${owning?.id}`)).toMatchObject(denied);
    expect((await owner.call('PUT', `${members}/${member.id}`, { role: 'owner' })).status).toBe(200);
    expect((await admin.call('PUT', `${members}/${owning?.id}`, { role: 'admin' })).status).toBe(200);
  });

  it('cannot leave an organization without an owner', async () => {
    const { owner, members } = await open();
    const [owning] = await owner.ok<Member[]>('GET', members);
    const conflict = { status: 409, body: { error: 'conflict', reason: 'last_owner', causes: [] } };
    expect(await owner.call('DELETE', `${members}/${owning?.id}`)).toMatchObject(conflict);
    expect(await owner.call('PUT', `${members}/${owning?.id}`, { role: 'admin' })).toMatchObject(conflict);
    await add(owner, members, newAddress(), 'owner'); // has not signed in
    expect(await owner.call('DELETE', `${members}/${owning?.id}`)).toMatchObject(conflict);
    await join(owner, members, 'owner').then(({ client }) => client.ok('GET', members));
    expect((await owner.call('DELETE', `${members}/${owning?.id}`)).status).toBe(200);
  });
});

it('a plain member of the organization sees only the workspaces they were added to', async () => {
  const { owner, members, guests } = await open();
  const email = newAddress();
  await add(owner, members, email, 'member');
  const person = (await test.signIn(email)).with({ workspaceId: String(owner.workspaceId) });
  expect(await person.ok('GET', '/workspaces')).toEqual([]);
  expect((await person.call('GET', './event-contracts')).status).toBe(403);
  await add(owner, guests, email, 'viewer');
  expect(await person.ok('GET', '/workspaces')).toMatchObject([{ id: owner.workspaceId, role: 'viewer' }]);
  expect((await person.call('GET', './event-contracts')).status).toBe(200);
  expect((await person.call('POST', './event-contracts', {})).status).toBe(403);
});

it('a member who leaves the organization leaves its workspaces', async () => {
  const { owner, members, guests } = await open();
  const email = newAddress();
  const { id } = await add(owner, members, email, 'member');
  await add(owner, guests, email, 'admin');
  const person = (await test.signIn(email)).with({ workspaceId: String(owner.workspaceId) });
  expect((await person.call('GET', './event-contracts')).status).toBe(200);
  await owner.ok('DELETE', `${members}/${id}`);
  expect((await person.call('GET', './event-contracts')).status).toBe(403);
});

describe('two gateways on one log', () => {
  /** A second gateway: its own fold of the same log. */
  async function openSecond() {
    const { log, logger } = test.dependencies;
    const catalog = openLogCatalog({ log, logger });
    const app = createServer();
    await app.register(gateway, { ...test.dependencies, catalog });
    await app.ready();
    await catalog.catchUp(5_000);
    onTestFinished(async () => {
      await app.close();
      await catalog.close();
    });
    return {
      catalog,
      as: (client: Client) => new Client(inProcess(app), client.token, client.workspaceId),
    };
  }

  it('create one membership when both add the same person at the same time', async () => {
    const { owner, members, organizationId } = await open();
    const second = await openSecond();
    for (let time = 0; time < 5; time++) {
      const body = { email: newAddress(), role: 'member' };
      const answers = await Promise.all([
        owner.call('POST', members, body),
        second.as(owner).call('POST', members, body),
      ]);
      expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 409]);
    }
    await second.catalog.catchUp(5_000);
    const lists = [test.dependencies.catalog, second.catalog].map(({ state }) =>
      state.organizationMembers.list(organizationId),
    );
    expect(lists[0]).toHaveLength(6);
    expect(lists[1]).toEqual(lists[0]);
  });

  it('keep one owner when both owners leave at the same time', async () => {
    const second = await openSecond();
    for (let time = 0; time < 5; time++) {
      const { owner, members, organizationId } = await open();
      const { client, member } = await join(owner, members, 'owner');
      await client.ok('GET', members);
      const [, owning] = await owner.ok<Member[]>('GET', members);
      await second.catalog.catchUp(5_000);
      const answers = await Promise.all([
        owner.call('DELETE', `${members}/${owning?.id}`),
        second.as(client).call('DELETE', `${members}/${member.id}`),
      ]);
      expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409]);
      const left = test.dependencies.catalog.state.organizationMembers.list(organizationId);
      expect(left).toMatchObject([{ role: 'owner' }]);
    }
  });
});
