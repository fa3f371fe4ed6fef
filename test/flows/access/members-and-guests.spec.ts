import { openDevIssuer } from '@tributary/infra';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Client, eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';

interface Member {
  readonly id: string;
  readonly email: string | null;
  readonly role: string;
  readonly status: string;
}

/**
 * An organization has members, workspaces and client keys; people are invited by e-mail, even before their
 * first sign-in.
 */
describe('People', () => {
  let tributary: Tributary;
  let grace: Client;
  let organizationId: string;
  beforeAll(async () => {
    tributary = await startTributary();
    grace = tributary.owner.with({ token: await tokenOf('grace@example.com') });
    const made = await grace.post<{ id: string; org_id: number }>('/organizations', {
      name: 'Compilers',
      regions: ['eu', 'us'],
      notification_email: 'ops@example.com',
    });
    expect(made.org_id).toBeGreaterThan(0);
    organizationId = made.id;
  });
  afterAll(() => tributary.remove());

  const tokenOf = (email: string) =>
    openDevIssuer({ dataFolder: tributary.folder, devIssuerKey: '' }).mint(email);
  const personOf = async (email: string) => grace.with({ token: await tokenOf(email) });
  const members = () => `/organizations/${organizationId}/members`;
  const makeWorkspace = (name: string) =>
    grace.post<{ id: string }>('/workspaces', { name, organization_id: organizationId, region: 'us' });

  it('a person invited by two organizations before the first sign-in is a member of both', async () => {
    const other = await tributary.owner.post<{ id: string }>('/organizations', { name: 'Other' });
    const invitation = { email: 'Ada@Example.com', role: 'member' };
    expect(await grace.post<Member>(members(), invitation)).toMatchObject({ status: 'pending' });
    await tributary.owner.post(`/organizations/${other.id}/members`, invitation);
    const ada = await personOf('ada@example.com');
    const seen = await ada.get<readonly { id: string; role: string }[]>('/organizations');
    expect(seen.map(({ id, role }) => [id, role])).toEqual([
      [other.id, 'member'],
      [organizationId, 'member'],
    ]);
    const [first] = await grace.get<readonly Member[]>(members());
    expect(first).toMatchObject({ email: 'ada@example.com', status: 'active' });
  });

  it('a plain member sees only the workspaces they were added to, an admin of the organization sees all', async () => {
    const [shop, lab] = [await makeWorkspace('Shop'), await makeWorkspace('Lab')];
    await grace.with({ workspaceId: lab.id }).post('./members', { email: 'ada@example.com', role: 'editor' });
    const ada = await personOf('ada@example.com');
    expect(await ada.get('/workspaces')).toMatchObject([{ id: lab.id, role: 'editor' }]);
    const there = ada.with({ workspaceId: shop.id });
    expect((await there.call('GET', './event-contracts')).status).toBe(403);

    const [place] = await grace.get<readonly Member[]>(members());
    await grace.put(`${members()}/${place?.id}`, { role: 'admin' });
    expect((await there.call('GET', './event-contracts')).status).toBe(200);
    expect(await ada.get('/workspaces')).toMatchObject([
      { id: lab.id, role: 'admin' },
      { id: shop.id, role: 'admin' },
    ]);
  });

  it('an organization keeps one owner when both of its owners leave at the same time', async () => {
    await grace.post(members(), { email: 'bea@example.com', role: 'owner' });
    const bea = await personOf('bea@example.com');
    await bea.get(members());
    const places = await grace.get<readonly Member[]>(members());
    const placeOf = (email: string) => places.find((member) => member.email === email)?.id;
    const answers = await Promise.all([
      grace.call('DELETE', `${members()}/${placeOf('grace@example.com')}`),
      bea.call('DELETE', `${members()}/${placeOf('bea@example.com')}`),
    ]);
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409]);
    const left = answers[0]?.status === 200 ? bea : grace;
    const owners = (await left.get<readonly Member[]>(members())).filter(({ role }) => role === 'owner');
    expect(owners).toHaveLength(1);
    if (left === grace) return;
    await bea.post(members(), { email: 'grace@example.com', role: 'owner' });
    await grace.get(members());
  });

  it('a client key is shown once and is valid only for the profile API', async () => {
    const path = `/organizations/${organizationId}/client-keys`;
    const { id, key } = await grace.post<{ id: string; key: string }>(path, {
      name: 'crm',
      scopes: ['profile.read'],
    });
    const crm = grace.with({ token: key });
    expect((await crm.call('GET', '/workspaces')).status).toBe(403);
    expect((await grace.get<readonly object[]>(path))[0]).not.toHaveProperty('key');
    expect(await grace.ok('DELETE', `${path}/${id}`)).toEqual({ id, status: 'revoked' });
    expect((await crm.call('GET', '/workspaces')).status).toBe(401);
  });

  it('an archived workspace accepts no events; events accepted before it was archived are delivered', async () => {
    const { id } = await makeWorkspace('Closing');
    const inside = grace.with({ workspaceId: id });
    const { key } = await inside.post<{ key: string }>('./event-keys', {
      name: 'site',
      environment: 'production',
    });
    const site = inside.with({ token: key });
    const event = { body: { event: 'Last', user_id: 'u' } };
    expect((await site.call('POST', './events/track', event)).status).toBe(202);
    await eventually(
      () => inside.get<readonly object[]>('./event-volume'),
      (records) => records.length === 1,
    );
    expect(await inside.ok('DELETE', `/workspaces/${id}`)).toEqual({ id, status: 'archived' });
    expect(await site.call('POST', './events/track', event)).toMatchObject({
      status: 403,
      body: { error: 'permission denied' },
    });
    expect(await grace.get('/workspaces?status=archived')).toMatchObject([{ id, status: 'archived' }]);
  });

  it('members, guests and keys survive a restart', async () => {
    const before = await grace.get(members());
    const { folder } = tributary;
    expect(await tributary.stop()).toBe(0);
    tributary = await startTributary({ folder });
    const returning = grace.at(tributary.url);
    expect(await returning.get(members())).toEqual(before);
    expect(await returning.get(`/organizations/${organizationId}`)).toMatchObject({ name: 'Compilers' });
  });
});
