import { join } from 'node:path';
import { type Clock, HEALTH_REPORT_TTL_MS, type HealthBoard, type HealthReport } from '@tributary/core';
import { inTransaction, openDatabase, reading } from '../../sqlite/database.ts';

export interface SqliteHealthBoardOptions {
  /** A folder of its own; several processes and threads may share it. */
  readonly folder: string;
  readonly clock: Clock;
  /** How long a report is kept that is not renewed, ms. Default `HEALTH_REPORT_TTL_MS`. */
  readonly keptMs?: number;
}

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS reports (
    workspace_id TEXT NOT NULL,
    destination_id TEXT NOT NULL,
    process TEXT NOT NULL,
    told_at INTEGER NOT NULL,
    report TEXT NOT NULL,
    PRIMARY KEY (workspace_id, destination_id, process)
  ) WITHOUT ROWID;
`;

/** `HealthBoard` in one database file, whose newest rows a power cut may take: they would be old news. */
export function openSqliteHealthBoard({
  folder,
  clock,
  keptMs = HEALTH_REPORT_TTL_MS,
}: SqliteHealthBoardOptions): HealthBoard {
  const file = join(folder, 'health.db');
  const writer = openDatabase(file);
  writer.exec('PRAGMA synchronous = OFF');
  inTransaction(writer, () => writer.exec(SCHEMA));
  const reader = openDatabase(file, { readOnly: true });
  const put = writer.prepare(
    'INSERT OR REPLACE INTO reports (workspace_id, destination_id, process, told_at, report) VALUES (?, ?, ?, ?, ?)',
  );
  const drop = writer.prepare('DELETE FROM reports WHERE told_at < ?');
  const all = reader.prepare('SELECT report FROM reports WHERE workspace_id = ? AND told_at >= ?');
  const one = reader.prepare(
    'SELECT report FROM reports WHERE workspace_id = ? AND destination_id = ? AND told_at >= ?',
  );
  let closed = false;
  return {
    async report(reports) {
      if (reports.length === 0) return;
      const now = clock();
      inTransaction(writer, () => {
        drop.run(now - keptMs);
        for (const report of reports) {
          const { workspace_id, destination_id, process } = report;
          put.run(workspace_id, destination_id, process, now, JSON.stringify(report));
        }
      });
    },

    async read(workspaceId, destinationIds) {
      const since = clock() - keptMs;
      const rows = reading(() =>
        destinationIds === undefined
          ? all.all(workspaceId, since)
          : destinationIds.flatMap((id) => one.all(workspaceId, id, since)),
      );
      return rows.map(({ report }) => JSON.parse(String(report)) as HealthReport);
    },

    async close() {
      if (closed) return;
      closed = true;
      reader.close();
      writer.close();
    },
  };
}
