import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ConfirmationClaim, newId, parseKeyRing, signConfirmation, TOPIC } from '@tributary/core';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import { suiteGateway } from '../suite-gateway.ts';

interface Organization {
  readonly id: string;
  readonly notification_email_status: string | null;
}

interface Destination {
  readonly id: string;
  readonly alerts_email_status: string | null;
}

const DAY_MS = 24 * 3_600_000;
const HOOK = { name: 'CRM', type: 'webhook', settings: { url: 'https://crm.example.com' } };

const test = await suiteGateway({
  env: { TRIBUTARY_SMTP_URL: 'smtp://127.0.0.1:1', TRIBUTARY_MAIL_FROM: 'tributary@example.com' },
});
let owner: Client;
let organizationId: string;
beforeAll(async () => {
  owner = await test.openWorkspace('owner@example.com');
  const [organization] = await owner.ok<Organization[]>('GET', '/organizations');
  organizationId = organization?.id ?? '';
});

const statusOfOrganization = async (id = organizationId) =>
  (await owner.ok<Organization>('GET', `/organizations/${id}`)).notification_email_status;

const setOfOrganization = (notification_email: string | null) =>
  owner.ok<Organization>('PATCH', `/organizations/${organizationId}`, { notification_email });

const destinationWith = (email: string | null, client = owner) =>
  client.ok<Destination>('POST', './destinations', { ...HOOK, alerts: { email } });

const statusOf = async ({ id }: Destination) =>
  (await owner.ok<Destination>('GET', `./destinations/${id}`)).alerts_email_status;

function tokenFor(email: string, fields: Partial<ConfirmationClaim> = {}, key?: string): string {
  const stored = JSON.parse(readFileSync(join(test.folder, 'secret-keys.json'), 'utf8')) as string;
  const parsed = parseKeyRing(key ?? stored);
  if (!parsed.ok) throw new Error(parsed.errors.join());
  const expiresAt = Date.now() + DAY_MS;
  return signConfirmation(parsed.ring, { id: newId(), organizationId, email, expiresAt, ...fields });
}

const open = (method: 'GET' | 'POST' | 'HEAD', token: string) =>
  test.app.inject({
    method,
    url: `/confirm-address?token=${token}`,
    ...(method === 'POST' && {
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      payload: '',
    }),
  });

describe('an address for notices', () => {
  it('waits for its link wherever it is set, and the link confirms it everywhere in the organization', async () => {
    expect((await setOfOrganization('Ops@Example.com')).notification_email_status).toBe('pending');
    const destination = await destinationWith('ops@example.com');
    const alert = await owner.ok('POST', './alerts', {
      name: 'Silence',
      watch: { kind: 'silence', minutes: 45 },
      email: 'ops@example.com',
    });
    const workspace = await owner.ok('PATCH', `/workspaces/${owner.workspaceId}`, {
      alerts: { email: 'ops@example.com' },
    });
    expect(destination.alerts_email_status).toBe('pending');
    expect(alert).toMatchObject({ email_status: 'pending' });
    expect(workspace).toMatchObject({ alerts_email_status: 'pending' });
    const token = tokenFor('ops@example.com');
    for (const method of ['HEAD', 'GET', 'GET'] as const)
      expect((await open(method, token)).statusCode).toBe(200);
    expect(await statusOfOrganization()).toBe('pending'); // a scanner opened the link
    for (let n = 0; n < 2; n++) expect((await open('POST', token)).statusCode).toBe(200);
    expect(await statusOfOrganization()).toBe('confirmed');
    expect(await statusOf(destination)).toBe('confirmed');
    expect((await destinationWith('ops@example.com')).alerts_email_status).toBe('confirmed');
    expect((await destinationWith('other@example.com')).alerts_email_status).toBe('pending');
  });

  it('stays unconfirmed for another organization', async () => {
    const other = await test.openWorkspace('other-owner@example.com');
    const theirs = await destinationWith('ops@example.com', other);
    expect(theirs.alerts_email_status).toBe('pending');
  });

  it('needs no link where it is that of a member, which the issuer verified', async () => {
    expect((await setOfOrganization('owner@example.com')).notification_email_status).toBe('confirmed');
    expect((await destinationWith('owner@example.com')).alerts_email_status).toBe('confirmed');
    expect((await setOfOrganization(null)).notification_email_status).toBe(null);
  });

  it('was confirmed as soon as anybody added its owner as a member, and after the removal too', async () => {
    const guest = await test.openWorkspace('guest@example.com');
    const members = `/organizations/${organizationId}/members`;
    const added = await owner.ok<{ id: string; status: string }>('POST', members, {
      email: 'guest@example.com',
      role: 'member',
    });
    const destination = await destinationWith('guest@example.com');
    expect(destination.alerts_email_status).toBe('pending');
    // It is the owner's in their own organization.
    expect((await destinationWith('guest@example.com', guest)).alerts_email_status).toBe('confirmed');
    await owner.ok('DELETE', `${members}/${added.id}`);

    const invited = await owner.ok<{ id: string }>('POST', members, {
      email: 'invited@example.com',
      role: 'member',
    });
    const theirs = await destinationWith('invited@example.com');
    expect(theirs.alerts_email_status).toBe('pending');
    await test.openWorkspace('invited@example.com'); // signs in for the first time
    expect(await statusOf(theirs)).toBe('confirmed');
    await owner.ok('DELETE', `${members}/${invited.id}`);
    expect(await statusOf(theirs)).toBe('pending');
  });

  it('needs its link again after a change, and not after a change of other fields', async () => {
    const destination = await destinationWith('owner@example.com');
    const path = `./destinations/${destination.id}`;
    const change = (body: object) => owner.ok<Destination>('PATCH', path, body);
    expect((await change({ alerts: { email: 'next@example.com' } })).alerts_email_status).toBe('pending');
    expect((await change({ name: 'Renamed' })).alerts_email_status).toBe('pending');
    await open('POST', tokenFor('next@example.com'));
    expect((await change({ name: 'Again' })).alerts_email_status).toBe('confirmed');
  });

  it.each([
    ['none', () => ''],
    [
      'an altered one',
      // Not its last letter, which holds bits that are not part of the signature.
      () => tokenFor('victim@example.com').replace(/\.(.)/, (_, first) => (first === 'A' ? '.B' : '.A')),
    ],
    [
      'another claim with its signature',
      () => `${tokenFor('x@example.com').split('.')[0]}.${tokenFor('victim@example.com').split('.')[1]}`,
    ],
    [
      'one of other keys',
      () => tokenFor('victim@example.com', {}, `k:${Buffer.alloc(32, 1).toString('base64')}`),
    ],
    ['one that has expired', () => tokenFor('victim@example.com', { expiresAt: Date.now() - 1 })],
  ])('is not confirmed by a wrong token: %s', async (_what, tokenOf) => {
    const destination = await destinationWith('victim@example.com');
    for (const method of ['GET', 'POST'] as const) {
      const answer = await open(method, tokenOf());
      expect(answer.statusCode).toBe(400);
      expect(answer.headers['content-type']).toContain('text/html');
    }
    expect(await statusOf(destination)).toBe('pending');
  });

  it('that is not set any more is not confirmed, and does not fill the list', async () => {
    const before = test.dependencies.catalog.position;
    expect((await open('POST', tokenFor('nobody-set-this@example.com'))).statusCode).toBe(200);
    expect(test.dependencies.catalog.position).toBe(before);
    await destinationWith('last@example.com');
    await open('POST', tokenFor('last@example.com'));
    const { confirmed_addresses } = test.dependencies.catalog.state.organization(organizationId) ?? {};
    expect(confirmed_addresses).toContain('last@example.com');
    expect(confirmed_addresses).not.toContain('nobody-set-this@example.com');
  });

  it('shows the page without scripts, and names as text', async () => {
    await owner.ok('PATCH', `/organizations/${organizationId}`, { name: '<script>alert(1)</script>' });
    const { body, headers } = await open('GET', tokenFor('ops@example.com'));
    expect(body).toContain('&lt;script&gt;');
    expect(body).not.toContain('<script>');
    expect(headers['content-security-policy']).toMatch(/default-src 'none'.*form-action 'self'/);
    expect(headers['referrer-policy']).toBe('no-referrer');
  });
});

describe('the link of an address', () => {
  const queued = async () => {
    const { entries } = await test.dependencies.log.read(TOPIC.mail, 0, 0, { maxBytes: 1e6 });
    return entries.map(({ value }) => JSON.parse(value) as Record<string, unknown>);
  };

  it('is sent again on request, until the address is confirmed, and holds no address in the log', async () => {
    const { id } = await destinationWith('again@example.com');
    const request = () => owner.call('POST', './notice-addresses/links', { email: 'Again@Example.com' });
    expect(await request()).toMatchObject({
      status: 202,
      body: { email: 'again@example.com', status: 'pending' },
    });
    const of = { type: 'destination', id, workspace_id: owner.workspaceId };
    expect(await queued()).toMatchObject([{ kind: 'confirmation', organization_id: organizationId, of }]);
    expect(JSON.stringify(await queued())).not.toContain('@');
    await open('POST', tokenFor('again@example.com'));
    expect((await request()).body).toMatchObject({ status: 'confirmed' });
    expect(await queued()).toHaveLength(1);
    await setOfOrganization('office@example.com');
    const path = `/organizations/${organizationId}/notice-addresses/links`;
    expect((await owner.call('POST', path, { email: 'office@example.com' })).status).toBe(202);
    expect(await queued()).toHaveLength(2);
  });

  it('is not sent to an address that is not set there', async () => {
    for (const path of [
      './notice-addresses/links',
      `/organizations/${organizationId}/notice-addresses/links`,
    ])
      expect((await owner.call('POST', path, { email: 'stranger@example.com' })).status).toBe(404);
  });
});
