import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import type { JsonObject } from '@tributary/core';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { ConnectorContext } from '../kind.ts';
import { createGrants } from './grants.ts';
import { PROVIDERS } from './providers.ts';

interface Asked {
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

const NOW = Date.parse('2026-01-01T00:00:00.000Z');
const CLIENT = { id: 'client-1', secret: 'client-secret' };

const asked: Asked[] = [];
let answers: { status: number; body: JsonObject; headers?: Record<string, string> }[] = [];
const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const url = `https://${request.headers.host}${request.url}`;
    asked.push({ url, headers: request.headers, body: Buffer.concat(chunks).toString() });
    const { status, body, headers = {} } = answers.shift() ?? { status: 500, body: {} };
    response.writeHead(status, headers).end(JSON.stringify(body));
  });
});

/** Requests to any host go to this server. */
const egress = {
  connector: () => (_: unknown, done: (error: Error | null, socket: ReturnType<typeof connect>) => void) => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1', () => done(null, socket));
  },
};
const context = { egress, timeoutMs: 1_000, clock: () => NOW } as unknown as ConnectorContext;

const grants = createGrants(context, (name) => {
  const provider = PROVIDERS[name];
  return provider && { provider, client: CLIENT, scopes: ['one', 'two'] };
});

beforeAll(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)));
afterAll(async () => {
  await grants.close();
  server.close();
});
afterEach(() => {
  asked.length = 0;
  answers = [];
});

const at = (type: string, settings: JsonObject = {}) => ({ type, settings });
const BEGUN = { redirectUri: 'https://here.example/console/connected', verifier: 'a-verifier' };
const exchange = (type: string, query: string, settings: JsonObject = {}) =>
  grants.exchange(at(type, settings), { ...BEGUN, callback: new URLSearchParams(query) });

describe.each(Object.entries(PROVIDERS))('%s', (name, provider) => {
  test('asks for the code at its page, and exchanges it at its token URL, by HTTPS', async () => {
    const { authorize, token } = provider.endpoints({});
    const page = grants.authorizeUrl(at(name), { ...BEGUN, state: 'the-state' });
    expect(page.startsWith(authorize.split('{')[0] ?? '')).toBe(true);
    expect(page).toContain('client-1');
    expect(page).toContain('state=the-state');
    expect(page).not.toContain(CLIENT.secret);
    const challenge = createHash('sha256').update(BEGUN.verifier).digest('base64url');
    expect(page.includes(challenge)).toBe(provider.pkce === true);

    const tokens = {
      access_token: 'a1',
      refresh_token: 'r1',
      expires_in: 3_600,
      instance_url: 'https://a.my.salesforce.com',
    };
    const granted = {
      status: 200,
      body: provider.member === undefined ? tokens : { code: 0, [provider.member]: tokens },
    };
    answers = [granted, granted];
    const code = provider.names?.code ?? 'code';
    expect(await exchange(name, `${code}=the-code&state=the-state`)).toMatchObject({
      kind: 'granted',
      grant: { tokens: { access: 'a1', refresh: 'r1', expiresAt: NOW + 3_540_000 } },
    });
    const [first] = asked;
    expect(first?.url).toBe(token);
    expect(first?.body).toContain('the-code');
    expect(first?.body.includes('a-verifier')).toBe(provider.pkce === true);
    const proof = `Basic ${Buffer.from(`${CLIENT.id}:${CLIENT.secret}`).toString('base64')}`;
    expect(first?.headers.authorization === proof).toBe(provider.clientProof === 'basic');
    expect(first?.body.includes(CLIENT.secret)).toBe(provider.clientProof !== 'basic');
  });
});

test('Meta exchanges the token of a code for one that lasts', async () => {
  answers = [
    { status: 200, body: { access_token: 'short', expires_in: 3_600 } },
    { status: 200, body: { access_token: 'long', expires_in: 5_184_000 } },
  ];
  expect(await exchange('facebook', 'code=c')).toMatchObject({ grant: { tokens: { access: 'long' } } });
  expect(asked[1]?.body).toContain('fb_exchange_token=short');
});

test('Amazon and Salesforce are asked where the settings say, and Salesforce tells where its organization is', async () => {
  const eu = at('amazon', { region: 'https://advertising-api-eu.amazon.com' });
  expect(grants.authorizeUrl(eu, { ...BEGUN, state: 's' })).toMatch(
    /^https:\/\/eu\.account\.amazon\.com\/ap\/oa\?/,
  );
  const sandbox = { isSandbox: true };
  const tokens = { access_token: 'a1', refresh_token: 'r1' };
  answers = [
    { status: 200, body: { ...tokens, instance_url: 'https://acme--dev.sandbox.my.salesforce.com' } },
    { status: 200, body: { ...tokens, instance_url: 'https://evil.example/x.salesforce.com' } },
  ];
  expect(await exchange('salesforce', 'code=c', sandbox)).toMatchObject({
    grant: { settings: { instanceUrl: 'https://acme--dev.sandbox.my.salesforce.com' } },
  });
  expect(asked[0]?.url).toBe('https://test.salesforce.com/services/oauth2/token');
  expect(await exchange('salesforce', 'code=c')).toMatchObject({ kind: 'refused' });
});

test.each([
  ['google', 400, { error: 'invalid_grant' }, 'refused'],
  ['google', 401, { error: 'invalid_client' }, 'failed'],
  ['google', 500, { error: 'invalid_grant_no' }, 'failed'],
  ['google', 200, { error: 'no token' }, 'failed'],
  ['reddit', 400, { message: 'Bad Request', error: 400 }, 'refused'],
  [
    'salesforce',
    400,
    { error: 'invalid_grant', error_description: 'expired access/refresh token' },
    'refused',
  ],
  [
    'salesforce',
    400,
    { error: 'invalid_grant', error_description: 'token request is already being processed' },
    'failed',
  ],
])('a refresh at %s that is answered %i %j is %s', async (name, status, body, kind) => {
  answers = [{ status, body }];
  expect(await grants.refresh(at(name), { access: 'a1', refresh: 'r1' })).toMatchObject({ kind });
});

test('a service says when to ask again', async () => {
  answers = [{ status: 429, body: {}, headers: { 'retry-after': '7' } }];
  const tokens = { access: 'a1', refresh: 'r1' };
  expect(await grants.refresh(at('google'), tokens)).toEqual({
    kind: 'failed',
    reason: 'Google answered 429',
    afterMs: 7_000,
  });
});

test('a code that the service did not send, or refuses, is told without what was sent', async () => {
  expect(await exchange('google', 'error=access_denied')).toEqual({
    kind: 'refused',
    reason: 'Google sent no code: access_denied',
  });
  answers = [{ status: 400, body: { error: 'the-code is not valid' } }];
  expect(await exchange('google', 'code=the-code')).toEqual({
    kind: 'refused',
    reason: 'Google answered 400',
  });
});

test('tokens are revoked where the service documents an address for it', async () => {
  answers = [
    { status: 200, body: {} },
    { status: 503, body: {} },
  ];
  const tokens = { access: 'a1', refresh: 'r1' };
  expect(await grants.revoke(at('google'), tokens)).toBe(true);
  expect(asked[0]).toMatchObject({
    url: 'https://oauth2.googleapis.com/revoke',
    body: expect.stringContaining('token=r1'),
  });
  expect(await grants.revoke(at('google'), tokens)).toBe(false);
  expect(await grants.revoke(at('linkedin'), tokens)).toBe(false);
});
