import { randomBytes, randomUUID } from 'node:crypto';
import { makeKey, Unavailable } from '@tributary/core';
import { UnsecuredJWT } from 'jose';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { Answer, Client } from '../../helpers/client.ts';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway();
const owner = await test.openWorkspace();
const elsewhere = await test.openWorkspace('other@example.com');

const CHALLENGE =
  /^Bearer realm="tributary"(?:, error="(?<error>[a-z_]+)")?, error_description="(?<reason>[ !#-[\]-~]+)"(?:, scope="(?<scope>[a-z.]+)")?$/;

/** The refusal in the words of RFC 6750; throws for a body beyond that of the spec and for a malformed header. */
function refusalOf({ status, headers, body }: Answer): Record<string, string | number | undefined> {
  expect(body).toEqual({ error: status === 401 ? 'not authenticated' : 'permission denied' });
  const found = CHALLENGE.exec(String(headers['www-authenticate']));
  if (found?.groups === undefined) throw new Error(`not a challenge: ${headers['www-authenticate']}`);
  return { status, ...found.groups };
}

const reading = async (client: Client) => refusalOf(await client.call('GET', './event-keys'));

interface MadeKey {
  readonly id: string;
  readonly key: string;
}

describe('a 401 states', () => {
  it('that the credential is missing or malformed, and which kinds the call accepts', async () => {
    expect(refusalOf(await bare({}))).toEqual({
      status: 401,
      error: undefined,
      reason: 'no credential; this call takes an ID token or an API key',
      scope: undefined,
    });
    expect(refusalOf(await bare({ authorization: 'Token abc' })).reason).toMatch(
      /does not have the form Bearer/,
    );
  });

  it('that a key is unknown or malformed, in the same way for every workspace', async () => {
    const stranger = makeKey('api_key', randomBytes(32)).raw;
    for (const client of [owner, elsewhere, owner.with({ workspaceId: randomUUID() })]) {
      expect(await reading(client.with({ token: stranger }))).toMatchObject({
        status: 401,
        error: 'invalid_token',
        reason: 'unknown key',
      });
      expect((await reading(client.with({ token: stranger.slice(0, -1) }))).reason).toMatch(/typing error/);
      expect((await reading(client.with({ token: 'nonsense' }))).reason).toMatch(/neither a key/);
    }
  });

  it('that a key is revoked or has expired, to the holder of the complete key, in every workspace', async () => {
    const revoked = await owner.ok<MadeKey>('POST', './api-keys', { name: 'A', role: 'viewer' });
    const expires_at = new Date(test.clock.now() + 1_000).toISOString();
    const expired = await elsewhere.ok<MadeKey>('POST', './api-keys', {
      name: 'B',
      role: 'admin',
      expires_at,
    });
    await owner.ok('DELETE', `./api-keys/${revoked.id}`);
    test.clock.pass(2_000);
    for (const client of [owner, elsewhere]) {
      expect((await reading(client.with({ token: revoked.key }))).reason).toBe('the key is revoked');
      expect((await reading(client.with({ token: expired.key }))).reason).toBe('the key has expired');
      expect((await reading(client.with({ token: revoked.key.slice(0, -1) }))).reason).toMatch(
        /typing error/,
      );
    }
  });

  it('that an ID token has expired, by its own claims, without revealing the trusted issuers', async () => {
    const now = Math.floor(test.clock.now() / 1000);
    const forged = (issuer: string, exp: number) =>
      new UnsecuredJWT({ sub: 'eve' }).setIssuer(issuer).setIssuedAt(now).setExpirationTime(exp).encode();
    for (const issuer of ['https://nowhere.example', 'tributary-dev']) {
      const expired = await reading(owner.with({ token: forged(issuer, now - 3_600) }));
      expect(expired).toMatchObject({ status: 401, reason: 'the ID token has expired' });
      expect((await reading(owner.with({ token: forged(issuer, now + 3_600) }))).reason).toBe(
        'the ID token is not valid here: its issuer, signature, audience or another claim is not accepted',
      );
    }
  });
});

it('a key just created at another gateway was refused with 401 while the log did not answer: it is 503', async () => {
  const fresh = owner.with({ token: makeKey('write_key', randomBytes(32)).raw });
  const catchingUp = vi
    .spyOn(test.dependencies.catalog, 'catchUp')
    .mockRejectedValue(new Unavailable('Kafka: reading the end of the catalog: no answer within 250 ms'));
  onTestFinished(() => catchingUp.mockRestore());
  const send = () => fresh.call('POST', './events/track', { event: 'Paid', user_id: 'u' });
  expect(await send()).toMatchObject({ status: 503, headers: { 'retry-after': expect.any(String) } });
  expect((await owner.call('GET', './event-keys')).status).toBe(200);
  catchingUp.mockRestore();
  expect((await send()).status).toBe(401);
});

describe('a 403 states', () => {
  it('which kind of credential is required, also for a workspace that does not exist', async () => {
    const { key } = await owner.ok<MadeKey>('POST', './event-keys', { name: 'W', environment: 'production' });
    for (const workspaceId of [owner.workspaceId, elsewhere.workspaceId, randomUUID()])
      expect(await reading(owner.with({ token: key, workspaceId: String(workspaceId) }))).toMatchObject({
        status: 403,
        error: 'insufficient_scope',
        reason: 'this call takes an ID token or an API key, not a write key',
      });
    const server = await owner.withApiKey('admin');
    expect(refusalOf(await server.call('GET', '/organizations')).reason).toBe(
      'this call takes an ID token, not an API key',
    );
  });

  it('which role or grant is missing', async () => {
    const viewer = await owner.withApiKey('viewer');
    const rename = { name: 'Renamed', region: 'eu' };
    expect(refusalOf(await viewer.call('PUT', `/workspaces/${owner.workspaceId}`, rename)).reason).toBe(
      'the role admin in the workspace is missing; the credential has viewer',
    );
    const admin = await owner.withApiKey('admin');
    expect(refusalOf(await admin.call('POST', './api-keys', { name: 'x' })).reason).toBe(
      'the API key was created without may_manage keys',
    );
    expect(refusalOf(await owner.call('GET', '/system')).reason).toMatch(/for operators/);
  });

  it('the same reason for a workspace that is foreign, archived or missing', async () => {
    const archived = await test.openWorkspace('third@example.com');
    await archived.ok('DELETE', `/workspaces/${archived.workspaceId}`);
    const answers = [];
    for (const id of [elsewhere.workspaceId, archived.workspaceId, randomUUID()])
      answers.push(await reading(owner.with({ workspaceId: String(id) })));
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
    expect(answers[0]?.reason).toBe('the credential has no access to this workspace');
    expect((await reading(archived)).reason).toBe('the workspace is archived');
  });

  it('the same reason for a foreign and a missing organization, and the missing role in the caller’s own', async () => {
    const organizationOf = async (client: Client) => {
      const [first] = await client.ok<{ id: string }[]>('GET', '/organizations');
      return first?.id;
    };
    const [own, foreign] = [await organizationOf(owner), await organizationOf(elsewhere)];
    const [keysOfForeign, keysOfNone] = [
      await owner.call('GET', `/organizations/${foreign}/client-keys`),
      await owner.call('GET', `/organizations/${randomUUID()}/client-keys`),
    ].map(refusalOf);
    expect(keysOfForeign).toEqual(keysOfNone);
    await owner.ok('POST', `/organizations/${own}/members`, { email: 'other@example.com', role: 'member' });
    expect(refusalOf(await elsewhere.call('GET', `/organizations/${own}/client-keys`)).reason).toBe(
      'the role admin in the organization is missing; the account has member',
    );
  });
});

describe('a call of the profile API', () => {
  it('is refused with all missing headers and fields at once, and with the place of the organization’s number', async () => {
    const { status, body } = await owner.call<{ details: { path: string; message: string }[] }>(
      'POST',
      '/cdp/v1/users/_search',
      { search: { email: ['ada@example.com'] } },
    );
    expect(status).toBe(400);
    expect(body.details.map(({ path }) => path).toSorted()).toEqual([
      '/orgId',
      '/regions',
      'orgId',
      'scopes',
    ]);
    const said = Object.fromEntries(body.details.map(({ path, message }) => [path, message]));
    expect(said.scopes).toMatch(/here profile\.read/);
    expect(said['/orgId']).toMatch(/org_id in GET \/api\/v1\/organizations/);
    expect(said.orgId).toMatch(/org_id in GET \/api\/v1\/organizations/);
  });

  it('is 403 with the missing scope, and in the same way for a foreign and a missing organization', async () => {
    const [organization] = await owner.ok<{ id: string; org_id: number }[]>('GET', '/organizations');
    const ofOther = await elsewhere.ok<{ org_id: number; role: string }[]>('GET', '/organizations');
    const foreign = ofOther.find(({ role }) => role === 'owner');
    const created = await owner.ok<MadeKey & { org_id: number }>(
      'POST',
      `/organizations/${organization?.id}/client-keys`,
      { name: 'shop', scopes: ['profile.write'] },
    );
    expect(created.org_id).toBe(organization?.org_id);
    const search = async (orgId: number | undefined, scopes: string) =>
      refusalOf(
        await bare(
          { apikey: created.key, scopes, 'content-type': 'application/json' },
          {
            url: '/cdp/v1/users/_search',
            body: { orgId, regions: ['eu'], search: { email: ['ada@example.com'] } },
          },
        ),
      );
    expect(await search(created.org_id, 'profile.read')).toEqual({
      status: 403,
      error: 'insufficient_scope',
      reason: 'the credential lacks the scope profile.read',
      scope: 'profile.read',
    });
    expect((await search(created.org_id, 'profile.write')).reason).toBe(
      'the header scopes does not name profile.read',
    );
    const ofForeign = await search(foreign?.org_id, 'profile.read');
    expect(foreign?.org_id).not.toBe(created.org_id);
    expect(ofForeign).toEqual(await search(999_999, 'profile.read'));
    expect(ofForeign.reason).toMatch(/no access to the organization of orgId/);
  });
});

/** Sends headers as they are: `Client` adds a credential. */
async function bare(
  headers: Readonly<Record<string, string>>,
  { url, body }: { url?: string; body?: object } = {},
): Promise<Answer> {
  const answer = await test.app.inject({
    method: body === undefined ? 'GET' : 'POST',
    url: url ?? `/api/v1/workspaces/${owner.workspaceId}/event-keys`,
    headers: { 'x-workspace-id': String(owner.workspaceId), ...headers },
    ...(body === undefined ? {} : { payload: body }),
  });
  return { status: answer.statusCode, headers: answer.headers, body: answer.json() };
}
