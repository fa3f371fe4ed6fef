import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { cachedFolder } from './cache.ts';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'tributary-cache-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const filling = (text: string) => (folder: string) => writeFile(join(folder, 'engine'), text);

describe('the cache of engines', () => {
  it('fills a folder once', async () => {
    const folder = await cachedFolder(root, 'engine-1', filling('first'));
    expect(await cachedFolder(root, 'engine-1', filling('second'))).toBe(folder);
    expect(readFileSync(join(folder, 'engine'), 'utf8')).toBe('first');
  });

  it('shows nothing of a download that fails', async () => {
    const failing = cachedFolder(root, 'engine-1', async (folder) => {
      await filling('half')(folder);
      throw new Error('the network went away');
    });
    await expect(failing).rejects.toThrow('the network went away');
    expect(readdirSync(root)).toEqual([]);
  });

  it('has one whole folder after several downloads at once', async () => {
    const folders = await Promise.all(
      [1, 2, 3].map((count) => cachedFolder(root, 'engine-1', filling(`number ${count}`))),
    );
    expect(new Set(folders).size).toBe(1);
    expect(readdirSync(root)).toEqual(['engine-1']);
  });

  it('removes files that a killed download left a day ago, and no file that may still be in use', async () => {
    for (const name of ['.partial-old', '.partial-new']) mkdirSync(join(root, name));
    writeFileSync(join(root, '.partial-old', 'engine'), 'half');
    const longAgo = Date.now() / 1000 - 2 * 24 * 60 * 60;
    utimesSync(join(root, '.partial-old'), longAgo, longAgo);
    await cachedFolder(root, 'engine-1', filling('whole'));
    expect(readdirSync(root).sort()).toEqual(['.partial-new', 'engine-1']);
  });
});
