import { hash } from 'node:crypto';
import {
  type ColumnType,
  IDENTITY_MAP_TABLE,
  type ProfileRows,
  type TableColumns,
  type TableRows,
  USERS_TABLE,
} from '@tributary/core';
import { type Cell, cellOf } from './cells.ts';
import { OWN, type Staging } from './commit-log.ts';
import { type Columns, type Rows, TableWriter } from './parquet.ts';
import type { LakeStore } from './store.ts';
import { readFile, widenedCells, writable } from './table-files.ts';

/** Files of `users`, of `identity_map` and of the versions: a change of a profile rewrites one of each. */
const BUCKETS = 32;
const ROWS_OF_GROUP = 20_000;

const VERSION_COLUMNS: Columns = new Map<string, ColumnType>([
  ['ucid', 'text'],
  ['version', 'bigint'],
]);

type Row = ReadonlyMap<string, Cell>;

interface Bucket {
  /** Of profiles whose change is in the batch, by ucid. */
  readonly versions: Map<string, bigint>;
  readonly users: Row[];
  readonly identities: Row[];
}

/** Where buckets are read from and staged. */
interface BucketFiles {
  readonly store: LakeStore;
  readonly staging: Staging;
  readonly signal: AbortSignal;
}

interface ProfileTables {
  readonly users: TableColumns;
  readonly identities: TableColumns;
  /** ISO 8601 */
  readonly loadedAt: string;
}

/** Stages the files of `users` and `identity_map` as they are after changes of profiles; returns the rows of `users` written. */
export async function stageProfiles(
  files: BucketFiles,
  changes: ProfileRows,
  { users: usersSchema, identities: identitiesSchema, loadedAt }: ProfileTables,
): Promise<number> {
  const gone = new Map(changes.gone.map((one) => [one.ucid, one]));
  const now = cellOf(loadedAt, 'timestamp');
  let written = 0;
  for (const [name, { versions, users, identities }] of bucketsOf(changes)) {
    const known = await versionsIn(files, name);
    const news = new Map([...versions].filter(([ucid, version]) => version > (known.get(ucid) ?? -1n)));
    if (news.size === 0) continue;
    const isNews = (row: Row) => news.has(ucidOf(row));

    const addedUsers = users.filter(isNews);
    await stageBucket(files, `${USERS_TABLE}/${name}`, writable(usersSchema), {
      change: (row) => (isNews(row) ? undefined : row),
      added: () => addedUsers,
    });
    written += addedUsers.length;

    const held = new Map(identities.filter(isNews).map((row) => [identityKey(row), row]));
    const changedAt = new Map(identities.map((row) => [ucidOf(row), row.get('valid_from') ?? null]));
    const open = new Set<string>();
    await stageBucket(files, `${IDENTITY_MAP_TABLE}/${name}`, writable(identitiesSchema), {
      change(row) {
        if (!isNews(row)) return row;
        const end = gone.get(ucidOf(row));
        if (end?.isDeleted === true) return undefined;
        if ((row.get('valid_to') ?? null) !== null) return row;
        if (held.has(identityKey(row))) {
          open.add(identityKey(row));
          return row;
        }
        const at = end === undefined ? (changedAt.get(ucidOf(row)) ?? now) : cellOf(end.at, 'timestamp');
        return new Map([...row, ['valid_to', at]]);
      },
      added: () => [...held].flatMap(([key, row]) => (open.has(key) ? [] : [row])),
    });

    for (const [ucid, version] of news) known.set(ucid, version);
    const writer = new TableWriter(VERSION_COLUMNS);
    writer.add(
      new Map<string, Cell[]>([
        ['ucid', [...known.keys()]],
        ['version', [...known.values()]],
      ]),
      known.size,
    );
    await files.staging.put(versionsName(name), writer.finish(), files.signal);
  }
  return written;
}

function ucidOf(row: Row): string {
  return String(row.get('ucid'));
}

function identityKey(row: Row): string {
  return JSON.stringify([row.get('ucid'), row.get('type'), row.get('value')]);
}

function versionsName(bucket: string): string {
  return `${OWN}/profiles/${bucket}`;
}

function bucketOf(ucid: string): string {
  const bucket = Number.parseInt(hash('sha256', ucid).slice(0, 8), 16) % BUCKETS;
  return `bucket-${String(bucket).padStart(2, '0')}.parquet`;
}

function bucketsOf({ users, identities, gone }: ProfileRows): ReadonlyMap<string, Bucket> {
  const buckets = new Map<string, Bucket>();
  const of = (ucid: string) => {
    const name = bucketOf(ucid);
    const known: Bucket = buckets.get(name) ?? { versions: new Map(), users: [], identities: [] };
    buckets.set(name, known);
    return known;
  };
  for (const row of rowsOf(users)) {
    const bucket = of(ucidOf(row));
    const version = row.get('version');
    bucket.users.push(row);
    bucket.versions.set(ucidOf(row), typeof version === 'bigint' ? version : 0n);
  }
  for (const row of rowsOf(identities)) of(ucidOf(row)).identities.push(row);
  for (const { ucid, version } of gone) of(ucid).versions.set(ucid, BigInt(version));
  return buckets;
}

function* rowsOf({ columns, rows }: TableRows): Generator<Row> {
  const named = [...columns];
  for (const values of rows)
    yield new Map(named.map(([name, type], at) => [name, cellOf(values[at] ?? null, type)]));
}

async function versionsIn({ store, signal }: BucketFiles, bucket: string): Promise<Map<string, bigint>> {
  const versions = new Map<string, bigint>();
  for await (const { cells, count } of readFile(store, versionsName(bucket), {}, signal))
    for (let at = 0; at < count; at++) {
      const version = cells.get('version')?.[at];
      if (typeof version === 'bigint') versions.set(String(cells.get('ucid')?.[at]), version);
    }
  return versions;
}

interface BucketChange {
  /** The row as it is from now on; undefined: it is dropped. */
  change(row: Row): Row | undefined;
  /** Further rows, once all others were changed. */
  added(): readonly Row[];
}

async function stageBucket(
  { store, staging, signal }: BucketFiles,
  name: string,
  columns: Columns,
  { change, added }: BucketChange,
): Promise<void> {
  const writer = new TableWriter(columns);
  let rows: Row[] = [];
  const flush = () => {
    const cells = Array.from(
      columns.keys(),
      (column) => [column, rows.map((row) => row.get(column) ?? null)] as const,
    );
    writer.add(new Map(cells), rows.length);
    rows = [];
  };
  for await (const some of readFile(store, name, {}, signal)) {
    for (const row of rowsIn(some, columns)) {
      const changed = change(row);
      if (changed !== undefined) rows.push(changed);
    }
    // Each change of a profile writes the bucket anew: its row groups do not become small.
    if (rows.length >= ROWS_OF_GROUP) flush();
  }
  rows.push(...added());
  flush();
  // Also without rows: a name that is used again is never removed.
  await staging.put(name, writer.finish(), signal);
}

function rowsIn(rows: Rows, columns: Columns): readonly Row[] {
  const all = Array.from({ length: rows.count }, (_, at) => at);
  const cells = [...widenedCells(rows, columns, all)];
  return all.map((at) => new Map(cells.map(([name, column]) => [name, column[at] ?? null])));
}
