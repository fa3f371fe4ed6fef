import { CLIENT_KEY_SCOPES, type ClientKeyScope } from '@tributary/core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import { openTestGateway, refusedFor, type TestGateway } from '../../helpers/gateway.ts';
import { type OidcProvider, startOidcProvider } from '../../helpers/oidc-provider.ts';
import {
  makeClientKey,
  openProfiles,
  PROFILE_CALLS,
  type ProfileClient,
  type ProfileOrganization,
  sendInto,
} from '../../helpers/profile-client.ts';

const [WRITE, READ, DELETE] = CLIENT_KEY_SCOPES;
const NOT_KNOWN = { status: 401, body: { error: 'not authenticated' } };
const DENIED = { status: 403, body: { error: 'permission denied' } };

let provider: OidcProvider;
let test: TestGateway;
let owner: Client;
let organization: ProfileOrganization;
let client: ProfileClient;
beforeAll(async () => {
  provider = await startOidcProvider();
  test = await openTestGateway({ env: { TRIBUTARY_ISSUERS: JSON.stringify([provider.settings]) } });
  await test.issuersAnswered();
  owner = await test.openWorkspace();
  organization = await openProfiles(owner, owner.workspaceId, sendInto(test.app));
  client = organization.client;
});
afterAll(async () => {
  await test.close();
  await provider.close();
});

/** The scopes granted to a caller, in a region. */
async function allowed(caller: ProfileClient, region = 'eu'): Promise<readonly ClientKeyScope[]> {
  const done: ClientKeyScope[] = [];
  for (const scope of CLIENT_KEY_SCOPES) {
    const [path, body] = PROFILE_CALLS[scope];
    const there = 'region' in body ? { ...body, region } : { ...body, regions: [region] };
    const { status, body: answer } = await caller.call(path, there);
    if (status === 200) done.push(scope);
    else expect({ status, body: answer }).toEqual(DENIED);
  }
  return done;
}

const SETS = Array.from({ length: 7 }, (_, n) =>
  CLIENT_KEY_SCOPES.filter((_scope, bit) => ((n + 1) >> bit) % 2 === 1),
);

describe('a client key', () => {
  it.each(SETS.map((set) => [set.join(','), set] as const))(
    'has the scopes of the header that it was granted, and no others: %s',
    async (_, granted) => {
      const { key } = await makeClientKey(owner, organization.id, granted);
      for (const named of SETS)
        expect(await allowed(client.withKey(key, named.join(',')))).toEqual(
          granted.filter((scope) => named.includes(scope)),
        );
    },
  );

  it('is accepted in the header Authorization', async () => {
    const bearer = { apikey: '', authorization: `Bearer ${organization.key}` };
    expect((await client.call(...PROFILE_CALLS[READ], bearer)).status).toBe(200);
  });

  it('is 403 for another organization, also for an unknown region', async () => {
    const other = await test.openWorkspace('other@example.com');
    const elsewhere = await openProfiles(other, other.workspaceId, sendInto(test.app));
    const intruder = elsewhere.client.naming(organization.orgId);
    expect(await allowed(intruder)).toEqual([]);
    expect(await allowed(intruder, 'mars')).toEqual([]);
    expect(await allowed(client.naming(1_000_000))).toEqual([]);
  });
});

describe('a credential', () => {
  it('takes precedence in the header apikey', async () => {
    const token = `Bearer ${owner.token}`;
    const orgId = String(organization.orgId);
    const call = PROFILE_CALLS[READ];
    expect((await client.call(...call, { apikey: '', authorization: token, orgId })).status).toBe(200);
    expect(await client.call(...call, { apikey: 'nonsense', authorization: token, orgId })).toMatchObject(
      NOT_KNOWN,
    );
    expect(await client.call(...call, { apikey: String(owner.token), orgId })).toMatchObject(NOT_KNOWN);
    const { key } = await makeClientKey(owner, organization.id, [WRITE]);
    expect(await client.call(...call, { apikey: key, authorization: token, orgId })).toMatchObject(DENIED);
  });

  it('is 403 if it belongs to a workspace', async () => {
    const server = await owner.withApiKey('admin');
    const key = await owner.writeKey();
    for (const raw of [String(server.token), key]) {
      expect(await allowed(client.withKey(raw))).toEqual([]);
      expect(await allowed(client.withToken(raw))).toEqual([]);
    }
  });

  it('is refused by all routes other than those of the profile API', async () => {
    const holder = owner.with({ token: organization.key });
    expect(await holder.call('GET', './sources')).toMatchObject(DENIED);
    const { statusCode } = await test.app.inject({
      url: '/api/v1/organizations',
      headers: { apikey: organization.key },
    });
    expect(statusCode).toBe(401);
  });
});

describe('the header scopes', () => {
  it.each([
    ['missing', ''],
    ['an unknown scope', 'profile.admin'],
    ['a known scope and an unknown one', `${READ},everything`],
    ['separated by blanks', `${READ} ${WRITE}`],
    ['empty at its end', `${READ},`],
  ])('is 400 when it is %s', async (_, scopes) => {
    expect(await client.call(...PROFILE_CALLS[READ], { scopes })).toMatchObject({
      status: 400,
      body: { error: 'invalid request', details: [{ path: 'scopes', message: expect.any(String) }] },
    });
  });

  it('is accepted with blanks around its commas', async () => {
    expect((await client.call(...PROFILE_CALLS[READ], { scopes: ` ${WRITE} , ${READ}` })).status).toBe(200);
  });
});

describe('a request with several faults', () => {
  const bad = { region: 7 };

  it('is refused for its credential first, then for headers and body, then for its permission', async () => {
    const stranger = client.withToken(String((await test.signIn('stranger@example.com')).token), READ);
    expect(await client.call('', bad, { apikey: 'nonsense', scopes: '' })).toMatchObject(NOT_KNOWN);
    expect((await stranger.call('', bad, { scopes: '' })).status).toBe(400);
    expect((await stranger.call('', bad)).status).toBe(400);
    expect(await stranger.call('', { region: 'mars', ids: { AdId: 'x' } })).toMatchObject(DENIED);
    expect((await client.call('', { region: 'mars', ids: { AdId: 'x' } })).status).toBe(400);
  });
});

describe('an ID token', () => {
  const invite = (place: string, email: string, role: string) =>
    owner.ok('POST', `${place}/members`, { email, role });
  const signedIn = async (email: string) => client.withToken(String((await test.signIn(email)).token));
  const inOrganization = () => `/organizations/${organization.id}`;
  const inWorkspace = () => `/workspaces/${owner.workspaceId}`;

  it('requires the header orgId, which must equal that of the body', async () => {
    const me = await signedIn('owner@example.com');
    expect(await me.call(...PROFILE_CALLS[READ], { orgId: '' })).toMatchObject(refusedFor('orgId'));
    expect(await me.call(...PROFILE_CALLS[READ], { orgId: String(organization.orgId + 1) })).toMatchObject(
      DENIED,
    );
    expect(await me.naming(organization.orgId + 1).call(...PROFILE_CALLS[READ])).toMatchObject(DENIED);
  });

  it.each([
    ['owner', CLIENT_KEY_SCOPES],
    ['admin', CLIENT_KEY_SCOPES],
    ['member', [READ]],
  ] as const)(
    'has for the role %s in the organization the scopes %j in every region',
    async (role, scopes) => {
      const email = `organization-${role}@example.com`;
      await invite(inOrganization(), email, role);
      for (const region of ['eu', 'us']) expect(await allowed(await signedIn(email), region)).toEqual(scopes);
    },
  );

  it.each([
    ['admin', CLIENT_KEY_SCOPES],
    ['editor', [WRITE, READ]],
    ['viewer', [READ]],
  ] as const)(
    'has for the role %s in a workspace the scopes %j, only in its region',
    async (role, scopes) => {
      const email = `workspace-${role}@example.com`;
      await invite(inWorkspace(), email, role);
      expect(await allowed(await signedIn(email))).toEqual(scopes);
      expect(await allowed(await signedIn(email), 'us')).toEqual([]);
      await invite(inOrganization(), email, 'member');
      expect(await allowed(await signedIn(email))).toEqual(scopes);
      expect(await allowed(await signedIn(email), 'us')).toEqual([READ]);
    },
  );

  it('is limited by the header like a key', async () => {
    const token = String(owner.token);
    expect(await allowed(client.withToken(token, READ))).toEqual([READ]);
    expect(await allowed(client.withToken(token, `${WRITE},${DELETE}`))).toEqual([WRITE, DELETE]);
  });

  it('has no scopes for a person without membership, or a removed member', async () => {
    expect(await allowed(await signedIn('nobody@example.com'))).toEqual([]);
    const { id } = await owner.ok<{ id: string }>('POST', `${inOrganization()}/members`, {
      email: 'gone@example.com',
      role: 'admin',
    });
    expect(await allowed(await signedIn('gone@example.com'))).toEqual(CLIENT_KEY_SCOPES);
    await owner.ok('DELETE', `${inOrganization()}/members/${id}`);
    expect(await allowed(await signedIn('gone@example.com'))).toEqual([]);
  });

  it.each([
    [{ scope: 'openid profile profile.read' }, [READ]],
    [{ scopes: ['profile.write', 'profile.delete'] }, [WRITE, DELETE]],
    [{ scope: 'profile.bogus' }, []],
    [{ scope: 'openid profile' }, CLIENT_KEY_SCOPES],
    [{}, CLIENT_KEY_SCOPES],
  ] as const)('has for the claims %j of an owner the scopes %j', async (claims, scopes) => {
    const person = { email: 'ada@provider.example', email_verified: true };
    const ada = async () => client.withToken(await provider.sign({ ...person, ...claims }));
    const members = await owner.ok<readonly { email: string }[]>('GET', `${inOrganization()}/members`);
    if (!members.some(({ email }) => email === person.email)) {
      expect(await allowed(await ada())).toEqual([]); // regardless of its claims
      await invite(inOrganization(), person.email, 'owner');
    }
    expect(await allowed(await ada())).toEqual(scopes);
  });

  it.each([
    ['an organization', 'member', ['profile.read', 'profile.write', 'profile.delete'], [READ]],
    ['a workspace', 'viewer', ['profile.delete', 'profile.read'], [READ]],
    ['a workspace', 'editor', ['profile.write', 'profile.delete'], [WRITE]],
    ['a workspace', 'viewer', ['profile.write'], []],
  ] as const)(
    'has in %s for the role %s and the claims %j the scopes that both allow: %j',
    async (kind, role, claimed, scopes) => {
      const email = `${role}-${claimed.length}-${kind.replaceAll(' ', '-')}@provider.example`;
      await invite(kind === 'a workspace' ? inWorkspace() : inOrganization(), email, role);
      const sign = (claims: object) => provider.sign({ sub: email, email, email_verified: true, ...claims });
      for (const claims of [
        { scope: claimed.join(' ') },
        { scopes: claimed },
        { scopes: `openid,${claimed.join(',')}` },
      ])
        expect(await allowed(client.withToken(await sign(claims)))).toEqual(scopes);
    },
  );
});
