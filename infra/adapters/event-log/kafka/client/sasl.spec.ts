import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { Unavailable } from '@tributary/core';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { type BearerToken, bearerMessage, renewedTokens, requestToken, signMskToken } from './sasl.ts';

/** An issuer of numbered tokens that live for 100 s, with a clock to set. */
function issuer() {
  const state = { now: 0, requests: 0, isDown: false };
  const request = async (): Promise<BearerToken> => {
    state.requests++;
    if (state.isDown) throw new Error('down');
    return { value: `token ${state.requests}`, expiresAt: state.now + 100_000 };
  };
  return { state, token: renewedTokens(request, () => state.now) };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

describe('tokens for Kafka', () => {
  it('are shared by all connections, and renewed before they expire without a wait', async () => {
    const { state, token } = issuer();
    expect(await Promise.all([token(), token(), token()])).toEqual(['token 1', 'token 1', 'token 1']);
    state.now = 49_999;
    expect(await token()).toBe('token 1');
    expect(state.requests).toBe(1);
    state.now = 50_000;
    expect(await token()).toBe('token 1');
    await settled();
    expect(await token()).toBe('token 2');
    expect(state.requests).toBe(2);
  });

  it('are used until they expire while the issuer is down, and asked for once a second', async () => {
    const { state, token } = issuer();
    await token();
    state.isDown = true;
    state.now = 97_000;
    for (let call = 0; call < 5; call++) {
      expect(await token()).toBe('token 1');
      await settled();
    }
    expect(state.requests).toBe(2);
    state.now = 99_000;
    await expect(token()).rejects.toThrow(Unavailable);
    await expect(token()).rejects.toThrow('no token for Kafka: down');
    expect(state.requests).toBe(3);
    state.isDown = false;
    state.now = 100_000;
    expect(await token()).toBe('token 4');
  });
});

/** Serves one answer, and records what it was asked. */
async function endpoint(status: number, answer: unknown) {
  const asked: { headers: IncomingMessage['headers']; body: string }[] = [];
  const server = createServer(async (request, response) => {
    asked.push({ headers: request.headers, body: await text(request) });
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return { tokenUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/token`, asked };
}

describe('the client credentials grant', () => {
  const client = { clientId: 'tributary', clientSecret: 'a secret: &more' };

  it('sends the credentials as RFC 6749 requires, and reads the life of the token from the response', async () => {
    const { tokenUrl, asked } = await endpoint(200, { access_token: 'abc', expires_in: 60 });
    const before = Date.now();
    const token = await requestToken({ tokenUrl, ...client, scope: 'kafka' });
    expect(token.value).toBe('abc');
    expect(token.expiresAt).toBeGreaterThanOrEqual(before + 60_000);
    expect(token.expiresAt).toBeLessThanOrEqual(Date.now() + 60_000);
    const basic = Buffer.from('tributary:a%20secret%3A%20%26more').toString('base64');
    expect(asked[0]).toMatchObject({
      headers: { authorization: `Basic ${basic}`, 'content-type': expect.stringContaining('urlencoded') },
      body: 'grant_type=client_credentials&scope=kafka',
    });
  });

  it.each([
    [401, { error: 'invalid_client' }, /\/token answered 401 \(invalid_client\)$/],
    [500, 'oops', /\/token answered 500$/],
    [200, { token: 'abc' }, /\/token answered without an access_token$/],
  ])('states the response of the issuer, without the secret: %i', async (status, answer, message) => {
    const { tokenUrl } = await endpoint(status, answer);
    const failure = await requestToken({ tokenUrl, ...client }).catch((error: Error) => error.message);
    expect(failure).toMatch(message);
    expect(failure).not.toContain('secret');
  });

  it('states that no server listens', async () => {
    await expect(requestToken({ tokenUrl: 'http://127.0.0.1:1/token', ...client })).rejects.toThrow(
      /127.0.0.1:1\/token cannot be reached/,
    );
  });
});

it('the first message of OAUTHBEARER has these bytes', () => {
  expect(bearerMessage('abc')).toBe('n,,\x01auth=Bearer abc\x01\x01');
  expect(bearerMessage('abc', { logicalCluster: 'lkc-1', identityPoolId: 'pool-2' })).toBe(
    'n,,\x01auth=Bearer abc\x01logicalCluster=lkc-1\x01identityPoolId=pool-2\x01\x01',
  );
});

it('a token of MSK is a signed request to connect, with the credentials of the environment', async () => {
  onTestFinished(() => void vi.unstubAllEnvs());
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'AKIDEXAMPLE');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'of the tests');
  const { value, expiresAt } = await signMskToken('eu-central-1');
  const url = new URL(Buffer.from(value, 'base64url').toString());
  expect(url.host).toBe('kafka.eu-central-1.amazonaws.com');
  expect(url.searchParams.get('Action')).toBe('kafka-cluster:Connect');
  expect(url.searchParams.get('X-Amz-Credential')).toMatch(
    /^AKIDEXAMPLE\/\d{8}\/eu-central-1\/kafka-cluster\/aws4_request$/,
  );
  expect(url.searchParams.get('X-Amz-Signature')).toMatch(/^[0-9a-f]{64}$/);
  expect(expiresAt - Date.now()).toBeGreaterThan(800_000);
});
