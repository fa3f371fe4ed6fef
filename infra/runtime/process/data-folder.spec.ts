import { chmodSync, lstatSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NO_LOGGER } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeFolderPrivate } from './data-folder.ts';

let folder = '';
let warned: string[] = [];
const logger = { ...NO_LOGGER, warn: (_: object, message: string) => warned.push(message) };
const modeOf = () => (lstatSync(folder).mode & 0o7777).toString(8);

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tributary-'));
  warned = [];
  mkdirSync(join(folder, 'log'));
  chmodSync(folder, 0o755);
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('a data folder', () => {
  it('was readable by every user of the machine: its mode is corrected, and logged once', () => {
    makeFolderPrivate(folder, logger);
    expect([modeOf(), warned]).toEqual(['700', [expect.stringMatching(/corrected, to its owner alone$/)]]);
    makeFolderPrivate(folder, logger);
    expect(warned).toHaveLength(1);
  });

  it('was /tmp or /: the folder of other programs keeps its mode, which is logged', () => {
    writeFileSync(join(folder, 'of-another-program'), '');
    chmodSync(folder, 0o1777);
    makeFolderPrivate(folder, logger);
    expect([modeOf(), warned]).toEqual([
      '1777',
      [expect.stringContaining('give Tributary a folder of its own')],
    ]);
  });

  it('that the process will make has nothing to correct', () => {
    makeFolderPrivate(join(folder, 'missing'), logger);
    expect(warned).toEqual([]);
  });
});
