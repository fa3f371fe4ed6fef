import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { addressOf, onThisMachine, publishAddress } from './server-address.ts';

describe('the address of the server of a data folder', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'tributary-address-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const here = { pid: process.pid, url: 'http://127.0.0.1:8081', adminUrl: 'http://127.0.0.1:9081' };

  it('is found while the server runs, and not before or after', () => {
    expect(addressOf(folder)).toBeUndefined();
    const published = publishAddress(folder, here);
    expect(addressOf(folder)).toEqual(here);
    published.close();
    expect(addressOf(folder)).toBeUndefined();
    expect(readdirSync(folder)).toEqual([]);
  });

  it('is that of the next start, where a killed server left its own', () => {
    const { pid } = spawnSync(process.execPath, ['--version']);
    publishAddress(folder, { ...here, pid });
    expect(addressOf(folder)).toBeUndefined();
    publishAddress(folder, here);
    expect(addressOf(folder)).toEqual(here);
  });

  it('is unknown where its file cannot be read', () => {
    writeFileSync(join(folder, 'server.json'), '{"pid":');
    expect(addressOf(folder)).toBeUndefined();
  });

  it.each([
    ['http://0.0.0.0:8080', 'http://127.0.0.1:8080'],
    ['http://[::]:8080', 'http://[::1]:8080'],
    ['http://192.0.2.1:8080', 'http://192.0.2.1:8080'],
  ])('of %s is %s for programs of this machine', (listening, reached) => {
    expect(onThisMachine(listening)).toBe(reached);
  });
});
