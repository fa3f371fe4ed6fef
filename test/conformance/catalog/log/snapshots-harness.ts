import { dirname, join } from 'node:path';
import type { EventLog } from '@tributary/core';
import { openLogCatalog } from '@tributary/infra/adapters/catalog/log';
import type { CatalogHarness, CatalogOptions } from '../suite/harness.ts';
import { harness as plain } from './harness.ts';

/** So frequent that the suite meets files of every age, and its kills leave half-written files. */
const EVERY_MS = 5;
const RETENTION_MS = 60_000;

const folders = new WeakMap<EventLog, string>();

/** The snapshot of the catalogs of the log in this folder. */
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
    // Logs with injected faults are wrapped, and need no shared file.
    if (folder === undefined) return openLogCatalog({ log, fetchWaitMs: 50, ...options });
    return openWithSnapshots(log, snapshotFile(folder), options);
  },
};
