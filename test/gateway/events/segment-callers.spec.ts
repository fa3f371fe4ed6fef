import { afterAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { openTestGateway, type TestGateway } from '../../helpers/gateway.ts';
import { basic, openSegmentGateway } from '../../helpers/segment-client.ts';

const { test, owner, key, send } = await openSegmentGateway();
afterAll(() => test.close());

const track = { userId: 'u', event: 'Paid' };
const TAKEN = { status: 200, body: { success: true } };

describe('the write key', () => {
  const bodyOf = (extra: object = {}) => ({ ...track, ...extra });

  it('is accepted as the user of Basic, as a bearer token, in the body or in the query', async () => {
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

  it('is never stored', async () => {
    const { events } = await send('/v1/track', bodyOf({ writeKey: key }), {});
    expect(JSON.stringify(events)).not.toContain(key);
  });

  it('takes precedence in a header over one in the body or query', async () => {
    for (const authorization of ['Basic !', 'Digest x', basic('nonsense').authorization, ''])
      expect(await send('/v1/track', bodyOf({ writeKey: key }), { authorization })).toMatchObject({
        status: 401,
      });
  });

  it('is refused in the format that SDKs read if it is missing, of another kind or revoked', async () => {
    expect(await send('/v1/track', track, {})).toMatchObject({
      status: 401,
      body: {
        error: 'not authenticated',
        code: 'not_authenticated',
        message: 'not authenticated: no credential; this call takes a write key',
      },
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

  it('is 403 for an archived workspace, in the body as in a header', async () => {
    const other = await test.openWorkspace('other@example.com');
    const theirs = await other.writeKey();
    await other.ok('DELETE', `/workspaces/${other.workspaceId}`);
    expect(await send('/v1/track', track, basic(theirs))).toMatchObject({ status: 403, events: [] });
    expect(await send('/v1/track', bodyOf({ writeKey: theirs }), {})).toMatchObject({
      status: 403,
      events: [],
    });
  });

  it('is not accepted in a body by the platform API', async () => {
    const answer = await test.app.inject({
      method: 'POST',
      url: `/api/v1/workspaces/${owner.workspaceId}/events/track?writeKey=${key}`,
      payload: { event: 'E', user_id: 'u', writeKey: key },
    });
    expect(answer.statusCode).toBe(401);
  });
});

describe('the settings that SDKs load', () => {
  const get = async (url: string, headers: Readonly<Record<string, string>> = {}) => {
    const answer = await test.app.inject({
      method: 'GET',
      url,
      headers: { host: 'events.example:8080', ...headers },
    });
    return { status: answer.statusCode, body: answer.json(), headers: answer.headers };
  };

  it('direct analytics.js to the host that it was loaded from', async () => {
    expect(await get(`/v1/projects/${key}/settings`)).toMatchObject({
      status: 200,
      body: {
        integrations: { 'Segment.io': { apiKey: key, apiHost: 'events.example:8080/v1', protocol: 'http' } },
        metrics: { sampleRate: 0 },
      },
    });
    expect(await get('/v1/projects/nonsense/settings')).toMatchObject({ status: 401 });
  });

  it('state to RudderStack’s SDKs that the source is enabled', async () => {
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

  it('include a route that accepts metrics of analytics.js and stores none of them', async () => {
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

  it('can send, with the headers of its SDK and those of a beacon', async () => {
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

  it('could not send with the headers that tracing adds in a page', async () => {
    const crossOrigin = { origins: ['https://shop.example'] };
    const gateway = await openTestGateway({ folder: test.folder, dependencies: { crossOrigin } });
    onTestFinished(() => gateway.close());
    const tracing = 'authorization,tracestate,baggage,sentry-trace,x-datadog-trace-id';
    for (const [path, asked] of [
      ['events/track', `${tracing},x-of-some-agent`],
      ['event-keys', tracing],
    ] as const) {
      const { headers } = await gateway.app.inject({
        method: 'OPTIONS',
        url: `/api/v1/workspaces/${owner.workspaceId}/${path}`,
        headers: {
          origin: 'https://shop.example',
          'access-control-request-method': 'POST',
          'access-control-request-headers': asked,
        },
      });
      const allowed = String(headers['access-control-allow-headers']).split(/,\s*/);
      expect(allowed).toEqual(expect.arrayContaining(asked.split(',')));
    }
  });

  it('sent a preflight request before each event, and could not send to a private network', async () => {
    const ask = async (url: string) => {
      const asked = {
        'access-control-request-method': 'POST',
        'access-control-request-private-network': 'true',
      };
      const headers = { origin: 'https://shop.example', ...asked };
      return (await test.app.inject({ method: 'OPTIONS', url, headers })).headers;
    };
    for (const path of ['/api/v1/workspaces/w/events/track', '/v1/batch'])
      expect(await ask(path)).toMatchObject({
        'access-control-allow-private-network': 'true',
        'access-control-max-age': '600',
        vary: expect.stringMatching(/access-control-request-headers/i),
      });
    expect(await ask('/api/v1/workspaces')).not.toHaveProperty('access-control-allow-private-network');
  });

  it('can call no other route with a similar path', async () => {
    for (const path of ['/v1', '/v2/batch', '/api/v1/workspaces', '/cdp/v1/users'])
      expect(await preflight(path, 'authorization')).not.toHaveProperty('access-control-allow-origin');
  });
});

describe('the address that analytics.js receives for its events', () => {
  const told = async (gateway: TestGateway, headers: Record<string, string> = {}) => {
    const url = `/v1/projects/${key}/settings`;
    const answer = await gateway.app.inject({ url, headers: { host: 'inner:8080', ...headers } });
    const { protocol, apiHost } = answer.json().integrations['Segment.io'];
    return `${protocol}://${apiHost}`;
  };

  it('was the internal one behind a proxy, without a hint at the setting for it', async () => {
    const warn = vi.spyOn(test.dependencies.logger, 'warn');
    const proxied = { 'x-forwarded-proto': 'https' };
    expect(await told(test)).toBe('http://inner:8080/v1');
    expect(warn).not.toHaveBeenCalled();
    for (let n = 0; n < 2; n++) expect(await told(test, proxied)).toBe('http://inner:8080/v1');
    expect(warn).toHaveBeenCalledExactlyOnceWith(
      { protocol: 'http' },
      expect.stringContaining('TRIBUTARY_PUBLIC_URL'),
    );
    warn.mockRestore();
  });

  it('is the public one if it is configured', async () => {
    const publicUrl = 'https://collect.shop.example:8443';
    const gateway = await openTestGateway({ folder: test.folder, dependencies: { publicUrl } });
    onTestFinished(() => gateway.close());
    expect(await told(gateway)).toBe(`${publicUrl}/v1`);
  });
});
