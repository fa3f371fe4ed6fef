import type { LakeStore } from '../store.ts';
import type { CatalogDatabase, Query, SqlRow } from './database.ts';
import { forIds, insert, integer, isOwn, SCHEMA, TRUE, timeOf, timeText } from './tables.ts';

/** Older snapshots are kept for a week, while files of theirs alone have no more bytes than the tables, or than this. */
const KEPT_MS = 7 * 86_400_000;
const MIN_HISTORY_BYTES = 1_024 ** 3;
/** Files that no snapshot has are removed after so long: queries that began before may still read them, ms. */
const REMOVED_AFTER_MS = 3_600_000;
/** Files of changes that ended without a commit are removed after so long, ms. No change takes as long. */
const ORPHANED_AFTER_MS = 2 * 3_600_000;

/** Full names of files below the root of the lake. */
const PATHS = `select f.data_file_id, f.delete_file_id, s.path || t.path || f.path as name from FILES f
  join (select distinct table_id, schema_id, path from ducklake_table where path_is_relative = true) t on t.table_id = f.table_id
  join ducklake_schema s on s.schema_id = t.schema_id and s.path_is_relative = true
  where f.path_is_relative = true`;

function paths(table: 'ducklake_data_file' | 'ducklake_delete_file'): string {
  const sql = PATHS.replace('FILES', table);
  return table === 'ducklake_data_file' ? sql.replace('f.delete_file_id', 'null as delete_file_id') : sql;
}

const SCHEDULED = `select data_file_id, path as name, schedule_start from ducklake_files_scheduled_for_deletion
  where path_is_relative = true`;

/** Makes all snapshots before one unreadable. Files that only they have are scheduled for their removal. */
export async function expire(query: Query, before: number): Promise<void> {
  for (const table of ['ducklake_snapshot', 'ducklake_snapshot_changes'])
    await query(`delete from ${table} where snapshot_id < ?`, [before]);
  // Of a file that ended then no snapshot is left.
  const ended = `f.end_snapshot <= ${before}`;
  const files = await query(`${paths('ducklake_data_file')} and ${ended}`);
  const ids = files.map(({ data_file_id }) => integer(data_file_id));
  const deletes = [
    ...(await query(`${paths('ducklake_delete_file')} and ${ended}`)),
    ...(await forIds(query, ids, `${paths('ducklake_delete_file')} and f.data_file_id in (?)`)),
  ];
  const now = timeText(Date.now());
  const removed = new Map<string, SqlRow>([...files, ...deletes].map((row) => [String(row.name), row]));
  await insert(
    query,
    'ducklake_files_scheduled_for_deletion',
    Array.from(removed, ([name, row]) => [integer(row.delete_file_id ?? row.data_file_id), name, TRUE, now]),
  );
  for (const table of [
    'ducklake_data_file',
    'ducklake_file_column_stats',
    'ducklake_file_variant_stats',
    'ducklake_file_partition_value',
    'ducklake_delete_file',
  ])
    await forIds(query, ids, `delete from ${table} where data_file_id in (?)`);
  await forIds(
    query,
    deletes.map(({ delete_file_id }) => integer(delete_file_id)),
    'delete from ducklake_delete_file where delete_file_id in (?)',
  );
}

/** Removes files that nobody needs, and snapshots that are old or take too much of the disk. */
export async function tidyFiles(
  store: LakeStore,
  database: CatalogDatabase,
  { now, signal }: { readonly now: number; readonly signal: AbortSignal },
): Promise<void> {
  await database.transaction(async (query) => expire(query, await oldestKept(query, now)), signal);
  const scheduled = await database.read((query) => query(SCHEDULED), signal);
  const due = scheduled.filter(
    ({ schedule_start }) => (timeOf(schedule_start) ?? now) <= now - REMOVED_AFTER_MS,
  );
  for (const { name } of due) await store.remove(String(name), signal);
  const ids = due.map(({ data_file_id }) => integer(data_file_id));
  await database.transaction(
    (query) =>
      forIds(query, ids, 'delete from ducklake_files_scheduled_for_deletion where data_file_id in (?)'),
    signal,
  );
  const written = await store.files(SCHEMA, signal, isOwn);
  const known = await database.read(
    async (query) => [...(await query(paths('ducklake_data_file'))), ...(await query(SCHEDULED))],
    signal,
  );
  const names = new Set(known.map(({ name }) => name));
  for (const { name, changedAt } of written)
    if (!names.has(name) && changedAt <= now - ORPHANED_AFTER_MS) await store.remove(name, signal);
}

/** The oldest snapshot that stays. */
async function oldestKept(query: Query, now: number): Promise<number> {
  const [newest] = await query('select max(snapshot_id) as id from ducklake_snapshot');
  const since = await query('select min(snapshot_id) as id from ducklake_snapshot where snapshot_time >= ?', [
    timeText(now - KEPT_MS),
  ]);
  const live = await query(
    'select sum(file_size_bytes) as bytes from ducklake_data_file where end_snapshot is null',
  );
  let left = Math.max(Number(live[0]?.bytes ?? 0), MIN_HISTORY_BYTES);
  let kept = integer(since[0]?.id ?? newest?.id);
  const ended = await query(
    `select end_snapshot, sum(file_size_bytes) as bytes from ducklake_data_file
     where end_snapshot is not null group by end_snapshot order by end_snapshot desc`,
  );
  for (const { end_snapshot, bytes } of ended) {
    left -= Number(bytes);
    if (left >= 0) continue;
    // Without the snapshots that have these files.
    kept = Math.max(kept, integer(end_snapshot));
    break;
  }
  return kept;
}
