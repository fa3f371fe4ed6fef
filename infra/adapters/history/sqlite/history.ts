import { join } from 'node:path';
import type { Clock, History } from '@tributary/core';
import { openDatabase, reading } from '../../sqlite/database.ts';
import { HistoryReader } from './history-reader.ts';
import { HistoryWriter } from './history-writer.ts';
import { HourlyCounts } from './hourly-counts.ts';
import { prepareSchema } from './schema.ts';

/** Pages of the write-ahead log that a commit carries over into the file at once, while the thread waits: 1 MB. */
const CHECKPOINT_PAGES = 250;

export interface SqliteHistoryOptions {
  /** A folder of its own; several processes and threads may share it. */
  readonly folder: string;
  readonly clock: Clock;
  /** Entries are kept for this long after they were last put, at least, ms. */
  readonly retentionMs: number;
  /** How long a put waits for another process's, ms, before it is `Unavailable`. Default 5,000. */
  readonly busyTimeoutMs?: number;
}

/**
 * A `History` in one database file, with one connection that puts and one that reads. Throws when the file was made
 * with another schema.
 */
export function openSqliteHistory({
  folder,
  clock,
  retentionMs,
  busyTimeoutMs,
}: SqliteHistoryOptions): History {
  const file = join(folder, 'history.db');
  const writeConnection = openDatabase(file, busyTimeoutMs === undefined ? {} : { busyTimeoutMs });
  try {
    prepareSchema(writeConnection, file);
    writeConnection.exec(`PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
  } catch (error) {
    writeConnection.close();
    throw error;
  }
  const readConnection = openDatabase(file, { readOnly: true });
  const writer = new HistoryWriter(writeConnection, { clock, retentionMs });
  const reader = new HistoryReader(readConnection);
  const counts = new HourlyCounts(readConnection);
  let closed: Promise<void> | undefined;
  return {
    async put(entries) {
      await writer.put(entries);
    },
    async list(query) {
      return reading(() => reader.list(query));
    },
    countByHour: (query) => counts.of(query),
    async get(kind, workspaceId, id) {
      return reading(() => reader.get(kind, workspaceId, id));
    },
    close() {
      closed ??= writer.settled().then(() => {
        readConnection.close();
        writeConnection.close();
      });
      return closed;
    },
  };
}
