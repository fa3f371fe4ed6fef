import { join } from 'node:path';
import type { Clock, History } from '@tributary/core';
import { inTransaction, openDatabase, reading } from '../../sqlite/database.ts';
import { HistoryReader } from './history-reader.ts';
import { HistoryWriter } from './history-writer.ts';
import { SCHEMA } from './schema.ts';

export interface SqliteHistoryOptions {
  /** A folder of its own; several processes and threads may share it. */
  readonly folder: string;
  readonly clock: Clock;
  /** Entries are kept for this long, at least, ms. */
  readonly retentionMs: number;
  /** How long a put waits for another process's, ms, before it is `Unavailable`. Default 5,000. */
  readonly busyTimeoutMs?: number;
}

/** A `History` in one database file, with one connection that puts and one that reads. */
export function openSqliteHistory({
  folder,
  clock,
  retentionMs,
  busyTimeoutMs,
}: SqliteHistoryOptions): History {
  const file = join(folder, 'history.db');
  const writeConnection = openDatabase(file, busyTimeoutMs === undefined ? {} : { busyTimeoutMs });
  inTransaction(writeConnection, () => writeConnection.exec(SCHEMA));
  const readConnection = openDatabase(file, { readOnly: true });
  const writer = new HistoryWriter(writeConnection);
  const reader = new HistoryReader(readConnection);
  let closed = false;
  return {
    async put(entries) {
      writer.put(entries, clock() - retentionMs);
    },
    async list(query) {
      return reading(() => reader.list(query));
    },
    async get(kind, workspaceId, id) {
      return reading(() => reader.get(kind, workspaceId, id));
    },
    async close() {
      if (closed) return;
      closed = true;
      readConnection.close();
      writeConnection.close();
    },
  };
}
