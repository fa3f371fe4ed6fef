import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { publishAddress } from '../process/server-address.ts';
import { expectServer, NoIssuerKey, openDevIssuer, openExistingIssuer, testToken } from './dev-issuer.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tributary-expected-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('the server that a command expects', () => {
  const expected = (environment: Record<string, string> = {}, config: object = {}) =>
    expectServer(
      {
        dataFolder: folder,
        devIssuerKey: '',
        host: '127.0.0.1',
        port: Number(environment.PORT ?? 8080),
        adminHost: '127.0.0.1',
        adminPort: undefined,
        ...config,
      },
      environment,
    );
  const atDefault = { url: 'http://127.0.0.1:8080', adminUrl: 'http://127.0.0.1:9080' };

  it('is the one that runs on the data folder', () => {
    publishAddress(folder, { pid: process.pid, url: 'http://127.0.0.1:1', adminUrl: 'http://127.0.0.1:2' });
    const running = { url: 'http://127.0.0.1:1', adminUrl: 'http://127.0.0.1:2', isOfFolder: true };
    expect(expected()).toEqual(running);
    expect(expected({ TRIBUTARY_DATA_DIR: folder })).toEqual(running);
    expect(expected({ PORT: '0' }, { port: 0 })).toEqual(running);
  });

  it('is the one at PORT, where that is set', () => {
    publishAddress(folder, { pid: process.pid, url: 'http://127.0.0.1:1', adminUrl: 'http://127.0.0.1:2' });
    const named = { url: 'http://127.0.0.1:8081', adminUrl: 'http://127.0.0.1:9081', isOfFolder: true };
    expect(expected({ PORT: '8081', TRIBUTARY_DATA_DIR: folder })).toEqual(named);
  });

  it('is else the one at the default port, which may be of another folder than a named one', () => {
    expect(expected()).toEqual({ ...atDefault, isOfFolder: true });
    expect(expected({ TRIBUTARY_DATA_DIR: folder })).toEqual({ ...atDefault, isOfFolder: false });
    expect(expected({}, { devIssuerKey: '{}' })).toEqual({ ...atDefault, isOfFolder: false });
  });

  it('is reached by loopback where it listens on every address', () => {
    expect(expected({}, { host: '0.0.0.0' }).url).toBe('http://127.0.0.1:8080');
    expect(expected({}, { host: '::' }).url).toBe('http://[::1]:8080');
  });
});

describe('the issuer of a data folder', () => {
  it('is there once a server has run on it, and never made', () => {
    const config = { dataFolder: folder, devIssuerKey: '' };
    expect(() => openExistingIssuer(config)).toThrow(NoIssuerKey);
    expect(() => openExistingIssuer(config)).toThrow(folder);
    openDevIssuer(config);
    expect(() => openExistingIssuer(config)).not.toThrow();
  });
});

describe('a token', () => {
  const answering = async (status: number, body: string) => {
    const server = createServer((_, response) => response.writeHead(status).end(body));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    try {
      return await testToken(`http://127.0.0.1:${port}`, 'token');
    } finally {
      server.close();
    }
  };

  it.each([
    [200, '[{"id":"w","name":"Shop","role":"admin"}]', 'taken'],
    [401, '{"error":"not authenticated"}', 'refused'],
    [503, '{"error":"unavailable"}', 'none'],
    [404, 'not Tributary', 'none'],
    [200, 'not Tributary', 'none'],
  ])('that is answered %i %s is %s', async (status, body, answer) => {
    expect((await answering(status, body)).answer).toBe(answer);
  });

  it('that nothing answers is of no server', async () => {
    expect(await testToken('http://127.0.0.1:1', 'token')).toEqual({ answer: 'none' });
  });
});
