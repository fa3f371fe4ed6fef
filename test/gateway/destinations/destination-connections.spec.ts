import type { GrantResult, ServiceGrants, ServiceTokens } from '@tributary/core';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import { openTestGateway, refusedFor, type TestGateway } from '../../helpers/gateway.ts';

interface Shown {
  readonly id: string;
  readonly version: number;
  readonly paused: boolean;
  readonly paused_because: { readonly reason: string } | null;
  readonly connection: {
    readonly service: string;
    readonly state: string;
    readonly by: string | null;
  } | null;
}

interface Begun {
  readonly authorize_url: string;
  readonly state: string;
  readonly redirect_uri: string;
}

const TOKENS: ServiceTokens = { access: 'access-token-1', refresh: 'refresh-token-1' };

/** A service whose codes are good once. */
const service = {
  granted: { kind: 'granted', grant: { tokens: TOKENS, settings: {} } } as GrantResult,
  exchanges: [] as {
    readonly code: string | null;
    readonly verifier: string;
    readonly redirectUri: string;
  }[],
  revoked: [] as ServiceTokens[],
};

let gateway: TestGateway;
let owner: Client;
let stranger: Client;

beforeAll(async () => {
  const grants: Partial<ServiceGrants> = {
    async exchange(_, { callback, verifier, redirectUri }) {
      service.exchanges.push({ code: callback.get('code'), verifier, redirectUri });
      return service.granted;
    },
    async revoke(_, tokens) {
      service.revoked.push(tokens);
      return true;
    },
  };
  gateway = await openTestGateway({
    env: { TRIBUTARY_OAUTH_CLIENTS: JSON.stringify({ google: { id: 'client-1', secret: 'client-secret' } }) },
  });
  // The address of the page is that of the real table; tokens are those of this service.
  Object.assign(gateway.dependencies.grants, grants);
  owner = await gateway.openWorkspace();
  stranger = await gateway.openWorkspace('stranger@example.com');
});
afterAll(() => gateway.close());
beforeEach(() => {
  service.exchanges.length = 0;
  service.revoked.length = 0;
  service.granted = { kind: 'granted', grant: { tokens: TOKENS, settings: {} } };
});

const make = () => owner.ok<Shown>('POST', './destinations', { name: 'Rows', type: 'segment-google-sheets' });
const begin = ({ id }: Shown) => owner.ok<Begun>('POST', `./destinations/${id}/connection`, {});
const callbackOf = ({ redirect_uri, state }: Begun, code = 'code-1') =>
  `${redirect_uri}?${new URLSearchParams({ code, state })}`;
const complete = (client: Client, { id }: Shown, callback_url: string) =>
  client.call<Shown>('POST', `./destinations/${id}/connection/completion`, { callback_url });
const read = ({ id }: Shown) => owner.ok<Shown>('GET', `./destinations/${id}`);

it('a new destination waits until a person connects it, and is resumed by that alone', async () => {
  const made = await make();
  const waiting = {
    paused: true,
    paused_because: { reason: 'not_connected' },
    connection: { service: 'Google', state: 'disconnected', by: null },
  };
  expect(made).toMatchObject(waiting);
  expect(await owner.ok('PATCH', `./destinations/${made.id}`, { paused: false })).toMatchObject(waiting);

  const begun = await begin(made);
  const asked = new URL(begun.authorize_url);
  expect(asked.origin + asked.pathname).toBe('https://accounts.google.com/o/oauth2/v2/auth');
  expect(Object.fromEntries(asked.searchParams)).toMatchObject({
    client_id: 'client-1',
    response_type: 'code',
    scope: 'https://www.googleapis.com/auth/spreadsheets',
    access_type: 'offline',
    prompt: 'consent',
    code_challenge_method: 'S256',
    redirect_uri: 'http://localhost:80/console/connected',
    state: begun.state,
  });

  const { status, body } = await complete(owner, made, callbackOf(begun));
  expect(status).toBe(200);
  expect(body).toMatchObject({ paused: false, paused_because: null, connection: { state: 'connected' } });
  expect(service.exchanges).toEqual([
    { code: 'code-1', verifier: expect.stringMatching(/^[\w-]{43}$/), redirectUri: begun.redirect_uri },
  ]);
  expect(begun.state).not.toContain(service.exchanges[0]?.verifier);
});

it('a destination that a user paused stays so when it is connected', async () => {
  const made = await make();
  await complete(owner, made, callbackOf(await begin(made)));
  await owner.ok('PATCH', `./destinations/${made.id}`, { paused: true });
  const { body } = await complete(owner, made, callbackOf(await begin(made), 'code-2'));
  expect(body).toMatchObject({ paused: true, paused_because: null, connection: { state: 'connected' } });
});

it('tokens are in no answer, and sealed in the catalog', async () => {
  const made = await make();
  const answers = [await complete(owner, made, callbackOf(await begin(made)))];
  const stored = gateway.dependencies.catalog.state.destination(made.id);
  expect(stored && gateway.dependencies.openTokens(stored)).toEqual(TOKENS);
  expect(JSON.stringify(stored)).not.toContain('token-1');
  await owner.ok('DELETE', `./destinations/${made.id}/connection`);
  expect(JSON.stringify([answers, await read(made), await owner.ok('GET', './destinations')])).not.toContain(
    'token-1',
  );
});

it('a disconnected destination waits again, and its tokens are revoked; so are those of a deleted one', async () => {
  const made = await make();
  await complete(owner, made, callbackOf(await begin(made)));
  const path = `./destinations/${made.id}/connection`;
  expect(await owner.ok('DELETE', path)).toEqual({ state: 'disconnected', revoked: true });
  expect(await read(made)).toMatchObject({ paused: true, paused_because: { reason: 'not_connected' } });
  expect(await owner.ok('DELETE', path)).toEqual({ state: 'disconnected', revoked: false });
  expect(service.revoked).toEqual([TOKENS]);

  await complete(owner, made, callbackOf(await begin(made), 'code-2'));
  await owner.ok('DELETE', `./destinations/${made.id}`);
  expect(service.revoked).toEqual([TOKENS, TOKENS]);
});

it('a state of another destination, person or workspace, an expired one and a forged one are refused', async () => {
  const [made, other] = [await make(), await make()];
  const begun = await begin(made);
  const refused = refusedFor('/callback_url');
  expect(await complete(owner, other, callbackOf(begun))).toMatchObject(refused);
  expect((await complete(stranger, made, callbackOf(begun))).status).toBe(404);
  const theirs = await stranger.ok<Shown>('POST', './destinations', {
    name: 'Rows',
    type: 'segment-google-sheets',
  });
  expect(await complete(stranger, theirs, callbackOf(begun))).toMatchObject(refused);
  const forged = { ...begun, state: `${begun.state.slice(0, -4)}AAAA` };
  expect(await complete(owner, made, callbackOf(forged))).toMatchObject(refused);
  expect(await complete(owner, made, 'no address')).toMatchObject(refused);
  gateway.clock.pass(11 * 60_000);
  expect(await complete(owner, made, callbackOf(begun))).toMatchObject(refused);
  expect(service.exchanges).toEqual([]);
});

it('a person of the workspace cannot complete what another one began', async () => {
  const made = await make();
  const begun = await begin(made);
  const email = 'colleague@example.com';
  await owner.ok('POST', './members', { email, role: 'editor' });
  const colleague = (await gateway.signIn(email)).with({ workspaceId: owner.workspaceId ?? '' });
  expect(await complete(colleague, made, callbackOf(begun))).toMatchObject(refusedFor('/callback_url'));
  expect(service.exchanges).toEqual([]);
});

it('a state is good once, also where the service refused its code and where it arrives twice at a time', async () => {
  const made = await make();
  const begun = await begin(made);
  service.granted = { kind: 'refused', reason: 'Google answered 400: invalid_grant' };
  expect(await complete(owner, made, callbackOf(begun))).toMatchObject({
    status: 400,
    body: { details: [{ message: 'is refused: Google answered 400: invalid_grant' }] },
  });
  service.granted = { kind: 'granted', grant: { tokens: TOKENS, settings: {} } };
  expect(await complete(owner, made, callbackOf(begun))).toMatchObject(refusedFor('/callback_url'));
  expect(await read(made)).toMatchObject({ connection: { state: 'disconnected', by: null } });

  const again = await begin(made);
  const both = await Promise.all([1, 2].map(() => complete(owner, made, callbackOf(again))));
  expect(both.map(({ status }) => status).sort()).toEqual([200, 400]);
  expect(await complete(owner, made, callbackOf(again))).toMatchObject(refusedFor('/callback_url'));
  expect(service.exchanges).toHaveLength(2);
});

it('a service that does not answer leaves the destination as it was', async () => {
  const made = await make();
  service.granted = { kind: 'failed', reason: 'Google answered 503' };
  expect((await complete(owner, made, callbackOf(await begin(made)))).status).toBe(503);
  expect(await read(made)).toMatchObject({ connection: { state: 'disconnected' } });
});

it('only a type with a service is connected, and browsers come back to this installation', async () => {
  const hook = await owner.ok<Shown>('POST', './destinations', {
    name: 'Hook',
    type: 'webhook',
    settings: { url: 'https://example.com' },
  });
  expect(hook).toMatchObject({ connection: null, paused: false });
  const path = `./destinations/${hook.id}/connection`;
  expect(await owner.call('POST', path, {})).toMatchObject({ status: 409, body: { reason: 'no_service' } });
  const made = await make();
  // The host of a request is the caller's word, so it does not decide where a code is sent.
  const elsewhere = { host: 'evil.example' };
  expect(await owner.call('POST', `./destinations/${made.id}/connection`, {}, elsewhere)).toMatchObject({
    status: 409,
    body: { reason: 'no_public_url' },
  });
});
