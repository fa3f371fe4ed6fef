import { join } from 'node:path';
import type { Clock, History } from '@tributary/core';
import { openDatabase, reading } from '../../sqlite/database.ts';
import { WalCheckpointer } from '../../sqlite/wal-checkpointer.ts';
import { HistoryReader } from './history-reader.ts';
import { HistoryWriter } from './history-writer.ts';
import { prepareSchema } from './schema.ts';

/** WAL pages after which the checkpointer thread runs, 8 MB: entries with random ids change the same index pages again. */
const MANY_PAGES = 2_000;
/** WAL pages that it leaves to the thread of the puts. */
const FEW_PAGES = 100;

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
  busyTimeoutMs = 5_000,
}: SqliteHistoryOptions): History {
  const file = join(folder, 'history.db');
  const writeConnection = openDatabase(file, { busyTimeoutMs });
  try {
    prepareSchema(writeConnection, file);
  } catch (error) {
    writeConnection.close();
    throw error;
  }
  const readConnection = openDatabase(file, { readOnly: true });
  const checkpointer = new WalCheckpointer(writeConnection, {
    file,
    busyTimeoutMs,
    checkpointPages: MANY_PAGES,
    inlinePages: FEW_PAGES,
  });
  const writer = new HistoryWriter(writeConnection, { clock, retentionMs }, checkpointer);
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
      closed ??= writer.settled().then(async () => {
        await checkpointer.close();
        readConnection.close();
        writeConnection.close();
      });
      return closed;
    },
  };
}
