import {
  chmodSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NO_LOGGER } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeFolderPrivate } from './data-folder.ts';

describe('a data folder of an earlier release', () => {
  let parent = '';
  let folder = '';
  let warned: (readonly [Record<string, unknown>, string])[] = [];
  const logger = {
    ...NO_LOGGER,
    warn: (fields: object, message: string) => warned.push([fields as Record<string, unknown>, message]),
  };
  const make = (name: string, mode: number) => {
    writeFileSync(join(folder, name), 'x');
    chmodSync(join(folder, name), mode);
  };
  const modeOf = (name = '') => (lstatSync(join(folder, name)).mode & 0o7777).toString(8);
  const makePrivate = () => makeFolderPrivate(folder, logger);

  beforeEach(() => {
    parent = mkdtempSync(join(tmpdir(), 'tributary-'));
    folder = join(parent, 'data');
    warned = [];
    mkdirSync(join(folder, 'log', 'events'), { recursive: true });
    for (const name of ['', 'log', 'log/events']) chmodSync(join(folder, name), 0o755);
  });
  afterEach(() => rmSync(parent, { recursive: true }));

  it('was readable by every user of the machine: its mode is corrected, and one log line has path and mode', () => {
    make('secret-keys.json', 0o644);
    make('log/events/1.db-wal', 0o666);
    make('lock.db', 0o600);
    makePrivate();
    expect(['', 'log', 'log/events'].map(modeOf)).toEqual(['700', '700', '700']);
    expect(['secret-keys.json', 'log/events/1.db-wal', 'lock.db'].map(modeOf)).toEqual(['600', '600', '600']);
    const [[fields] = [undefined], ...more] = warned;
    expect(more).toEqual([]);
    expect(fields).toMatchObject({ folder, count: 5 });
    expect(fields?.corrected).toContain(`${folder} (0755)`);
    expect(fields?.corrected).toContain(`${join(folder, 'log/events/1.db-wal')} (0666)`);
    warned = [];
    makePrivate();
    expect(warned).toEqual([]);
  });

  it('with a thousand files flooded the log', () => {
    for (let n = 0; n < 1_000; n++) make(`log/events/${n}.db`, 0o644);
    makePrivate();
    expect(warned).toHaveLength(1);
    expect(warned[0]?.[0]).toMatchObject({ count: 1_003, corrected: { length: 10 } });
  });

  it('contained links, through which files of other programs lost their permissions', () => {
    const outside = join(parent, 'other-program');
    writeFileSync(outside, 'x');
    chmodSync(outside, 0o755);
    symlinkSync(outside, join(folder, 'log', 'symbolic'));
    linkSync(outside, join(folder, 'log', 'hard'));
    makePrivate();
    expect(lstatSync(outside).mode & 0o777).toBe(0o755);
    expect(warned.map(([fields]) => fields.open).filter(Boolean)).toEqual([
      [`${join(folder, 'log', 'hard')} (0755): it has other names`],
    ]);
  });

  it('was /tmp or /: the folder of other programs keeps its mode, and Tributary’s files in it become private', () => {
    make('of-another-program', 0o644);
    make('dev-issuer.json', 0o644);
    chmodSync(folder, 0o1777);
    makePrivate();
    expect([modeOf(), modeOf('of-another-program'), modeOf('dev-issuer.json')]).toEqual([
      '1777',
      '644',
      '600',
    ]);
    expect(warned[0]).toEqual([
      { folder, mode: '1777', others: ['of-another-program'] },
      expect.stringContaining('give Tributary a folder of its own'),
    ]);
  });

  it('is created later by the process itself: there is nothing to correct', () => {
    makeFolderPrivate(join(folder, 'missing'), logger);
    expect(warned).toEqual([]);
  });
});
