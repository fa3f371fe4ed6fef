import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { FastifyInstance } from 'fastify';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openConsole } from './console.fixture.ts';

const INDEX =
  '<meta name="style-nonce" content="__STYLE_NONCE__" /><script src="/console/assets/a-1.js"></script>';

describe('the console', () => {
  let app: FastifyInstance;
  let folder: string;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'tributary-console-'));
    mkdirSync(join(folder, 'assets'));
    writeFileSync(join(folder, 'secret.json'), 'not to be served');
    writeFileSync(join(folder, 'icon.svg'), '<svg/>');
    writeFileSync(join(folder, 'assets/a-1.js'), 'script');
    writeFileSync(join(folder, 'assets/a-1.js.gz'), gzipSync('script'));
    const issuers = [{ issuer: 'https://issuer.example/realms/a', clientId: 'console' }];
    const endpointOrigins = () => ['https://token.example', 'https://issuer.example'];
    app = await openConsole({ folder, issuers, endpointOrigins });
  });
  afterAll(async () => {
    await app.close();
    rmSync(folder, { recursive: true });
  });
  const get = (url: string, headers: Record<string, string> = {}) => app.inject({ url, headers });

  it('states in one line how to build it, until it is built', async () => {
    const answer = await get('/console/');
    expect([answer.statusCode, answer.body]).toEqual([
      404,
      'The console is not built. Run: npm run build -w console\n',
    ]);
    writeFileSync(join(folder, 'index.html'), INDEX);
    expect((await get('/console/')).statusCode).toBe(200);
  });

  it('is the target of the redirect from /', async () => {
    const answer = await get('/');
    expect([answer.statusCode, answer.headers.location]).toEqual([302, '/console/']);
  });

  it('has a content security policy with a new nonce for each page, which allows only the console and its issuers', async () => {
    const pages = [await get('/console/'), await get('/console/')];
    const nonces = pages.map(({ body }) => /content="([^"]+)"/.exec(body)?.[1]);
    expect(new Set(nonces).size).toBe(2);
    expect(pages[0]?.headers).toMatchObject({
      'cache-control': 'no-cache',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cross-origin-opener-policy': 'same-origin-allow-popups',
      'content-security-policy': [
        "default-src 'none'",
        "script-src 'self'",
        `style-src 'self' 'nonce-${nonces[0]}'`,
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self' https://issuer.example https://token.example",
        "frame-src 'self' https://issuer.example https://token.example",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
      ].join('; '),
    });
  });

  it.each(['/console', '/console/w/0190/events/a.b.c', '/console/w/x/rules?q=y', '/console/secret.json'])(
    'returns its page for the path of a page: %s',
    async (url) => {
      expect((await get(url)).body).toContain('/console/assets/a-1.js');
    },
  );

  it('has assets that are cached for a year, compressed if the browser accepts it', async () => {
    const plain = await get('/console/assets/a-1.js');
    expect(plain.body).toBe('script');
    expect(plain.headers['cache-control']).toBe('public, max-age=31536000, immutable');
    const packed = await get('/console/assets/a-1.js', { 'accept-encoding': 'gzip' });
    expect(packed.headers).toMatchObject({
      'content-encoding': 'gzip',
      'content-type': expect.stringMatching(/javascript/),
      vary: expect.stringMatching(/accept-encoding/),
    });
    expect((await get('/console/icon.svg')).headers['cache-control']).toBe('public, max-age=0');
  });

  it.each(['/console/assets/b-2.js', '/console/none.svg', '/console/assets/../secret.json'])(
    'serves no other file: %s',
    async (url) => {
      const { statusCode, body } = await get(url);
      expect(body).not.toContain('not to be served');
      if (!url.includes('..')) expect([statusCode, body]).toEqual([404, '{"error":"not found"}']);
    },
  );

  it('lists its issuers, and has nothing to exchange without a development link', async () => {
    expect((await get('/console/config.json')).json()).toEqual({
      version: '1.2.3',
      issuers: [{ issuer: 'https://issuer.example/realms/a', client_id: 'console' }],
      development_link: false,
    });
    const exchange = await app.inject({ method: 'POST', url: '/console/session', payload: {} });
    expect(exchange.statusCode).toBe(404);
  });

  it('has a page for the redirect of an issuer, which only its own pages can frame', async () => {
    writeFileSync(join(folder, 'signed-in.html'), 'back');
    const answer = await get('/console/signed-in?code=abc');
    expect(answer.body).toBe('back');
    expect(answer.headers['content-security-policy']).toBe(
      "default-src 'none'; script-src 'self'; img-src 'self'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'",
    );
  });
});
