import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  addSamples,
  type Clock,
  HEALTH_REPORT_TTL_MS,
  HEALTH_RESOLUTIONS,
  type HealthBoard,
  type HealthReport,
  type HealthResolution,
  type HealthSample,
  startOf,
} from '@tributary/core';
import { inTransaction, openDatabase, reading } from '../../sqlite/database.ts';

export interface SqliteHealthBoardOptions {
  /** Holds this store and that of the process board; several processes and threads may share it. */
  readonly folder: string;
  readonly clock: Clock;
  /** How long a report is kept without renewal, ms. Default `HEALTH_REPORT_TTL_MS`. */
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
  CREATE TABLE IF NOT EXISTS samples (
    workspace_id TEXT NOT NULL,
    destination_id TEXT NOT NULL,
    resolution TEXT NOT NULL,
    at INTEGER NOT NULL,
    sample TEXT NOT NULL,
    PRIMARY KEY (workspace_id, destination_id, resolution, at)
  ) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS samples_by_age ON samples (resolution, at);
`;

const RESOLUTIONS = Object.keys(HEALTH_RESOLUTIONS) as readonly HealthResolution[];
/** Samples of one transaction, and expired ones that it drops of each resolution: 2 ms. */
const SAMPLES_A_TRANSACTION = 100;
const DROPPED_A_TRANSACTION = 500;

/** `HealthBoard` in one database file. A power cut may lose the newest rows: they are renewed within seconds anyway. */
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
  const find = writer.prepare(
    'SELECT sample FROM samples WHERE workspace_id = ? AND destination_id = ? AND resolution = ? AND at = ?',
  );
  const keep = writer.prepare(
    'INSERT OR REPLACE INTO samples (workspace_id, destination_id, resolution, at, sample) VALUES (?, ?, ?, ?, ?)',
  );
  const expire = writer.prepare(
    `DELETE FROM samples WHERE (workspace_id, destination_id, resolution, at) IN (
       SELECT workspace_id, destination_id, resolution, at FROM samples
       WHERE resolution = ? AND at < ? LIMIT ${DROPPED_A_TRANSACTION})`,
  );
  const kept = reader.prepare(
    `SELECT sample FROM samples
     WHERE workspace_id = ? AND destination_id = ? AND resolution = ? AND at >= ? AND at < ? ORDER BY at`,
  );
  const addTo = (resolution: HealthResolution, recorded: HealthSample) => {
    const sample = { ...recorded, at: startOf(recorded.at, resolution) };
    const key = [sample.workspace_id, sample.destination_id, resolution, sample.at] as const;
    const row = find.get(...key);
    const sum =
      row === undefined ? sample : addSamples(JSON.parse(String(row.sample)) as HealthSample, sample);
    keep.run(...key, JSON.stringify(sum));
  };
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

    async record(samples) {
      const now = clock();
      for (let at = 0; at < samples.length; at += SAMPLES_A_TRANSACTION) {
        await nextTurn();
        inTransaction(writer, () => {
          for (const resolution of RESOLUTIONS) {
            expire.run(resolution, now - HEALTH_RESOLUTIONS[resolution].keptMs);
            for (const sample of samples.slice(at, at + SAMPLES_A_TRANSACTION)) addTo(resolution, sample);
          }
        });
      }
    },

    async history({ workspaceId, destinationId, resolution, from, until }) {
      const since = Math.max(from, clock() - HEALTH_RESOLUTIONS[resolution].keptMs);
      const rows = reading(() => kept.all(workspaceId, destinationId, resolution, since, until));
      return rows.map(({ sample }) => JSON.parse(String(sample)) as HealthSample);
    },

    async close() {
      if (closed) return;
      closed = true;
      reader.close();
      writer.close();
    },
  };
}
