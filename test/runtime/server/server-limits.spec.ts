import { setTimeout as sleep } from 'node:timers/promises';
import { type RateLimiter, TokenBuckets, Unavailable } from '@tributary/core';
import { readConfig } from '@tributary/infra';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Client, eventually } from '../../helpers/client.ts';
import { open } from './raw-connection.ts';
import { openServedGateway } from './served-gateway.ts';

const { gateway, owner, writeKey, serve: served } = await openServedGateway();

async function serve(...told: Parameters<typeof served>) {
  const server = await served(...told);
  const person = new Client(server.url, owner.token, owner.workspaceId);
  return { ...server, person, producer: person.with({ token: writeKey }) };
}

describe('limits of a client', () => {
  const track = (producer: Client) => producer.call('POST', './events/track', { event: 'E', user_id: 'u' });
  const workspaces = (person: Client) => person.call('GET', '/workspaces');

  describe('of time and connections', () => {
    it('a stop waited for idle keep-alive connections: they end with it', async () => {
      const { log } = gateway.dependencies;
      const begun = Promise.withResolvers<void>();
      const slow = Object.create(log, {
        append: {
          value: async (...told: Parameters<typeof log.append>) => {
            begun.resolve();
            await sleep(300);
            return log.append(...told);
          },
        },
      });
      const { port, close } = await serve({}, { log: slow });
      const kept = await open(port);
      const body = JSON.stringify({ event: 'E', user_id: 'u' });
      kept.socket.write(
        `POST /api/v1/workspaces/${owner.workspaceId}/events/track HTTP/1.1\r\nhost: x\r\n` +
          `authorization: Bearer ${writeKey}\r\ncontent-type: application/json\r\n` +
          `content-length: ${body.length}\r\n\r\n${body}`,
      );
      await begun.promise;
      const stopsAt = performance.now();
      await close();
      // An idle connection is kept for 72 s.
      expect(performance.now() - stopsAt).toBeLessThan(30_000);
      await expect.poll(() => kept.answer()).toMatch(/^HTTP\/1.1 202 /);
      expect(kept.answer().toLowerCase()).toContain('connection: close');
    });

    it('headers that arrive byte by byte end with 408, while other requests are answered', async () => {
      const { port, person } = await serve({ headersTimeoutMs: 700 });
      const slow = await Promise.all(Array.from({ length: 50 }, () => open(port)));
      for (const one of slow) one.socket.write('POST /api/v1/workspaces HTTP/1.1\r\nhost: x\r\n');
      const dripping = setInterval(() => {
        for (const { socket } of slow) if (socket.writable) socket.write('a: b\r\n');
      }, 100);
      onTestFinished(() => clearInterval(dripping));
      const startedAt = performance.now();
      while (slow.some(({ isOver }) => !isOver())) {
        expect((await workspaces(person)).status).toBe(200);
        expect(performance.now() - startedAt).toBeLessThan(60_000);
        await sleep(50);
      }
      for (const { answer } of slow) expect(answer()).toMatch(/^HTTP\/1\.1 408 .*"request timeout"/s);
    });

    it('a body that arrives byte by byte ends with 408', async () => {
      const { port } = await serve({ requestTimeoutMs: 1_000 });
      const { socket, answer, isOver } = await open(port);
      const head = `POST /api/v1/workspaces/${owner.workspaceId}/events/track HTTP/1.1`;
      const headers = ['host: x', `authorization: Bearer ${writeKey}`, 'content-type: application/json'];
      socket.write(`${[head, ...headers, 'content-length: 1000'].join('\r\n')}\r\n\r\n`);
      const dripping = setInterval(() => socket.writable && socket.write(' '), 100);
      onTestFinished(() => clearInterval(dripping));
      await expect.poll(isOver).toBe(true);
      expect(answer()).toMatch(/^HTTP\/1\.1 408 /);
    });

    it('headers have at most 16 KiB', async () => {
      const { person } = await serve();
      expect(
        (await person.call('GET', '/workspaces', undefined, { 'x-long': 'a'.repeat(14_000) })).status,
      ).toBe(200);
      const refused = await person.call<{ details: unknown }>('GET', '/workspaces', undefined, {
        'x-long': 'a'.repeat(17_000),
      });
      expect(refused).toMatchObject({
        status: 400,
        body: { error: 'invalid request', details: [{ path: '', message: 'the headers are too large' }] },
      });
    });

    it('a connection that is idle for too long is closed', async () => {
      const { port } = await serve({ keepAliveTimeoutMs: 300 });
      const { socket, answer, isOver } = await open(port);
      socket.write('GET /livez HTTP/1.1\r\nhost: x\r\n\r\n');
      await expect.poll(answer).toMatch(/^HTTP\/1\.1 200 /);
      await expect.poll(isOver).toBe(true);
    });

    it('connections beyond the bound are closed, and new ones are accepted below it', async () => {
      const { port } = await serve({ maxConnections: 5 });
      const held = await Promise.all(Array.from({ length: 5 }, () => open(port)));
      for (const { socket, answer } of held) {
        socket.write('GET /livez HTTP/1.1\r\nhost: x\r\n\r\n');
        await expect.poll(answer).toMatch(/^HTTP\/1\.1 200 /);
      }
      const refused = await open(port);
      await expect.poll(refused.isOver).toBe(true);
      expect(refused.answer()).toBe('');
      held[0]?.socket.destroy();
      await expect
        .poll(async () => {
          const next = await open(port);
          next.socket.write('GET /livez HTTP/1.1\r\nhost: x\r\n\r\n');
          await sleep(100);
          return next.answer();
        })
        .toMatch(/^HTTP\/1\.1 200 /);
    });
  });

  describe('of calls', () => {
    it('events have a rate limit for each key: 429 with Retry-After, and a refused batch is refused as a whole', async () => {
      let now = 0;
      const events = new TokenBuckets({ perSecond: 10, burst: 20, clock: () => now });
      const { producer, person } = await serve({}, { limits: { events } });
      const batch = (size: number) =>
        producer.call('POST', './events/batch', {
          batch: Array.from({ length: size }, () => ({ type: 'track', event: 'E', user_id: 'u' })),
        });
      const end = () => gateway.dependencies.log.end('events.production', 0);
      expect((await batch(15)).status).toBe(202);
      expect((await track(producer)).status).toBe(202);
      const before = await end();
      const refused = await batch(15);
      expect(refused).toMatchObject({ status: 429, body: { error: 'too many requests' } });
      expect(refused.headers['retry-after']).toBe('2');
      expect(await end()).toBe(before);
      expect((await track(producer)).status).toBe(202);
      const other = await owner.ok<{ key: string }>('POST', './event-keys', {
        name: 'other',
        environment: 'production',
      });
      expect((await track(person.with({ token: other.key }))).status).toBe(202);
      now += 2_000;
      expect((await batch(15)).status).toBe(202);
    });

    it('refused events count too', async () => {
      const events = new TokenBuckets({ perSecond: 10, burst: 20, clock: () => 0 });
      const { producer } = await serve({}, { limits: { events } });
      const batch = Array.from({ length: 20 }, () => ({ type: 'track', event: 'E' }));
      const answer = await producer.call('POST', './events/batch', { batch });
      expect(answer).toMatchObject({ status: 202, body: { accepted: 0 } });
      expect((await track(producer)).status).toBe(429);
    });

    it('other calls have a rate limit for each credential, which does not apply to events', async () => {
      const taken: string[] = [];
      const calls: RateLimiter = {
        take: async (name) => (taken.push(name) > 3 ? 1_500 : 0),
        close: async () => {},
      };
      const { producer, person } = await serve({}, { limits: { calls } });
      for (let n = 0; n < 3; n++) expect((await workspaces(person)).status).toBe(200);
      const refused = await workspaces(person);
      expect(refused).toMatchObject({ status: 429, body: { error: 'too many requests' } });
      expect(refused.headers['retry-after']).toBe('2');
      expect((await track(producer)).status).toBe(202);
      expect(taken).toHaveLength(4);
      expect(new Set(taken).size).toBe(1);
      expect(taken[0]).toMatch(/^account:/);
    });

    it('calls are admitted while the rate limiter does not answer, and counted', async () => {
      const counted: string[] = [];
      const metrics = { ...gateway.dependencies.metrics, count: (name: string) => counted.push(name) };
      const calls: RateLimiter = {
        take: async () => {
          throw new Unavailable('Redis is away');
        },
        close: async () => {},
      };
      const { person } = await serve({}, { limits: { calls }, metrics });
      for (let n = 0; n < 3; n++) expect((await workspaces(person)).status).toBe(200);
      expect(counted.filter((name) => name === 'tributary_rate_limit_unchecked_total')).toHaveLength(3);
    });
  });

  describe('of failed authentications, by address', () => {
    const guess = (url: string, forwarded: string) =>
      fetch(`${url}/api/v1/workspaces`, {
        headers: { authorization: 'Bearer trb_api_wrong', 'x-forwarded-for': forwarded },
      }).then(({ status }) => status);

    it('an untrusted X-Forwarded-For is ignored', async () => {
      const { url } = await serve();
      for (let n = 0; n < 100; n++) expect(await guess(url, `203.0.113.${n}`)).toBe(401);
      expect(await guess(url, '203.0.113.250')).toBe(429);
    });

    it.each([
      ['an address', ['127.0.0.0/8']],
      ['one hop', 1],
    ])(
      'the address added by the trusted proxy counts, not those sent by the client: %s',
      async (_, trustProxy) => {
        const { url } = await serve({ trustProxy });
        for (let n = 0; n < 100; n++) expect(await guess(url, `10.0.0.${n}, 203.0.113.7`)).toBe(401);
        expect(await guess(url, '10.9.9.9, 203.0.113.7')).toBe(429);
        expect(await guess(url, '10.0.0.1, 203.0.113.8')).toBe(401);
      },
    );

    it('only as many hops as proxies are trusted', async () => {
      const { url } = await serve({ trustProxy: 2 });
      for (let n = 0; n < 100; n++) expect(await guess(url, `10.0.0.${n}, 203.0.113.7, 192.0.2.1`)).toBe(401);
      expect(await guess(url, '10.9.9.9, 203.0.113.7, 192.0.2.9')).toBe(429);
    });
  });

  describe('a request that a proxy may read differently', () => {
    const BODY = '{"event":"Smuggled","user_id":"u"}';
    const CHUNKED = `${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`;

    it.each([
      ['chunks in HTTP/1.0', `POST /v1/track HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n${CHUNKED}`],
      ['gzip in HTTP/1.0', `POST /v1/track HTTP/1.0\r\nTransfer-Encoding: gzip, chunked\r\n\r\n${CHUNKED}`],
      ['two hosts', 'GET /v1/track HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n'],
      ['one host twice', 'GET /healthz HTTP/1.1\r\nHOST: a.example\r\nhost: a.example\r\n\r\n'],
    ])('was carried out: %s is 400, and its connection ends', async (_, request) => {
      const { port } = await serve();
      const { socket, answer, isOver } = await open(port);
      socket.write(`${request}GET /healthz HTTP/1.1\r\nHost: a.example\r\n\r\n`);
      await eventually(isOver, (over) => over);
      expect(answer()).toMatch(/^HTTP\/1\.1 400 /);
      expect(answer().match(/HTTP\/1\.1/g)).toHaveLength(1);
    });
  });

  describe('for pages of other origins', () => {
    const preflight = (url: string, path: string, method = 'POST') =>
      fetch(`${url}/api/v1/workspaces/${owner.workspaceId}/${path}`, {
        method: 'OPTIONS',
        headers: {
          origin: 'https://shop.example',
          'access-control-request-method': method,
          'access-control-request-headers': 'authorization,content-type',
        },
      });

    it('any page can send events, and nothing else', async () => {
      const { url } = await serve();
      for (const type of ['track', 'identify', 'page', 'group', 'batch']) {
        const answer = await preflight(url, `events/${type}`);
        expect(answer.status).toBe(204);
        expect(answer.headers.get('access-control-allow-origin')).toBe('*');
        expect(answer.headers.get('access-control-allow-headers')).toContain('authorization');
        expect(answer.headers.get('access-control-allow-credentials')).toBeNull();
      }
      for (const path of ['event-keys', 'api-keys', 'events/live', 'events/tracks', 'events/track/x']) {
        const answer = await preflight(url, path);
        expect(answer.headers.get('access-control-allow-origin')).toBeNull();
        expect(answer.status).toBe(path === 'events/track/x' ? 404 : 405);
      }
    });

    it('a page can read the response to an event, also a refusal', async () => {
      const { url } = await serve();
      const send = (token: string) =>
        fetch(`${url}/api/v1/workspaces/${owner.workspaceId}/events/track`, {
          method: 'POST',
          headers: {
            origin: 'https://shop.example',
            authorization: `Bearer ${token}`,
            'content-type': 'application/json',
          },
          body: JSON.stringify({ event: 'E', user_id: 'u' }),
        });
      for (const [token, status] of [
        [writeKey, 202],
        ['trb_wk_wrong', 401],
      ] as const) {
        const answer = await send(token);
        expect(answer.status).toBe(status);
        expect(answer.headers.get('access-control-allow-origin')).toBe('*');
      }
    });

    it('only configured pages can call the platform API', async () => {
      const crossOrigin = { origins: ['https://console.example'], ingestionOrigins: [] };
      const { url } = await serve({}, { crossOrigin });
      const from = (origin: string) =>
        fetch(`${url}/api/v1/workspaces`, { headers: { origin, authorization: `Bearer ${owner.token}` } });
      const known = await from('https://console.example');
      expect(known.headers.get('access-control-allow-origin')).toBe('https://console.example');
      expect(known.headers.get('vary')).toMatch(/origin/i);
      expect((await from('https://evil.example')).headers.get('access-control-allow-origin')).toBeNull();
      expect((await preflight(url, 'events/track')).headers.get('access-control-allow-origin')).toBeNull();
    });
  });

  it('every response has nosniff and no-store headers', async () => {
    const { url, person } = await serve({ hstsMs: 3_600_000 });
    for (const answer of [
      await workspaces(person),
      await person.with({ token: 'nobody' }).call('GET', '/workspaces'),
      await person.call('GET', '/nowhere'),
      await person.call('POST', '/workspaces', { nonsense: 1 }),
      { headers: Object.fromEntries((await fetch(`${url}/livez`)).headers) },
    ]) {
      expect(answer.headers['x-content-type-options']).toBe('nosniff');
      expect(answer.headers['cache-control']).toBe('no-store');
      expect(answer.headers['strict-transport-security']).toBe('max-age=3600');
      expect(answer.headers['x-powered-by']).toBeUndefined();
    }
    const plain = await serve();
    expect((await workspaces(plain.person)).headers['strict-transport-security']).toBeUndefined();
  });
});

describe('the settings of limits', () => {
  it('accept a number of proxies or their addresses, and nothing else', () => {
    expect(readConfig({ TRUST_PROXY: '2' }).trustProxy).toBe(2);
    expect(readConfig({ TRUST_PROXY: '10.0.0.0/8, 192.0.2.1' }).trustProxy).toEqual([
      '10.0.0.0/8',
      '192.0.2.1',
    ]);
    for (const wrong of ['0', '33', 'true', 'loopback', '10.0.0.0/33', '1,2', '-1', '1.5'])
      expect(() => readConfig({ TRUST_PROXY: wrong }), wrong).toThrow('TRUST_PROXY');
  });

  it('accept origins in the form of browsers', () => {
    const read = (value: string) => readConfig({ TRIBUTARY_CORS_ORIGINS: value }).corsOrigins;
    expect(read('https://a.example, http://localhost:5173')).toEqual([
      'https://a.example',
      'http://localhost:5173',
    ]);
    for (const wrong of [
      'a.example',
      'https://a.example/',
      'https://a.example/x',
      'https://*.example',
      'null',
    ])
      expect(() => read(wrong), wrong).toThrow('is no origin');
    expect(readConfig({ TRIBUTARY_CORS_EVENT_ORIGINS: 'none' }).corsEventOrigins).toEqual([]);
    expect(readConfig({}).corsEventOrigins).toEqual(['*']);
  });
});
