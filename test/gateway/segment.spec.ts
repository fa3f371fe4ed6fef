import { gzipSync } from 'node:zlib';
import { type CanonicalEvent, TokenBuckets, Unavailable } from '@tributary/core';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { type InjectClient, openTestGateway, type TestGateway } from '../helpers/gateway.ts';

let test: TestGateway;
let owner: InjectClient;
let key: string;
beforeAll(async () => {
  test = await openTestGateway();
  owner = await test.openWorkspace();
  key = await makeKey();
});
afterEach(() => vi.restoreAllMocks());
afterAll(() => test.close());

const makeKey = async () =>
  (await owner.ok<{ key: string }>('POST', './event-keys', { name: 'Web', environment: 'production' })).key;

const basic = (user: string, password = '') => ({
  authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`,
});

interface Sent {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: Readonly<Record<string, unknown>>;
  /** What it gave to the log. */
  readonly events: readonly CanonicalEvent[];
}

/** Posts to a gateway in this process, and looks at what that hands to the log. */
async function send(
  url: string,
  payload: unknown,
  headers: Readonly<Record<string, string>> = basic(key),
): Promise<Sent> {
  const append = vi.spyOn(test.dependencies.log, 'append');
  const answer = await test.app.inject({
    method: 'POST',
    url,
    headers: { 'content-type': 'application/json', ...headers },
    payload: typeof payload === 'string' || Buffer.isBuffer(payload) ? payload : JSON.stringify(payload),
  });
  const events = append.mock.calls.flatMap(([, entries]) =>
    entries.map(({ value }) => JSON.parse(String(value)) as CanonicalEvent),
  );
  append.mockRestore();
  return { status: answer.statusCode, headers: answer.headers, body: answer.json(), events };
}

const track = { userId: 'u', event: 'Paid' };
const TAKEN = { status: 200, body: { success: true } };

describe('a call of the Segment API', () => {
  it.each([
    ['track', { event: 'Paid', properties: { total: 3 } }, { event: 'Paid', properties: { total: 3 } }],
    ['identify', { traits: { plan: 'pro' } }, { traits: { plan: 'pro' } }],
    ['page', { name: 'Home', properties: { url: '/' } }, { name: 'Home', properties: { url: '/' } }],
    ['group', { groupId: 'g', traits: { name: 'G' } }, { group_id: 'g', traits: { name: 'G' } }],
  ])('%s is taken at its name and at its letter', async (type, fields, ours) => {
    for (const path of [`/v1/${type}`, `/v1/${type.slice(0, 1)}`, `/v1/${type}/`]) {
      const sent = await send(path, { ...fields, userId: 'u', anonymousId: 'a', messageId: 'm' });
      expect(sent).toMatchObject(TAKEN);
      expect(sent.events).toMatchObject([
        { ...ours, type, message_id: 'm', user_id: 'u', anonymous_id: 'a' },
      ]);
    }
  });

  it('screen and alias become a page and an identify that say what they were', async () => {
    for (const path of ['/v1/screen', '/v1/s'])
      expect((await send(path, { userId: 'u', name: 'Home' })).events).toMatchObject([
        { type: 'page', name: 'Home', context: { screen: { name: 'Home' }, segment: { type: 'screen' } } },
      ]);
    for (const path of ['/v1/alias', '/v1/a'])
      expect((await send(path, { userId: 'u', previousId: 'p' })).events).toMatchObject([
        { type: 'identify', context: { alias: { previous_id: 'p' }, segment: { type: 'alias' } } },
      ]);
  });

  it('has the type of its path, whatever it says', async () => {
    expect((await send('/v1/track', { ...track, type: 'identify' })).events).toMatchObject([
      { type: 'track' },
    ]);
  });

  it('that lacks what its type needs is 400, in the words of who sent it', async () => {
    const sent = await send('/v1/track', { event: 'E' });
    expect(sent).toMatchObject({
      status: 400,
      body: {
        error: 'invalid request',
        code: 'invalid_request',
        message: 'invalid request: /userId userId or anonymousId is required',
        details: [{ path: '/userId', message: 'userId or anonymousId is required' }],
      },
      events: [],
    });
    expect(await send('/v1/group', { userId: 'u' })).toMatchObject({
      status: 400,
      body: { details: [{ path: '/groupId', message: 'is required' }] },
    });
    expect(await send('/v1/track', '[]')).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
    expect(await send('/v1/track', '{"event":')).toMatchObject({
      status: 400,
      body: { code: 'invalid_request' },
    });
  });

  it('that is too large is 413', async () => {
    const large = { ...track, properties: { text: 'x'.repeat(33 * 1024) } };
    expect(await send('/v1/track', large)).toMatchObject({
      status: 413,
      body: { code: 'payload_too_large' },
    });
  });

  it('gets a message id where it has none', async () => {
    expect((await send('/v1/track', track)).events[0]?.message_id).toMatch(/^[0-9a-f-]{36}$/);
  });

  it('has its time by the server’s clock', async () => {
    const { events } = await send('/v1/track', {
      ...track,
      timestamp: '2020-01-01T00:00:00Z',
      sentAt: '2020-01-01T00:00:04Z',
    });
    const [{ timestamp = '', received_at = '' } = {}] = events;
    expect(Date.parse(received_at) - Date.parse(timestamp)).toBe(4_000);
  });
});

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

describe('a body', () => {
  it.each([
    'text/plain',
    'text/plain;charset=UTF-8',
    'application/x-www-form-urlencoded',
    'application/json',
  ])('of %s is JSON, plain or in gzip', async (type) => {
    const text = JSON.stringify(track);
    expect(await send('/v1/track', text, { ...basic(key), 'content-type': type })).toMatchObject(TAKEN);
    expect(
      await send('/v1/track', gzipSync(text), {
        ...basic(key),
        'content-type': type,
        'content-encoding': 'gzip',
      }),
    ).toMatchObject(TAKEN);
    expect(await send('/v1/track', 'a=b', { ...basic(key), 'content-type': type })).toMatchObject({
      status: 400,
    });
  });

  it('of other types is 415, and the platform API takes JSON alone', async () => {
    expect(await send('/v1/track', 'x', { ...basic(key), 'content-type': 'application/xml' })).toMatchObject({
      status: 415,
    });
    const url = `/api/v1/workspaces/${owner.workspaceId}/events/track`;
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'text/plain' };
    expect(await send(url, { event: 'E', user_id: 'u' }, headers)).toMatchObject({ status: 415 });
  });
});

describe('a batch', () => {
  const good = { type: 'track', ...track };

  it.each(['/v1/batch', '/v1/b', '/v1/import', '/beacon/v1/batch'])(
    'at %s takes calls of all types',
    async (path) => {
      const batch = [
        good,
        { type: 'identify', userId: 'u' },
        { type: 'page', userId: 'u' },
        { type: 'screen', userId: 'u' },
        { type: 'group', userId: 'u', groupId: 'g' },
        { type: 'alias', userId: 'u', previousId: 'p' },
      ];
      const sent = await send(path, { batch, sentAt: new Date().toISOString() });
      expect(sent).toMatchObject(TAKEN);
      expect(sent.events.map(({ type }) => type)).toEqual([
        'track',
        'identify',
        'page',
        'page',
        'group',
        'identify',
      ]);
    },
  );

  it('takes the good and names the bad, so that SDKs send none again', async () => {
    const batch = [
      { type: 'nonsense', userId: 'u' },
      good,
      'text',
      { type: 'track', userId: {}, event: 'E' },
    ];
    const sent = await send('/v1/batch', { batch });
    expect(sent).toMatchObject({
      status: 200,
      body: {
        success: true,
        rejected: [
          {
            index: 0,
            error: 'invalid request',
            details: [
              { path: '/type', message: 'must be one of track, identify, page, screen, group, alias' },
            ],
          },
          { index: 2 },
          { index: 3, details: [{ path: '/userId', message: 'must be a string or null' }] },
        ],
      },
    });
    expect(sent.events).toHaveLength(1);
  });

  it('of bad ones alone is 400, and an empty one is nothing', async () => {
    expect(await send('/v1/batch', { batch: [{ type: 'track' }] })).toMatchObject({
      status: 400,
      body: { error: 'invalid request', rejected: [{ index: 0 }] },
      events: [],
    });
    expect(await send('/v1/batch', { batch: [] })).toMatchObject({ ...TAKEN, events: [] });
  });

  it('that is none, or of too many, is 400', async () => {
    expect(await send('/v1/batch', track)).toMatchObject({ status: 400 });
    expect(await send('/v1/batch', { batch: {} })).toMatchObject({ status: 400 });
    const many = Array.from({ length: 2_501 }, () => good);
    expect(await send('/v1/batch', { batch: many })).toMatchObject({ status: 400, events: [] });
  });

  it('is 429 with Retry-After, and none of it taken, for a key that sends more than it may', async () => {
    let now = 0;
    const events = new TokenBuckets({ perSecond: 1, burst: 2, clock: () => now });
    const limited = await openTestGateway({ folder: test.folder, dependencies: { limits: { events } } });
    onTestFinished(() => limited.close());
    const batchOf = async (size: number) =>
      limited.app.inject({
        method: 'POST',
        url: '/v1/batch',
        headers: basic(key),
        payload: { batch: Array.from({ length: size }, () => good) },
      });
    expect((await batchOf(2)).statusCode).toBe(200);
    const refused = await batchOf(1);
    expect([refused.statusCode, refused.headers['retry-after']]).toEqual([429, '1']);
    expect(refused.json()).toMatchObject({ error: 'too many requests', code: 'too_many_requests' });
    now += 1_000;
    expect((await batchOf(1)).statusCode).toBe(200);
  });

  it('is 503 with Retry-After, and the ids to send again with, while the log does not answer', async () => {
    const append = vi.spyOn(test.dependencies.log, 'append').mockRejectedValue(new Unavailable('down'));
    const answer = await test.app.inject({
      method: 'POST',
      url: '/v1/batch',
      headers: basic(key),
      payload: { batch: [{ ...good, messageId: 'm' }] },
    });
    expect(append).toHaveBeenCalled();
    expect([answer.statusCode, answer.headers['retry-after']]).toEqual([503, '1']);
    expect(answer.json()).toEqual({
      error: 'unavailable',
      code: 'unavailable',
      message: 'unavailable',
      message_ids: ['m'],
    });
  });
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
