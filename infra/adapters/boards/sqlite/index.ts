import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
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
  PROCESS_REPORT_TTL_MS,
  type ProcessBoard,
  type ProcessReport,
  startOf,
} from '@tributary/core';
import { inTransaction, openStoreFile, reading } from '../../sqlite/database.ts';

interface SqliteBoardOptions {
  /** Holds the stores of both boards; several processes and threads may share it. */
  readonly folder: string;
  readonly clock: Clock;
  /** How long a report is kept without renewal, ms. Default: as the port says. */
  readonly keptMs?: number;
}

/** A power cut may lose the newest rows: they are renewed within seconds anyway. */
function openBoard(file: string, tables: string) {
  return openStoreFile(file, (writer: DatabaseSync) => {
    writer.exec('PRAGMA synchronous = OFF');
    inTransaction(writer, () => writer.exec(tables));
  });
}

const HEALTH = `
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

/** `HealthBoard` in one database file. */
export function openSqliteHealthBoard({
  folder,
  clock,
  keptMs = HEALTH_REPORT_TTL_MS,
}: SqliteBoardOptions): HealthBoard {
  const { writer, reader, close } = openBoard(join(folder, 'health.db'), HEALTH);
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

    close: async () => close(),
  };
}

const PROCESSES = `
  CREATE TABLE IF NOT EXISTS processes (
    process TEXT PRIMARY KEY,
    reported_at INTEGER NOT NULL,
    report TEXT NOT NULL
  ) WITHOUT ROWID;
`;

/** `ProcessBoard` in one database file. */
export function openSqliteProcessBoard({
  folder,
  clock,
  keptMs = PROCESS_REPORT_TTL_MS,
}: SqliteBoardOptions): ProcessBoard {
  const { writer, reader, close } = openBoard(join(folder, 'processes.db'), PROCESSES);
  const put = writer.prepare(
    'INSERT OR REPLACE INTO processes (process, reported_at, report) VALUES (?, ?, ?)',
  );
  const drop = writer.prepare('DELETE FROM processes WHERE reported_at < ?');
  const remove = writer.prepare('DELETE FROM processes WHERE process = ?');
  const all = reader.prepare('SELECT report FROM processes WHERE reported_at >= ?');
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

    close: async () => close(),
  };
}
