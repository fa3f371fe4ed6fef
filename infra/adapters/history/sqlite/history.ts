import { join } from 'node:path';
import type { Clock, History } from '@tributary/core';
import { openDatabase, reading } from '../../sqlite/database.ts';
import { HistoryReader } from './history-reader.ts';
import { HistoryWriter } from './history-writer.ts';
import { prepareSchema } from './schema.ts';

/** Pages of the write-ahead log that one commit checkpoints, which blocks the thread: 1 MB. */
const CHECKPOINT_PAGES = 250;

export interface SqliteHistoryOptions {
  /** Holds this store alone; several processes and threads may share it. */
  readonly folder: string;
  readonly clock: Clock;
  /** Entries are kept for at least this long after their last put, ms. */
  readonly retentionMs: number;
  /** How long a put waits for another process's put before it is `Unavailable`, ms. Default 5,000. */
  readonly busyTimeoutMs?: number;
}

/**
 * A `History` in one database file, with one connection for puts and one for reads. Throws when the file has another
 * schema.
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
  let closed: Promise<void> | undefined;
  return {
    async put(entries) {
      await writer.put(entries);
    },
    async list(query) {
      return reading(() => reader.list(query));
    },
    countByHour: (query) => reader.countByHour(query),
    async groups(query) {
      return reading(() => reader.groups(query));
    },
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
