import { CLIENT_KEY_SCOPES } from '@tributary/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import { openTestGateway } from '../../helpers/gateway.ts';
import { makeClientKey, ProfileClient, sendInto } from '../../helpers/profile-client.ts';
import { awayProfiles } from '../../helpers/profile-gateway.ts';
import { suiteGateway } from '../suite-gateway.ts';

interface Organization {
  readonly id: string;
  readonly org_id: number;
  readonly name: string;
  readonly regions: readonly string[];
}

const test = await suiteGateway();
const ann = await test.signIn('ann@example.com');

const make = (client: Client, fields: object = {}) =>
  client.ok<Organization>('POST', '/organizations', { name: 'Org', ...fields });

describe('organizations', () => {
  it('are created with the caller as owner and a unique number', async () => {
    const created = await ann.call<Organization>('POST', '/organizations', {
      name: 'Flights',
      regions: ['eu', 'us-east-1'],
      notification_email: 'Ops@Example.com',
    });
    expect(created).toMatchObject({ status: 201, headers: { etag: '"1"' } });
    expect(created.body).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      org_id: expect.any(Number),
      name: 'Flights',
      regions: ['eu', 'us-east-1'],
      notification_email: 'ops@example.com',
      notification_email_status: 'confirmed', // without a mail server there is nobody to ask
      role: 'owner',
      created_at: expect.stringMatching(/Z$/),
      updated_at: expect.stringMatching(/Z$/),
    });
    const next = await make(ann);
    expect(next).toMatchObject({
      org_id: created.body.org_id + 1,
      regions: ['eu'],
      notification_email: null,
    });
    const read = await ann.call('GET', `/organizations/${created.body.id.toUpperCase()}`);
    expect(read).toMatchObject({ status: 200, body: created.body, headers: { etag: '"1"' } });
  });

  it('are replaced at the version that the caller read; an unchanged replacement creates no version', async () => {
    const { id } = await make(ann);
    const path = `/organizations/${id}`;
    const fields = { name: 'Renamed', regions: ['eu', 'us'], notification_email: 'ops@example.com' };
    const changed = await ann.call('PUT', path, fields, { 'if-match': '"1"' });
    expect(changed).toMatchObject({ status: 200, body: fields, headers: { etag: '"2"' } });
    expect((await ann.call('PUT', path, fields, { 'if-match': '"1"' })).body).toEqual({
      error: 'version mismatch',
    });
    expect((await ann.call('PUT', path, fields)).headers.etag).toBe('"2"');
    const cleared = await ann.call('PUT', path, { name: 'Renamed', regions: ['eu'] });
    expect(cleared).toMatchObject({ status: 200, body: { notification_email: null, regions: ['eu'] } });
    expect(await ann.call('PUT', path, { name: 'x' })).toMatchObject({
      status: 400,
      body: { details: [{ path: '/regions', message: 'is required' }] },
    });
  });

  it('keep a region while it has a workspace', async () => {
    const { id } = await make(ann, { regions: ['eu', 'us'] });
    const workspace = await ann.ok<{ id: string }>('POST', '/workspaces', {
      name: 'US',
      organization_id: id,
      region: 'us',
    });
    const onlyEu = { name: 'Org', regions: ['eu'] };
    expect(await ann.call('PUT', `/organizations/${id}`, onlyEu)).toMatchObject({
      status: 409,
      body: { error: 'conflict', reason: 'in_use', causes: [{ kind: 'workspace', id: workspace.id }] },
    });
    await ann.with({ workspaceId: workspace.id }).ok('DELETE', `/workspaces/${workspace.id}`);
    expect((await ann.call('PUT', `/organizations/${id}`, onlyEu)).status).toBe(200);
  });

  it('gave up a region that still had profiles, which could then be neither found nor deleted', async () => {
    const { id, org_id } = await make(ann, { regions: ['eu', 'ap', 'us'] });
    const { key } = await makeClientKey(ann, id, CLIENT_KEY_SCOPES);
    const client = new ProfileClient(sendInto(test.app), Number(org_id), {}).withKey(key);
    const { ucid } = await client.write({ AdId: 'stays' }, { region: 'ap' });
    const path = `/organizations/${id}`;
    const inUse = { error: 'conflict', reason: 'in_use', causes: [{ kind: 'region', id: 'ap' }] };
    expect(await ann.call('PUT', path, { name: 'Org', regions: ['eu'] })).toMatchObject({
      status: 409,
      body: inUse,
    });
    expect((await ann.call('PUT', path, { name: 'Org', regions: ['eu', 'ap'] })).status).toBe(200);
    await client.delete({ ucid: [ucid] }, { region: 'ap' });
    expect((await ann.call('PUT', path, { name: 'Org', regions: ['eu'] })).status).toBe(200);
  });

  it('gave up a region during a write to it: the region is restored, and the response is 409', async () => {
    let looks = 0;
    const profiles = awayProfiles({ holdsProfiles: async () => ++looks > 1 });
    const other = await openTestGateway({ dependencies: { profiles } });
    onTestFinished(() => other.close());
    const cid = await other.signIn('cid@example.com');
    const { id } = await make(cid, { regions: ['eu', 'sa'] });
    expect(await cid.call('PUT', `/organizations/${id}`, { name: 'New', regions: ['eu'] })).toMatchObject({
      status: 409,
      body: { reason: 'in_use', causes: [{ kind: 'region', id: 'sa' }] },
    });
    expect(await cid.ok('GET', `/organizations/${id}`)).toMatchObject({ regions: ['eu', 'sa'] });
  });
});

describe('client keys', () => {
  interface Key {
    readonly id: string;
    readonly key: string;
    readonly key_prefix: string;
  }

  it('are shown once, listed without the key, and revoked permanently', async () => {
    const { id } = await make(ann);
    const path = `/organizations/${id}/client-keys`;
    const scopes = ['profile.read', 'profile.write'];
    const made = await ann.call<Key>('POST', path, { name: 'crm', scopes });
    expect(made).toMatchObject({ status: 201, body: { organization_id: id, scopes, status: 'active' } });
    expect(made.body.key).toMatch(/^trb_client_[0-9A-Za-z]{49}$/);
    expect(made.body.key.startsWith(made.body.key_prefix)).toBe(true);
    const { key, ...shown } = made.body;
    expect(await ann.ok('GET', path)).toEqual([shown]);

    const client = ann.with({ token: key });
    expect((await client.call('GET', path)).status).toBe(403);
    for (let time = 0; time < 2; time++)
      expect(await ann.call('DELETE', `${path}/${shown.id}`)).toMatchObject({
        status: 200,
        body: { id: shown.id, status: 'revoked' },
      });
    expect(await client.call('GET', path)).toMatchObject({ status: 401 });
    expect(await ann.ok('GET', path)).toMatchObject([{ id: shown.id, status: 'revoked' }]);
  });
});
