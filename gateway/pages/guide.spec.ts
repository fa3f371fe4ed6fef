import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { NO_LOGGER } from '@tributary/core';
import type { FastifyInstance } from 'fastify';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { errorsPlugin } from '../errors/error-handler.ts';
import { createServer, unknownPathsPlugin } from '../server/create-server.ts';
import { guideRoutes } from './guide.ts';

describe('the documentation', () => {
  let app: FastifyInstance;
  let outside: string;
  let folder: string;
  beforeAll(async () => {
    outside = mkdtempSync(join(tmpdir(), 'tributary-guide-'));
    folder = join(outside, 'dist');
    writeFileSync(join(outside, 'secret.html'), 'not to be served');
    app = createServer();
    await app.register(errorsPlugin, { logger: NO_LOGGER });
    await app.register(unknownPathsPlugin);
    await app.register(guideRoutes, { folder });
    await app.ready();
  });
  afterAll(async () => {
    await app.close();
    rmSync(outside, { recursive: true });
  });
  const get = (url: string, headers: Record<string, string> = {}) => app.inject({ url, headers });

  it('states how to build it, until it is built, also where the server started before', async () => {
    const missing = await get('/guide/');
    expect([missing.statusCode, missing.headers['content-type']]).toEqual([404, 'text/plain; charset=utf-8']);
    expect(missing.body).toContain('npm run build -w docs');
    mkdirSync(join(folder, 'operations'), { recursive: true });
    mkdirSync(join(folder, 'assets'));
    for (const name of ['index', '404', 'architecture', 'operations/index', 'operations/backup'])
      writeFileSync(join(folder, `${name}.html`), `<p>${name}</p>`);
    writeFileSync(join(folder, 'assets/@a.1-2.js'), 'script');
    writeFileSync(join(folder, 'assets/@a.1-2.js.gz'), gzipSync('script'));
    writeFileSync(join(folder, '.hidden'), 'not to be served');
    expect((await get('/guide/')).body).toBe('<p>index</p>');
  });

  it.each([
    ['/guide/?q=1', 'index'],
    ['/guide/architecture', 'architecture'],
    ['/guide/architecture.html', 'architecture'],
    ['/guide/operations/', 'operations/index'],
    ['/guide/operations/backup', 'operations/backup'],
  ])('has a page at %s', async (url, page) => {
    const { statusCode, body } = await get(url);
    expect([statusCode, body]).toEqual([200, `<p>${page}</p>`]);
  });

  it.each([
    ['/guide', '/guide/'],
    ['/guide/operations', '/guide/operations/'],
  ])('leads from %s to %s, against which links are relative', async (url, location) => {
    expect((await get(url)).headers.location).toBe(location);
  });

  it('has a policy without inline code, and pages that are revalidated', async () => {
    expect((await get('/guide/architecture')).headers).toMatchObject({
      'cache-control': 'no-cache',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'content-security-policy': [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
      ].join('; '),
    });
  });

  it('has assets that are kept for a year, compressed where that is accepted', async () => {
    const plain = await get('/guide/assets/@a.1-2.js');
    expect([plain.body, plain.headers['cache-control']]).toEqual([
      'script',
      'public, max-age=31536000, immutable',
    ]);
    const packed = await get('/guide/assets/@a.1-2.js', { 'accept-encoding': 'gzip' });
    expect(packed.headers).toMatchObject({
      'content-encoding': 'gzip',
      'content-type': expect.stringMatching(/javascript/),
    });
  });

  it.each([
    '/guide/nowhere',
    '/guide/.hidden',
    '/guide/assets/',
    '/guide/../secret',
    '/guide/..%2fsecret',
    '/guide/%2e%2e/secret.html',
    '/guide//index',
    '/guide/a\\..\\secret',
  ])('has nothing else: %s', async (url) => {
    const { statusCode, body } = await get(url);
    expect(statusCode).toBeGreaterThanOrEqual(400);
    expect(body).not.toContain('not to be served');
  });
});
