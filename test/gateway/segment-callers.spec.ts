import { connect } from 'node:net';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { InjectClient, TestGateway } from '../helpers/gateway.ts';
import { basic, openSegmentGateway, type SegmentGateway } from '../helpers/segment-client.ts';

let test: TestGateway;
let owner: InjectClient;
let key: string;
let send: SegmentGateway['send'];
beforeAll(async () => {
  ({ test, owner, key, send } = await openSegmentGateway());
});
afterAll(() => test.close());

const track = { userId: 'u', event: 'Paid' };
const TAKEN = { status: 200, body: { success: true } };

describe('the write key', () => {
  const bodyOf = (extra: object = {}) => ({ ...track, ...extra });

  it('may be the user of Basic, a bearer, in the body or in the query', async () => {
    expect(await send('/v1/track', bodyOf())).toMatchObject(TAKEN);
    expect(await send('/v1/track', bodyOf(), basic(key, 'a password'))).toMatchObject(TAKEN);
    expect(await send('/v1/track', bodyOf(), { authorization: `Bearer ${key}` })).toMatchObject(TAKEN);
    expect(await send('/v1/track', bodyOf({ writeKey: key }), {})).toMatchObject(TAKEN);
    expect(
      await send('/v1/batch', { batch: [{ type: 'track', ...track }], writeKey: key }, {}),
    ).toMatchObject(TAKEN);
    expect(
      await send(`/beacon/v1/batch?writeKey=${key}`, { batch: [{ type: 'track', ...track }] }, {}),
    ).toMatchObject(TAKEN);
  });

  it('is never kept', async () => {
    const { events } = await send('/v1/track', bodyOf({ writeKey: key }), {});
    expect(JSON.stringify(events)).not.toContain(key);
  });

  it('of a header is the one that counts, whatever stands elsewhere', async () => {
    for (const authorization of ['Basic !', 'Digest x', basic('nonsense').authorization, ''])
      expect(await send('/v1/track', bodyOf({ writeKey: key }), { authorization })).toMatchObject({
        status: 401,
      });
  });

  it('that is missing, of another kind or revoked is refused, in words that SDKs read', async () => {
    expect(await send('/v1/track', track, {})).toMatchObject({
      status: 401,
      body: { error: 'not authenticated', code: 'not_authenticated', message: 'not authenticated' },
    });
    for (const writeKey of [17, null, [key], 'nonsense'])
      expect(await send('/v1/track', bodyOf({ writeKey }), {})).toMatchObject({ status: 401 });
    const { token = '' } = await owner.withApiKey('admin');
    expect(await send('/v1/track', bodyOf({ writeKey: token }), {})).toMatchObject({
      status: 403,
      body: { code: 'permission_denied' },
      events: [],
    });
    const { id, key: revoked } = await owner.ok<{ id: string; key: string }>('POST', './event-keys', {
      name: 'Old',
      environment: 'production',
    });
    await owner.ok('DELETE', `./event-keys/${id}`);
    expect(await send('/v1/track', bodyOf({ writeKey: revoked }), {})).toMatchObject({
      status: 401,
      events: [],
    });
  });

  it('of an archived workspace is 403, in the body as in a header', async () => {
    const other = await test.openWorkspace('other@example.com');
    const made = await other.ok<{ key: string }>('POST', './event-keys', {
      name: 'k',
      environment: 'production',
    });
    await other.ok('DELETE', `/workspaces/${other.workspaceId}`);
    expect(await send('/v1/track', track, basic(made.key))).toMatchObject({ status: 403, events: [] });
    expect(await send('/v1/track', bodyOf({ writeKey: made.key }), {})).toMatchObject({
      status: 403,
      events: [],
    });
  });

  it('in a body opens no call of the platform API', async () => {
    const answer = await test.app.inject({
      method: 'POST',
      url: `/api/v1/workspaces/${owner.workspaceId}/events/track?writeKey=${key}`,
      payload: { event: 'E', user_id: 'u', writeKey: key },
    });
    expect(answer.statusCode).toBe(401);
  });
});

it('compressed bodies of callers who have shown no key are few at a time: a few bytes of each may fill megabytes', async () => {
  const url = new URL(await test.app.listen({ host: '127.0.0.1', port: 0 }));
  const head = `POST /v1/batch HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n`;
  const bomb = gzipSync(Buffer.alloc(1_000_000, ' '));
  const held = Array.from({ length: 16 }, () => connect(Number(url.port), url.hostname));
  for (const socket of held) socket.write(`${head}content-length: ${bomb.length}\r\n\r\n`);
  for (const socket of held) socket.write(bomb.subarray(0, -1));
  const plain = () =>
    fetch(`${url}v1/batch`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ batch: [{ type: 'track', ...track }], writeKey: key }),
    });
  const packed = () =>
    fetch(`${url}v1/batch`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
      body: gzipSync(JSON.stringify({ batch: [{ type: 'track', ...track }], writeKey: key })),
    });
  await expect.poll(async () => (await packed()).status).toBe(503);
  expect((await plain()).status).toBe(200);
  for (const socket of held) socket.destroy();
  await expect.poll(async () => (await packed()).status).toBe(200);
});

describe('what SDKs load before they send', () => {
  const get = async (url: string, headers: Readonly<Record<string, string>> = {}) => {
    const answer = await test.app.inject({
      method: 'GET',
      url,
      headers: { host: 'events.example:8080', ...headers },
    });
    return { status: answer.statusCode, body: answer.json(), headers: answer.headers };
  };

  it('tells analytics.js to send to where it asked', async () => {
    expect(await get(`/v1/projects/${key}/settings`)).toMatchObject({
      status: 200,
      body: {
        integrations: { 'Segment.io': { apiKey: key, apiHost: 'events.example:8080/v1', protocol: 'http' } },
        metrics: { sampleRate: 0 },
      },
    });
    expect(await get('/v1/projects/nonsense/settings')).toMatchObject({ status: 401 });
  });

  it('tells RudderStack’s SDKs that the source is on', async () => {
    for (const [url, headers] of [
      ['/sourceConfig/?p=web&v=3', basic(key)],
      [`/sourceConfig?writeKey=${key}`, {}],
    ] as const)
      expect(await get(url, headers)).toMatchObject({
        status: 200,
        body: { source: { writeKey: key, enabled: true, workspaceId: owner.workspaceId, destinations: [] } },
      });
    expect(await get('/sourceConfig')).toMatchObject({ status: 401 });
  });

  it('takes what analytics.js measures of itself, and stores none of it', async () => {
    const series = [{ type: 'Counter', metric: 'analytics_js.invoke', value: 1, tags: {} }];
    expect(await send('/v1/m', { series }, { 'content-type': 'text/plain' })).toMatchObject({
      ...TAKEN,
      events: [],
    });
  });
});

describe('a page of another origin', () => {
  const preflight = async (url: string, headers: string) =>
    (
      await test.app.inject({
        method: 'OPTIONS',
        url,
        headers: {
          origin: 'https://shop.example',
          'access-control-request-method': 'POST',
          'access-control-request-headers': headers,
        },
      })
    ).headers;

  it('may send, with the headers its SDK adds and what the browser adds to a beacon', async () => {
    for (const path of [
      '/v1/batch',
      '/beacon/v1/batch?writeKey=x',
      '/sourceConfig',
      '/v1/projects/x/settings',
    ])
      expect(await preflight(path, 'anonymousid, x-retry-count')).toMatchObject({
        'access-control-allow-origin': 'https://shop.example',
        'access-control-allow-credentials': 'true',
        'access-control-allow-headers': 'anonymousid, x-retry-count',
      });
  });

  it('may do so at no other address that looks like it', async () => {
    for (const path of ['/v1', '/v2/batch', '/api/v1/workspaces', '/cdp/v1/users'])
      expect(await preflight(path, 'authorization')).not.toHaveProperty('access-control-allow-origin');
  });
});

describe('a compressed body of somebody who has shown no key', () => {
  const JSON_BODY = { 'content-type': 'application/json' };
  /** 256 MiB, which take about a second to inflate, in some hundred bytes. */
  const BOMB = brotliCompressSync(Buffer.alloc(256 * 1024 * 1024), {
    params: { [constants.BROTLI_PARAM_QUALITY]: 5 },
  });

  it.each([
    ['br', BOMB],
    ['gzip', gzipSync(Buffer.alloc(64 * 1024 * 1024))],
  ])(
    'went on inflating behind its 413, with nobody left to read it: it ends there (%s)',
    async (encoding, payload) => {
      const { statusCode } = await test.app.inject({
        method: 'POST',
        url: '/v1/track',
        headers: { ...JSON_BODY, 'content-encoding': encoding },
        payload,
      });
      expect(statusCode).toBe(413);
      const used = process.cpuUsage();
      await new Promise((resolve) => setTimeout(resolve, 300));
      const { user, system } = process.cpuUsage(used);
      expect((user + system) / 1_000).toBeLessThan(150);
    },
  );

  it('cost half a second of everybody’s time before its 401: it is 512 KiB at most, inflated; with a key in a header 4 MiB', async () => {
    const event = { type: 'track', ...track, properties: { text: 'x'.repeat(30_000) } };
    const batch = Array.from({ length: 20 }, () => event);
    const payload = gzipSync(JSON.stringify({ batch, writeKey: key }));
    const plain = JSON.stringify({ batch, writeKey: key });
    const post = async (body: string | Buffer, headers: Readonly<Record<string, string>>) => {
      const answer = await test.app.inject({
        method: 'POST',
        url: '/v1/batch',
        headers: { ...JSON_BODY, ...headers },
        payload: body,
      });
      return answer.statusCode;
    };
    const packed = { 'content-encoding': 'gzip' };
    expect([await post(payload, packed), await post(plain, {})]).toEqual([413, 413]);
    expect(await post(payload, { ...packed, ...basic(key) })).toBe(200);
    const half = JSON.stringify({ batch: batch.slice(0, 10), writeKey: key });
    expect([await post(gzipSync(half), packed), await post(half, {})]).toEqual([200, 200]);
  });

  it('was read where nobody has to show one: what pages find out about themselves is not even inflated', async () => {
    const answer = await test.app.inject({
      method: 'POST',
      url: '/v1/m',
      headers: { ...JSON_BODY, 'content-encoding': 'br' },
      payload: BOMB,
    });
    expect(answer.statusCode).toBe(200);
    expect(answer.json()).toEqual({ success: true });
  });

  it.each([
    ['compress', 'x', 415],
    ['gzip', 'not gzip', 400],
    ['gzip', gzipSync('{"a":').subarray(0, 20), 400],
    ['GZIP', gzipSync(JSON.stringify(track)), 401],
    ['identity', JSON.stringify(track), 401],
  ])('says what it is not: %s', async (encoding, payload, status) => {
    const { statusCode } = await test.app.inject({
      method: 'POST',
      url: '/v1/track',
      headers: { ...JSON_BODY, 'content-encoding': encoding },
      payload,
    });
    expect(statusCode).toBe(status);
  });
});
