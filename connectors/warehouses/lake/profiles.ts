import { hash } from 'node:crypto';
import {
  type ColumnType,
  IDENTITY_MAP_TABLE,
  type ProfileRows,
  type TableRows,
  Unavailable,
  USERS_TABLE,
  WarehouseRefused,
} from '@tributary/core';
import { VERSIONS } from '../tables.ts';
import { type Cell, cellOf } from './cells.ts';
import type { DataFile, EncodedRows, LakeTransaction, TableSchema } from './format.ts';
import { type Columns, type Rows, TableWriter, widenedCells, writable } from './parquet.ts';

/** Files of `users`, of `identity_map` and of the versions: a change of a profile rewrites one of each. */
const BUCKETS = 32;
const ROWS_OF_GROUP = 20_000;

export const VERSION_COLUMNS: Columns = new Map<string, ColumnType>([
  ['ucid', 'text'],
  ['version', 'bigint'],
]);

type Row = ReadonlyMap<string, Cell>;

interface ChangedBucket {
  /** Of profiles whose change is in the batch, by ucid. */
  readonly versions: Map<string, bigint>;
  readonly users: Row[];
  readonly identities: Row[];
}

/** Stages the files of `users` and `identity_map` as they are after changes of profiles; returns the rows of `users` written. */
export async function stageProfiles(
  transaction: LakeTransaction,
  changes: ProfileRows,
  loadedAt: string,
): Promise<number> {
  const gone = new Map(changes.gone.map((one) => [one.ucid, one]));
  const now = cellOf(loadedAt, 'timestamp');
  const [users, identities, versions] = await Promise.all([
    BucketTable.open(transaction, USERS_TABLE),
    BucketTable.open(transaction, IDENTITY_MAP_TABLE),
    BucketTable.open(transaction, VERSIONS, VERSION_COLUMNS),
  ]);
  const isMerged = [users, identities, versions].some((table) => table.isMerged);
  let written = 0;
  for (const [bucket, changed] of bucketsOf(changes, isMerged)) {
    const known = await versionsIn(versions, bucket);
    const news = new Map(
      [...changed.versions].filter(([ucid, version]) => version > (known.get(ucid) ?? -1n)),
    );
    if (news.size === 0 && !isMerged) continue;
    const isNews = (row: Row) => news.has(ucidOf(row));

    const addedUsers = changed.users.filter(isNews);
    await stageBucket(users, bucket, {
      change: (row) => (isNews(row) ? undefined : row),
      added: () => addedUsers,
    });
    written += addedUsers.length;

    const held = new Map(changed.identities.filter(isNews).map((row) => [identityKey(row), row]));
    const changedAt = new Map(changed.identities.map((row) => [ucidOf(row), row.get('valid_from') ?? null]));
    const open = new Set<string>();
    await stageBucket(identities, bucket, {
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
    const writer = new TableWriter(versions.schema);
    writer.add(
      new Map<string, Cell[]>([
        ['ucid', [...known.keys()]],
        ['version', [...known.values()]],
      ]),
      known.size,
    );
    await versions.replace(bucket, { bytes: writer.finish(), count: known.size });
  }
  return written;
}

/** A table with a file for each bucket, as it was when the transaction began. */
class BucketTable {
  readonly schema: TableSchema;
  readonly #transaction: LakeTransaction;
  readonly #table: string;
  readonly #own = new Map<number, DataFile[]>();
  /** What another program wrote, as where it merged the files of all buckets: they have rows of any of them. */
  readonly #merged: readonly DataFile[];
  #isFirst = true;

  private constructor(
    transaction: LakeTransaction,
    table: string,
    schema: TableSchema,
    files: readonly DataFile[],
  ) {
    this.schema = schema;
    this.#transaction = transaction;
    this.#table = table;
    this.#merged = files.filter(({ bucket }) => bucket === undefined);
    for (const file of files)
      if (file.bucket !== undefined)
        this.#own.set(file.bucket, [...(this.#own.get(file.bucket) ?? []), file]);
  }

  /** With `columns` it is made where it is missing. */
  static async open(transaction: LakeTransaction, table: string, columns?: Columns): Promise<BucketTable> {
    const schema =
      (await transaction.schema(table)) ?? (columns && (await transaction.define(table, columns)));
    if (schema === undefined) throw new Unavailable('the tables of profiles were removed during the load');
    const files = await transaction.files(table);
    // A bucket is written anew by its rows.
    const fixed = files.length === 0 ? undefined : await transaction.whyFixed?.(table);
    if (fixed !== undefined) throw new WarehouseRefused(fixed);
    return new BucketTable(transaction, table, schema, files);
  }

  /** All buckets have to be written. */
  get isMerged(): boolean {
    return this.#merged.length > 0;
  }

  /** Rows, of which those with these indexes are in the bucket. */
  async *rows(bucket: number): AsyncGenerator<{ readonly rows: Rows; readonly which: readonly number[] }> {
    for (const file of [...(this.#own.get(bucket) ?? []), ...this.#merged])
      for await (const rows of this.#transaction.rows(this.#table, file)) {
        const all = Array.from({ length: rows.count }, (_, at) => at);
        const isHere = (at: number) => bucketOf(String(rows.cells.get('ucid')?.[at])) === bucket;
        yield { rows, which: file.bucket === undefined ? all.filter(isHere) : all };
      }
  }

  replace(bucket: number, file: EncodedRows): Promise<void> {
    const replaced = [...(this.#own.get(bucket) ?? [])];
    if (this.#isFirst) replaced.push(...this.#merged);
    this.#isFirst = false;
    return this.#transaction.replace(this.#table, replaced, { bucket }, file);
  }
}

function ucidOf(row: Row): string {
  return String(row.get('ucid'));
}

function identityKey(row: Row): string {
  return JSON.stringify([row.get('ucid'), row.get('type'), row.get('value')]);
}

function bucketOf(ucid: string): number {
  return Number.parseInt(hash('sha256', ucid).slice(0, 8), 16) % BUCKETS;
}

/** The changes of each bucket that has some, or of all. */
function bucketsOf(
  { users, identities, gone }: ProfileRows,
  isAll: boolean,
): ReadonlyMap<number, ChangedBucket> {
  const buckets = new Map<number, ChangedBucket>();
  const at = (bucket: number) => {
    const known: ChangedBucket = buckets.get(bucket) ?? { versions: new Map(), users: [], identities: [] };
    buckets.set(bucket, known);
    return known;
  };
  if (isAll) for (let bucket = 0; bucket < BUCKETS; bucket++) at(bucket);
  for (const row of rowsOf(users)) {
    const bucket = at(bucketOf(ucidOf(row)));
    const version = row.get('version');
    bucket.users.push(row);
    bucket.versions.set(ucidOf(row), typeof version === 'bigint' ? version : 0n);
  }
  for (const row of rowsOf(identities)) at(bucketOf(ucidOf(row))).identities.push(row);
  for (const { ucid, version } of gone) at(bucketOf(ucid)).versions.set(ucid, BigInt(version));
  return buckets;
}

function* rowsOf({ columns, rows }: TableRows): Generator<Row> {
  const named = [...columns];
  for (const values of rows)
    yield new Map(named.map(([name, type], at) => [name, cellOf(values[at] ?? null, type)]));
}

async function versionsIn(table: BucketTable, bucket: number): Promise<Map<string, bigint>> {
  const versions = new Map<string, bigint>();
  for await (const { rows, which } of table.rows(bucket))
    for (const at of which) {
      const version = rows.cells.get('version')?.[at];
      if (typeof version === 'bigint') versions.set(String(rows.cells.get('ucid')?.[at]), version);
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
  table: BucketTable,
  bucket: number,
  { change, added }: BucketChange,
): Promise<void> {
  const columns = writable(table.schema);
  const writer = new TableWriter(table.schema);
  let count = 0;
  let rows: Row[] = [];
  const flush = () => {
    const cells = Array.from(
      columns.keys(),
      (column) => [column, rows.map((row) => row.get(column) ?? null)] as const,
    );
    writer.add(new Map(cells), rows.length);
    count += rows.length;
    rows = [];
  };
  for await (const { rows: some, which } of table.rows(bucket)) {
    for (const row of rowsIn(some, columns, which)) {
      const changed = change(row);
      if (changed !== undefined) rows.push(changed);
    }
    // Each change of a profile writes the bucket anew: its row groups do not become small.
    if (rows.length >= ROWS_OF_GROUP) flush();
  }
  rows.push(...added());
  flush();
  await table.replace(bucket, { bytes: writer.finish(), count });
}

function rowsIn(rows: Rows, columns: Columns, which: readonly number[]): readonly Row[] {
  const cells = [...widenedCells(rows, columns, which)];
  return which.map((_, at) => new Map(cells.map(([name, column]) => [name, column[at] ?? null])));
}
