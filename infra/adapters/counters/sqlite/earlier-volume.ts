import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { ALL_SCOPES, documentKeptMs, ENVIRONMENT_CODES, EVENT_TYPE_CODES } from '@tributary/core';
import { inTransaction } from '../../sqlite/database.ts';

/**
 * Imports the counters that release 0.2.0 had in a file of their own, once for each change of it: the file is kept for a
 * rollback, which goes on counting there.
 */
export function importEarlierVolume(database: DatabaseSync, folder: string, now: number): void {
  const file = join(folder, 'volume.db');
  if (!existsSync(file)) return;
  // The last writes of a killed process are in the write-ahead log.
  const changedAt = [file, `${file}-wal`].map(
    (one) => statSync(one, { throwIfNoEntry: false })?.mtimeMs ?? 0,
  );
  const version = Math.floor(Math.max(...changedAt) / 1_000);
  if (versionOf(database) === version) return;
  database.prepare('ATTACH DATABASE ? AS earlier').run(file);
  try {
    inTransaction(database, () => {
      if (versionOf(database) === version) return;
      for (const [kind, statement] of Object.entries(IMPORTS))
        database
          .prepare(`INSERT INTO documents (kind, start, workspace_id, field, value) ${statement}`)
          .run({ kind, since: kind === 'uses' ? 0 : now - documentKeptMs('volume') });
      database.exec(`PRAGMA user_version = ${version}`);
    });
  } finally {
    database.exec('DETACH DATABASE earlier');
  }
}

function versionOf(database: DatabaseSync): number {
  return Number(database.prepare('PRAGMA user_version').get()?.user_version ?? 0);
}

const FIELD = `${codeOf('environment', ENVIRONMENT_CODES)} || ${codeOf('event_type', EVENT_TYPE_CODES)} || event_name`;
const REPLACE = 'ON CONFLICT DO UPDATE SET value = excluded.value';

/** The documents by kind. */
const IMPORTS = {
  volume_0_2: `
    SELECT :kind, hour, workspace_id, ${FIELD}, '{"accepted":' || sum(count) || '}' FROM earlier.counts
    WHERE hour > :since GROUP BY 2, 3, 4 ${REPLACE}`,
  runs_0_2: `
    SELECT :kind, hour, workspace_id || '/' || transformation_id, measure, count FROM earlier.runs
    WHERE hour > :since ${REPLACE}`,
  uses: `
    SELECT :kind, 0, '${ALL_SCOPES}', key_id, at FROM earlier.key_uses WHERE at > :since
    ON CONFLICT DO UPDATE SET value = max(CAST(value AS INTEGER), CAST(excluded.value AS INTEGER))`,
} as const;

function codeOf(column: string, codes: Readonly<Record<string, string>>): string {
  const cases = Object.entries(codes).map(([word, code]) => `WHEN '${word}' THEN '${code}'`);
  return `CASE ${column} ${cases.join(' ')} END`;
}
