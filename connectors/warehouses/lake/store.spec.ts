import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NO_METRICS, WarehouseRefused } from '@tributary/core';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createEgressGuard } from '../../egress/guard.ts';
import { BucketStore } from './bucket-store.ts';
import { FolderStore } from './folder-store.ts';
import type { LakeStore } from './store.ts';

const { signal } = new AbortController();
const bytes = new Uint8Array(1);

let dataFolder: string;
let folder: FolderStore;
beforeEach(async () => {
  dataFolder = await mkdtemp(join(tmpdir(), 'tributary-store-'));
  await mkdir(join(dataFolder, 'other'));
  await writeFile(join(dataFolder, 'other', 'file'), 'of another tenant');
  folder = new FolderStore(dataFolder, ['lake', 'w1']);
});
afterEach(() => rm(dataFolder, { recursive: true }));

const bucket = new BucketStore(
  createEgressGuard({
    allowed: [],
    resolve: async () => {
      throw new Error('nothing is sent');
    },
    metrics: NO_METRICS,
  }),
  {
    region: 'eu-central-1',
    bucket: 'lake',
    prefix: 'w1',
    path_style: true,
    access_key_id: 'key',
    secret_access_key: 'secret',
  },
  1_000,
);

/** All calls with a name. */
const CALLS: Readonly<Record<string, (store: LakeStore, name: string) => Promise<unknown>>> = {
  read: (store, name) => store.read(name, signal),
  size: (store, name) => store.size(name, signal),
  names: (store, name) => store.names(name, signal),
  files: (store, name) => store.files(name, signal),
  put: (store, name) => store.put(name, bytes, signal),
  create: (store, name) => store.create(name, bytes, signal),
  'move from': (store, name) => store.move(name, 'a', signal),
  'move to': (store, name) => store.move('a', name, signal),
  remove: (store, name) => store.remove(name, signal),
  removeFolder: (store, name) => store.removeFolder(name, signal),
};

it.each(Object.entries(CALLS))('%s takes no name that leads out of the lake', async (_title, call) => {
  for (const name of [
    '../../other/file',
    'main/../../../other',
    '..',
    'main/./x',
    '/other/file',
    'main//x',
    '',
  ])
    for (const store of [folder, bucket])
      await expect(call(store, name), name).rejects.toThrow('not in the lake');
  expect(await readFile(join(dataFolder, 'other', 'file'), 'utf8')).toBe('of another tenant');
});

it.each(Object.entries(CALLS))('%s follows no link out of the lake', async (_title, call) => {
  await folder.put('a', bytes, signal);
  await symlink(join(dataFolder, 'other'), join(dataFolder, 'lake', 'w1', 'linked'));
  await symlink(join(dataFolder, 'other', 'file'), join(dataFolder, 'lake', 'w1', 'file'));
  for (const name of ['linked', 'linked/file', 'file'])
    await expect(call(folder, name), name).rejects.toThrow(WarehouseRefused);
  expect(await readFile(join(dataFolder, 'other', 'file'), 'utf8')).toBe('of another tenant');
});
