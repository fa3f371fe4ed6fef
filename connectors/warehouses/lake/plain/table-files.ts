import { type ColumnType, newId, type TableColumns, WarehouseRefused } from '@tributary/core';
import { VERSIONS } from '../../tables.ts';
import type { Part, Received } from '../format.ts';
import type { LakeStore } from '../store.ts';
import { OWN } from './commit-log.ts';

/*
 * The files of a table:
 *
 *     <table>/_schema.json                                              its columns; readers skip names with `_`
 *     <table>/received_date=2026-11-30/<from>-<to>-<id>.parquet         rows that were received then, ms of the day
 *     users/bucket-07.parquet                                           rows of profiles, by a hash of the ucid
 */

/** The partition of a table by the day (UTC) of `received_at`. No property has a column of this name. */
const PARTITION = 'received_date';
/** Rows without that time, in the name that readers take for null. */
const NO_DAY = '__HIVE_DEFAULT_PARTITION__';
const MS_DIGITS = 8;
const BUCKET_DIGITS = 2;

const TYPES: ReadonlySet<unknown> = new Set<ColumnType>([
  'boolean',
  'bigint',
  'numeric',
  'double',
  'timestamp',
  'text',
  'json',
]);

/** Undefined without the table. */
export async function readSchema(
  store: LakeStore,
  table: string,
  signal: AbortSignal,
): Promise<TableColumns | undefined> {
  const bytes = await store.read(schemaName(table), signal);
  if (bytes === undefined) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(bytes).toString('utf8'));
  } catch {
    value = undefined;
  }
  const columns =
    typeof value === 'object' && value !== null && 'columns' in value ? value.columns : undefined;
  if (typeof columns !== 'object' || columns === null)
    throw new WarehouseRefused(`${schemaName(table)} was changed by hand`);
  return new Map(Object.entries(columns).map(([name, type]) => [name, isType(type) ? type : undefined]));
}

function isType(type: unknown): type is ColumnType {
  return TYPES.has(type);
}

/** The versions of profiles are no table of readers. */
export function folderOf(table: string): string {
  return table === VERSIONS ? `${OWN}/profiles` : table;
}

export function schemaName(table: string): string {
  return `${folderOf(table)}/_schema.json`;
}

export function schemaText(columns: TableColumns): Uint8Array {
  return Buffer.from(`${JSON.stringify({ columns: Object.fromEntries(columns) }, null, 1)}\n`);
}

export function dayFolder(table: string, received: Received | undefined): string {
  const day = received === undefined ? NO_DAY : dayOf(received);
  return `${folderOf(table)}/${PARTITION}=${day}`;
}

function dayOf({ from }: Received): string {
  return new Date(from).toISOString().slice(0, '2026-11-30'.length);
}

/** A name for a file with rows of this part. That of a bucket is always the same. */
export function fileName(table: string, { received, bucket }: Part): string {
  if (bucket !== undefined)
    return `${folderOf(table)}/bucket-${String(bucket).padStart(BUCKET_DIGITS, '0')}.parquet`;
  const start = received === undefined ? 0 : Date.parse(dayOf(received));
  const digits = (ms: number) => String(ms - start).padStart(MS_DIGITS, '0');
  const times = received === undefined ? [0, 0] : [received.from, received.to];
  return `${dayFolder(table, received)}/${times.map(digits).join('-')}-${newId()}.parquet`;
}

const FILE = /\/received_date=([^/]+)\/(\d{8})-(\d{8})-[0-9a-f-]{36}\.parquet$/;
const BUCKET = /\/bucket-(\d\d)\.parquet$/;

/** Which rows a file of a loader has; undefined for another file: those of a person are left alone. */
export function partOf(name: string): Part | undefined {
  const [, bucket] = BUCKET.exec(name) ?? [];
  if (bucket !== undefined) return { bucket: Number(bucket) };
  const [, day = '', from, to] = FILE.exec(name) ?? [];
  if (to === undefined) return undefined;
  const start = Date.parse(day);
  return Number.isNaN(start) ? {} : { received: { from: start + Number(from), to: start + Number(to) } };
}
