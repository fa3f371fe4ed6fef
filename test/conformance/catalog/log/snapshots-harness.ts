import { dirname, join } from 'node:path';
import type { EventLog } from '@tributary/core';
import { openLogCatalog } from '@tributary/infra/adapters/catalog/log';
import type { CatalogHarness, CatalogOptions } from '../suite/harness.ts';
import { harness as plain } from './harness.ts';

/** So often that the suite meets files of every age, and its kills meet files half-written. */
const EVERY_MS = 5;
const RETENTION_MS = 60_000;

const folders = new WeakMap<EventLog, string>();

/** Of the catalogs of a log that lies in this folder. */
export function snapshotFile(folder: string): string {
  return join(dirname(folder), `${folder.split('/').at(-1)}.snapshots`, 'catalog.snapshot');
}

export function openWithSnapshots(
  log: EventLog,
  file: string,
  options: CatalogOptions & { readonly everyMs?: number },
) {
  const { everyMs = EVERY_MS, ...others } = options;
  const snapshot = { file, everyMs, retentionMs: RETENTION_MS };
  return openLogCatalog({ log, fetchWaitMs: 50, ...others, snapshot });
}

/** The same catalog with a snapshot file that all processes of the suite share. */
export const harness: CatalogHarness = {
  ...plain,
  name: 'log, with snapshots,',
  module: import.meta.url,

  async openLog(folder) {
    const log = await plain.openLog(folder);
    folders.set(log, folder);
    return log;
  },

  async open(log, options) {
    const folder = folders.get(log);
    // Logs that the suite makes fail are wrapped, and need no file of others.
    if (folder === undefined) return openLogCatalog({ log, fetchWaitMs: 50, ...options });
    return openWithSnapshots(log, snapshotFile(folder), options);
  },
};
