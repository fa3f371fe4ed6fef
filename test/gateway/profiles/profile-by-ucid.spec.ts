import { randomUUID } from 'node:crypto';
import type { ProfileRecord } from '@tributary/core';
import { expect, it } from 'vitest';
import { refusedFor } from '../../helpers/gateway.ts';
import {
  makeClientKey,
  openProfiles,
  type ProfileOrganization,
  sendInto,
} from '../../helpers/profile-client.ts';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway();
const owner = await test.openWorkspace();
const organization: ProfileOrganization = await openProfiles(owner, owner.workspaceId, sendInto(test.app));

const write = (ids: Readonly<Record<string, string>>, fields: object = {}) =>
  organization.client.write(ids, fields);

async function read(
  ucid: string,
  headers: Readonly<Record<string, string>> = { apikey: organization.key, scopes: 'profile.read' },
) {
  const { statusCode: status, body } = await test.app.inject({ url: `/cdp/v1/users/${ucid}`, headers });
  return {
    status,
    body: JSON.parse(body) as ProfileRecord & { readonly error?: string; readonly details?: unknown },
  };
}

const NOT_FOUND = { status: 404, body: { error: 'not found' } };
const DENIED = { status: 403, body: { error: 'permission denied' } };

it('a profile read by its ucid has the form of a found one, in any case of the ucid', async () => {
  const { ucid } = await write(
    { email: 'ada@example.com' },
    { upsert: { profile: { home: { city: 'Rome' } } } },
  );
  const [found] = await organization.client.search({ ucid: [ucid] });
  expect(await read(ucid)).toEqual({ status: 200, body: found });
  expect(await read(ucid.toUpperCase())).toEqual({ status: 200, body: found });
});

it('a ucid that became part of another profile reads that one', async () => {
  const first = await write({ AdId: 'merged-1' });
  const second = await write({ email: 'merged@example.com' });
  const merged = await write({ AdId: 'merged-1', email: 'merged@example.com' });
  expect(merged.ucid).toBe(first.ucid);
  expect(await read(second.ucid)).toEqual(await read(first.ucid));
});

it('an unknown, a malformed and a deleted ucid are 404 alike', async () => {
  const { ucid } = await write({ AdId: 'deleted' });
  await organization.client.delete({ ucid: [ucid] });
  for (const none of [ucid, randomUUID(), 'x']) expect(await read(none)).toEqual(NOT_FOUND);
});

it('answered 401 or 404 to a call of the wrong method: the paths of other calls still answer 405', async () => {
  for (const call of ['_search', '_delete'])
    expect(await read(call)).toEqual({ status: 405, body: { error: 'method not allowed' } });
});

it('the organization of a client key is that of the key, and of an ID token that of the header orgId', async () => {
  const { ucid } = await write({ AdId: 'theirs' });
  const other = await test.openWorkspace('other@example.com');
  const elsewhere = await openProfiles(other, other.workspaceId, sendInto(test.app));
  const theirs = { apikey: elsewhere.key, scopes: 'profile.read' };
  expect(await read(ucid, theirs)).toEqual(NOT_FOUND);
  expect(await read(ucid, { ...theirs, orgId: String(organization.orgId) })).toEqual(DENIED);
  const token = { authorization: `Bearer ${owner.token}`, scopes: 'profile.read' };
  expect((await read(ucid, { ...token, orgId: String(organization.orgId) })).status).toBe(200);
  expect(await read(ucid, token)).toMatchObject(refusedFor('orgId'));
});

it('needs profile.read, granted and named, and finds no profile of a region where it is not granted', async () => {
  const { ucid } = await write({ AdId: 'abroad' }, { region: 'us' });
  expect((await read(ucid)).status).toBe(200);
  const { key } = await makeClientKey(owner, organization.id, ['profile.write']);
  expect(await read(ucid, { apikey: key, scopes: 'profile.read' })).toEqual(DENIED);
  expect(await read(ucid, { apikey: organization.key, scopes: 'profile.write' })).toEqual(DENIED);
  const { token: viewer } = await test.signIn('viewer@example.com');
  await owner.ok('POST', './members', { email: 'viewer@example.com', role: 'viewer' });
  const asViewer = {
    authorization: `Bearer ${viewer}`,
    scopes: 'profile.read',
    orgId: String(organization.orgId),
  };
  expect(await read(ucid, asViewer)).toEqual(NOT_FOUND);
  const here = await write({ AdId: 'here' });
  expect((await read(here.ucid, asViewer)).status).toBe(200);
});
