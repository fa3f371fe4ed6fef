import { join } from 'node:path';
import { type Clock, PROCESS_REPORT_TTL_MS, type ProcessBoard, type ProcessReport } from '@tributary/core';
import { inTransaction, openDatabase, reading } from '../../sqlite/database.ts';

export interface SqliteProcessBoardOptions {
  /** Holds this store and that of the health board; several processes and threads may share it. */
  readonly folder: string;
  readonly clock: Clock;
  /** How long a report is kept without renewal, ms. Default `PROCESS_REPORT_TTL_MS`. */
  readonly keptMs?: number;
}

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS processes (
    process TEXT PRIMARY KEY,
    reported_at INTEGER NOT NULL,
    report TEXT NOT NULL
  ) WITHOUT ROWID;
`;

/** `ProcessBoard` in one database file. A power cut may lose the newest rows: they are renewed within seconds anyway. */
export function openSqliteProcessBoard({
  folder,
  clock,
  keptMs = PROCESS_REPORT_TTL_MS,
}: SqliteProcessBoardOptions): ProcessBoard {
  const file = join(folder, 'processes.db');
  const writer = openDatabase(file);
  writer.exec('PRAGMA synchronous = OFF');
  inTransaction(writer, () => writer.exec(SCHEMA));
  const reader = openDatabase(file, { readOnly: true });
  const put = writer.prepare(
    'INSERT OR REPLACE INTO processes (process, reported_at, report) VALUES (?, ?, ?)',
  );
  const drop = writer.prepare('DELETE FROM processes WHERE reported_at < ?');
  const remove = writer.prepare('DELETE FROM processes WHERE process = ?');
  const all = reader.prepare('SELECT report FROM processes WHERE reported_at >= ?');
  let closed = false;
  return {
    async report(report) {
      const now = clock();
      inTransaction(writer, () => {
        drop.run(now - keptMs);
        put.run(report.process, now, JSON.stringify(report));
      });
    },

    async withdraw(process) {
      inTransaction(writer, () => remove.run(process));
    },

    async read() {
      const rows = reading(() => all.all(clock() - keptMs));
      return rows.map(({ report }) => JSON.parse(String(report)) as ProcessReport);
    },

    async close() {
      if (closed) return;
      closed = true;
      reader.close();
      writer.close();
    },
  };
}
