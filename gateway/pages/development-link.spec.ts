import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FastifyInstance, InjectOptions } from 'fastify';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { openConsole } from './console.fixture.ts';

const SECRET = 'the-secret-of-this-start';
const HOST = '127.0.0.1:8080';
const OWN = { host: HOST, origin: `http://${HOST}`, 'sec-fetch-site': 'same-origin' };

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'tributary-console-'));
  writeFileSync(join(folder, 'index.html'), '<p>console</p>');
});
afterAll(() => rmSync(folder, { recursive: true }));

let now = 0;
let app: FastifyInstance;
beforeEach(async () => {
  const mint = async () => ({ token: 'a token', expiresAt: '2026-01-01T00:00:00.000Z' });
  const started = await openConsole({ folder, developmentLink: { secret: SECRET, mint } }, () => now);
  app = started;
  onTestFinished(() => started.close());
});

const call = ({ headers = OWN, ...options }: InjectOptions) =>
  app.inject({ url: '/console/session', method: 'POST', headers, ...options });
const exchange = (secret: string, options: InjectOptions = {}) => call({ payload: { secret }, ...options });
const cookieOf = (answer: Awaited<ReturnType<typeof call>>) =>
  String(answer.headers['set-cookie']).split(';')[0] ?? '';

describe('the link of tributary dev', () => {
  it('is exchanged once, for a token and a session of this browser', async () => {
    const answer = await exchange(SECRET);
    expect(answer.statusCode).toBe(200);
    expect(answer.json()).toEqual({ token: 'a token', expires_at: '2026-01-01T00:00:00.000Z' });
    expect(answer.headers['cache-control']).toBe('no-store');
    expect(answer.headers['set-cookie']).toMatch(
      /^tributary-console-8080=[\w-]{43}; Path=\/console\/session; HttpOnly; SameSite=Strict$/,
    );
    const cookie = cookieOf(answer);
    const renewed = await call({ headers: { ...OWN, cookie }, payload: {} });
    expect(renewed.json()).toMatchObject({ token: 'a token' });
    expect((await exchange(SECRET)).statusCode).toBe(401);
    // The session outlives the second attempt, and ends with the sign-out.
    expect((await call({ headers: { ...OWN, cookie }, payload: {} })).statusCode).toBe(200);
    expect((await call({ method: 'DELETE', headers: { ...OWN, cookie } })).statusCode).toBe(204);
    expect((await call({ headers: { ...OWN, cookie }, payload: {} })).statusCode).toBe(204);
  });

  it('returns nothing to a browser without a session', async () => {
    const answer = await call({ payload: {} });
    expect([answer.statusCode, answer.body]).toEqual([204, '']);
    const forged = await call({
      headers: { ...OWN, cookie: 'tributary-console-8080=forged' },
      payload: {},
    });
    expect(forged.statusCode).toBe(204);
  });

  it.each([
    ['another page', { origin: 'https://evil.example' }],
    ['another port of this machine', { origin: 'http://127.0.0.1:9999' }],
    ['a page without an origin', { origin: 'null' }],
    ['a program that names no origin', { origin: undefined }],
    ['a page that the browser says is of another site', { 'sec-fetch-site': 'cross-site' }],
    ['a page of another port, by the word of the browser', { 'sec-fetch-site': 'same-site' }],
    ['an address bar', { 'sec-fetch-site': 'none' }],
    ['a name that an attacker resolves to loopback', { host: 'evil.example', origin: 'http://evil.example' }],
    [
      'a name that ends like one of this machine',
      { host: 'localhost.evil.example', origin: 'http://localhost.evil.example' },
    ],
    ['a proxy for another machine', { 'x-forwarded-for': '203.0.113.7' }],
    ['a proxy that says it is for this machine', { 'x-forwarded-for': '127.0.0.1' }],
    ['a proxy by its newer header', { forwarded: 'for=203.0.113.7' }],
    ['a proxy that names itself', { via: '1.1 proxy' }],
  ])('is refused to %s, and stays valid for the browser of this machine', async (_, changed) => {
    const headers = Object.fromEntries(
      Object.entries({ ...OWN, ...changed }).filter(([, value]) => value !== undefined),
    ) as Record<string, string>;
    const answer = await exchange(SECRET, { headers });
    expect([answer.statusCode, answer.json()]).toEqual([403, { error: 'permission denied' }]);
    expect((await exchange(SECRET)).statusCode).toBe(200);
  });

  it('is refused to another machine, with any headers', async () => {
    expect((await exchange(SECRET, { remoteAddress: '203.0.113.7' })).statusCode).toBe(403);
    expect((await exchange(SECRET, { remoteAddress: '192.168.1.7' })).statusCode).toBe(403);
    expect((await exchange(SECRET, { remoteAddress: '::ffff:127.0.0.1' })).statusCode).toBe(200);
  });

  it('is not exchanged by GET, a form or a large body', async () => {
    const get = await app.inject({ url: `/console/session?secret=${SECRET}`, headers: OWN });
    expect(get.body).toBe('<p>console</p>');
    const form = { ...OWN, 'content-type': 'application/x-www-form-urlencoded' };
    expect((await call({ headers: form, payload: `secret=${SECRET}` })).statusCode).toBe(415);
    const text = { ...OWN, 'content-type': 'text/plain' };
    expect((await call({ headers: text, payload: JSON.stringify({ secret: SECRET }) })).statusCode).toBe(400);
    expect((await exchange('x'.repeat(2_000))).statusCode).toBe(413);
  });

  it('is throttled after a hundred guesses a minute, and the session stays valid', async () => {
    const cookie = cookieOf(await exchange(SECRET));
    for (let attempt = 0; attempt < 100; attempt++)
      expect((await exchange(`guess-${attempt}`)).statusCode).toBe(401);
    const throttled = await exchange('guess-101');
    expect([throttled.statusCode, throttled.headers['retry-after']]).toEqual([429, '60']);
    now += 60_000;
    expect((await call({ headers: { ...OWN, cookie }, payload: {} })).statusCode).toBe(200);
  });
});
