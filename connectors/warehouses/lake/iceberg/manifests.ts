import { isObject } from '@tributary/core';
import { parquetMetadata } from 'hyparquet';
import type { EncodedRows, TableSchema } from '../format.ts';
import { TableWriter } from '../parquet.ts';
import { type AvroRecord, type AvroValue, readAvro, writeAvro } from './avro.ts';

/*
 * The files that say which files a snapshot of a table has: a manifest list, and the manifests that it names. Records keep all
 * that other engines have written into fields that are known here.
 */

/** Field ids of a manifest list. */
const LIST = {
  path: 500,
  bytes: 501,
  spec: 502,
  content: 517,
  sequence: 515,
  minSequence: 516,
  snapshot: 503,
  addedFiles: 504,
  existingFiles: 505,
  deletedFiles: 506,
  addedRows: 512,
  existingRows: 513,
  deletedRows: 514,
  partitions: 507,
} as const;

/** Field ids of an entry of a manifest, and of the file in it. */
const ENTRY = { status: 0, snapshot: 1, sequence: 3, fileSequence: 4, file: 2 } as const;
const FILE = {
  content: 134,
  path: 100,
  format: 101,
  partition: 102,
  rows: 103,
  bytes: 104,
  valueCounts: 109,
  nullCounts: 110,
  lower: 125,
  upper: 128,
} as const;

const EXISTING = 0;
const ADDED = 1;
const DELETED = 2;
const DATA = 0;

/** A manifest of a snapshot, as its list has it. */
export interface Manifest {
  readonly path: string;
  readonly spec: number;
  readonly isOfDeletes: boolean;
  readonly sequence: bigint;
  readonly snapshot: bigint;
  /** Files that the snapshot has, and rows in them. */
  readonly files: number;
  readonly rows: bigint;
  readonly record: AvroRecord;
}

/** A data file of a snapshot. */
export interface TableFile {
  readonly path: string;
  readonly bytes: number;
  readonly rows: number;
  readonly isParquet: boolean;
  readonly partition: Partition;
  /** The first and the last value of columns of eight bytes, by field id. */
  readonly bounds: ReadonlyMap<number, readonly [bigint, bigint]>;
}

/** Where the files of one value of a partition spec are. */
export interface Partition {
  readonly spec: number;
  /** The type of `values`, as JSON. */
  readonly type: unknown;
  readonly values: AvroRecord;
}

/** An entry of a manifest. */
export interface ManifestEntry {
  readonly isLive: boolean;
  readonly file: TableFile;
  readonly record: AvroRecord;
}

/** What all manifests of one partition spec say of it. */
export interface ManifestHeader {
  /** JSON. */
  readonly metadata: Readonly<Record<string, string>>;
  /** The type of the partitions, as JSON. */
  readonly partition: unknown;
}

/** A file that a snapshot adds. Bounds are those of times alone: a manifest outlives the rows, and names nobody. */
export interface NewFile extends Omit<TableFile, 'isParquet'> {
  /** Nulls by field id, of the columns with bounds. */
  readonly nulls: ReadonlyMap<number, number>;
}

const optional = (type: unknown) => ['null', type];
const field = (id: number, name: string, type: unknown) => ({ name, type, 'field-id': id });
const maybe = (id: number, name: string, type: unknown) => ({
  name,
  type: optional(type),
  default: null,
  'field-id': id,
});
const mapOf = (key: number, value: number, type: string) => ({
  type: 'array',
  logicalType: 'map',
  items: {
    type: 'record',
    name: `k${key}_v${value}`,
    fields: [field(key, 'key', 'int'), field(value, 'value', type)],
  },
});
const listOf = (id: number, type: unknown) => ({ type: 'array', items: type, 'element-id': id });

const LIST_SCHEMA = {
  type: 'record',
  name: 'manifest_file',
  fields: [
    field(LIST.path, 'manifest_path', 'string'),
    field(LIST.bytes, 'manifest_length', 'long'),
    field(LIST.spec, 'partition_spec_id', 'int'),
    field(LIST.content, 'content', 'int'),
    field(LIST.sequence, 'sequence_number', 'long'),
    field(LIST.minSequence, 'min_sequence_number', 'long'),
    field(LIST.snapshot, 'added_snapshot_id', 'long'),
    field(LIST.addedFiles, 'added_files_count', 'int'),
    field(LIST.existingFiles, 'existing_files_count', 'int'),
    field(LIST.deletedFiles, 'deleted_files_count', 'int'),
    field(LIST.addedRows, 'added_rows_count', 'long'),
    field(LIST.existingRows, 'existing_rows_count', 'long'),
    field(LIST.deletedRows, 'deleted_rows_count', 'long'),
    maybe(
      LIST.partitions,
      'partitions',
      listOf(508, {
        type: 'record',
        name: 'r508',
        fields: [
          field(509, 'contains_null', 'boolean'),
          maybe(518, 'contains_nan', 'boolean'),
          maybe(510, 'lower_bound', 'bytes'),
          maybe(511, 'upper_bound', 'bytes'),
        ],
      }),
    ),
    maybe(519, 'key_metadata', 'bytes'),
  ],
};

function entrySchema(partition: unknown) {
  return {
    type: 'record',
    name: 'manifest_entry',
    fields: [
      field(ENTRY.status, 'status', 'int'),
      maybe(ENTRY.snapshot, 'snapshot_id', 'long'),
      maybe(ENTRY.sequence, 'sequence_number', 'long'),
      maybe(ENTRY.fileSequence, 'file_sequence_number', 'long'),
      field(ENTRY.file, 'data_file', {
        type: 'record',
        name: 'r2',
        fields: [
          field(FILE.content, 'content', 'int'),
          field(FILE.path, 'file_path', 'string'),
          field(FILE.format, 'file_format', 'string'),
          field(FILE.partition, 'partition', partition),
          field(FILE.rows, 'record_count', 'long'),
          field(FILE.bytes, 'file_size_in_bytes', 'long'),
          maybe(108, 'column_sizes', mapOf(117, 118, 'long')),
          maybe(FILE.valueCounts, 'value_counts', mapOf(119, 120, 'long')),
          maybe(FILE.nullCounts, 'null_value_counts', mapOf(121, 122, 'long')),
          maybe(137, 'nan_value_counts', mapOf(138, 139, 'long')),
          maybe(FILE.lower, 'lower_bounds', mapOf(126, 127, 'bytes')),
          maybe(FILE.upper, 'upper_bounds', mapOf(129, 130, 'bytes')),
          maybe(131, 'key_metadata', 'bytes'),
          maybe(132, 'split_offsets', listOf(133, 'long')),
          maybe(135, 'equality_ids', listOf(136, 'int')),
          maybe(140, 'sort_order_id', 'int'),
          maybe(143, 'referenced_data_file', 'string'),
        ],
      }),
    ],
  };
}

export function readManifestList(bytes: Uint8Array): readonly Manifest[] {
  return readAvro(bytes).records.map((record) => ({
    path: textOf(record, LIST.path),
    spec: intOf(record, LIST.spec),
    isOfDeletes: record.get(LIST.content) === 1,
    sequence: longOf(record, LIST.sequence),
    snapshot: longOf(record, LIST.snapshot),
    files: intOf(record, LIST.addedFiles) + intOf(record, LIST.existingFiles),
    rows: longOf(record, LIST.addedRows) + longOf(record, LIST.existingRows),
    record,
  }));
}

/** What a snapshot is known by. */
export interface SnapshotNumbers {
  readonly id: bigint;
  readonly parent: bigint | undefined;
  readonly sequence: bigint;
}

export function writeManifestList(
  manifests: readonly Manifest[],
  { id, parent, sequence }: SnapshotNumbers,
): Uint8Array {
  return writeAvro({
    schema: LIST_SCHEMA,
    metadata: {
      'snapshot-id': String(id),
      ...(parent === undefined ? {} : { 'parent-snapshot-id': String(parent) }),
      'sequence-number': String(sequence),
      'format-version': '2',
    },
    records: manifests.map(({ record }) => record),
  });
}

/** The entries of a manifest, with the numbers that they inherit from its list. */
export function readManifest(
  bytes: Uint8Array,
  manifest: Manifest,
): { readonly header: ManifestHeader; readonly entries: readonly ManifestEntry[] } {
  const { schema, metadata, records } = readAvro(bytes);
  const partition = partitionType(schema);
  const entries = records.map((record) => {
    const file = record.get(ENTRY.file);
    if (!(file instanceof Map)) throw new Error('an entry has no file');
    const whole = new Map<number, AvroValue>([
      ...record,
      [ENTRY.snapshot, record.get(ENTRY.snapshot) ?? manifest.snapshot],
      [ENTRY.sequence, record.get(ENTRY.sequence) ?? manifest.sequence],
      [ENTRY.fileSequence, record.get(ENTRY.fileSequence) ?? manifest.sequence],
      [ENTRY.file, new Map([[FILE.content, DATA], ...file])],
    ]);
    return {
      isLive: intOf(record, ENTRY.status) !== DELETED,
      file: fileOf(file, manifest.spec, partition),
      record: whole,
    };
  });
  return { header: { metadata, partition }, entries };
}

function fileOf(record: AvroRecord, spec: number, type: unknown): TableFile {
  const values = record.get(FILE.partition);
  const [lower, upper] = [FILE.lower, FILE.upper].map((id) => longsOf(record, id));
  const bounds = new Map<number, readonly [bigint, bigint]>();
  for (const [id, least] of lower ?? []) {
    const most = upper?.get(id);
    if (most !== undefined) bounds.set(id, [least, most]);
  }
  return {
    path: textOf(record, FILE.path),
    bytes: Number(longOf(record, FILE.bytes)),
    rows: Number(longOf(record, FILE.rows)),
    isParquet: textOf(record, FILE.format).toLowerCase() === 'parquet',
    partition: { spec, type, values: values instanceof Map ? values : new Map() },
    bounds,
  };
}

/** The bounds of eight bytes in a map of bounds. */
function longsOf(record: AvroRecord, map: number): ReadonlyMap<number, bigint> {
  const pairs = record.get(map);
  const longs = new Map<number, bigint>();
  for (const pair of Array.isArray(pairs) ? pairs : []) {
    // The ids of key and value are the two behind that of the map.
    const [id, bound] = pair instanceof Map ? [pair.get(map + 1), pair.get(map + 2)] : [];
    if (typeof id === 'number' && bound instanceof Uint8Array && bound.length === 8)
      longs.set(id, Buffer.from(bound).readBigInt64LE());
  }
  return longs;
}

/** The entry of a file that a snapshot adds. */
export function added(file: NewFile, snapshot: bigint): ManifestEntry {
  const { path, bytes, rows, partition, bounds, nulls } = file;
  const record = new Map<number, AvroValue>([
    [FILE.content, DATA],
    [FILE.path, path],
    [FILE.format, 'PARQUET'],
    [FILE.partition, partition.values],
    [FILE.rows, BigInt(rows)],
    [FILE.bytes, BigInt(bytes)],
    [FILE.valueCounts, pairsOf(119, nulls, () => BigInt(rows))],
    [FILE.nullCounts, pairsOf(121, nulls, (count) => BigInt(count))],
    [FILE.lower, pairsOf(126, bounds, ([least]) => int64(least))],
    [FILE.upper, pairsOf(129, bounds, ([, most]) => int64(most))],
  ]);
  const entry = new Map<number, AvroValue>([
    [ENTRY.status, ADDED],
    [ENTRY.snapshot, snapshot],
    [ENTRY.file, record],
  ]);
  return { isLive: true, file: { ...file, isParquet: true }, record: entry };
}

/** A map of values by field id; the id of its key, and behind that the one of its value. */
function pairsOf<T>(key: number, of: ReadonlyMap<number, T>, read: (one: T) => AvroValue) {
  return Array.from(of, ([id, one]) => new Map<number, AvroValue>().set(key, id).set(key + 1, read(one)));
}

/** The entry of a file that a snapshot keeps, in a manifest that is written anew. */
export function kept({ file, record }: ManifestEntry): ManifestEntry {
  return { isLive: true, file, record: new Map([...record, [ENTRY.status, EXISTING]]) };
}

/** The entry of a file that a snapshot no longer has. */
export function removed({ file, record }: ManifestEntry, snapshot: bigint): ManifestEntry {
  const changed = new Map([...record, [ENTRY.status, DELETED], [ENTRY.snapshot, snapshot]] as const);
  return { isLive: false, file, record: changed };
}

/** A manifest as a file, and as its list has it. */
export function writeManifest(
  path: string,
  { metadata, partition }: ManifestHeader,
  entries: readonly ManifestEntry[],
  { id, sequence }: Pick<SnapshotNumbers, 'id' | 'sequence'>,
): { readonly bytes: Uint8Array; readonly manifest: Manifest } {
  const spec = Number(metadata['partition-spec-id']);
  const bytes = writeAvro({
    schema: entrySchema(partition),
    metadata: { ...metadata, 'format-version': '2', content: 'data' },
    records: entries.map(({ record }) => record),
  });
  const counted = (status: number) => {
    const some = entries.filter(({ record }) => record.get(ENTRY.status) === status);
    return { files: some.length, rows: some.reduce((sum, { file }) => sum + BigInt(file.rows), 0n) };
  };
  const [existing, news, gone] = [counted(EXISTING), counted(ADDED), counted(DELETED)] as const;
  let minSequence = sequence;
  for (const { record } of entries) {
    const own = record.get(ENTRY.sequence);
    if (typeof own === 'bigint' && own < minSequence) minSequence = own;
  }
  const record = new Map<number, AvroValue>([
    [LIST.path, path],
    [LIST.bytes, BigInt(bytes.length)],
    [LIST.spec, spec],
    [LIST.content, DATA],
    [LIST.sequence, sequence],
    [LIST.minSequence, minSequence],
    [LIST.snapshot, id],
    [LIST.addedFiles, news.files],
    [LIST.existingFiles, existing.files],
    [LIST.deletedFiles, gone.files],
    [LIST.addedRows, news.rows],
    [LIST.existingRows, existing.rows],
    [LIST.deletedRows, gone.rows],
    [LIST.partitions, summariesOf(partition, entries)],
  ]);
  const live = { files: news.files + existing.files, rows: news.rows + existing.rows };
  const manifest = { path, spec, isOfDeletes: false, sequence, snapshot: id, ...live, record };
  return { bytes, manifest };
}

/** The range of each partition field; null where one has values that are not integers. */
function summariesOf(partition: unknown, entries: readonly ManifestEntry[]): AvroValue {
  const fields = isObject(partition) && Array.isArray(partition.fields) ? partition.fields : [];
  const summaries: AvroValue[] = [];
  for (const one of fields) {
    const id = isObject(one) ? Number(one['field-id']) : Number.NaN;
    const values = entries.map(({ file }) => file.partition.values.get(id) ?? null);
    const numbers = values.filter((value) => typeof value === 'number');
    const hasNull = values.includes(null);
    if (numbers.length + values.filter((value) => value === null).length < values.length) return null;
    const bounds: [number, AvroValue][] =
      numbers.length === 0
        ? []
        : [
            [510, int32(Math.min(...numbers))],
            [511, int32(Math.max(...numbers))],
          ];
    summaries.push(new Map<number, AvroValue>([[509, hasNull], ...bounds]));
  }
  return summaries;
}

/** The range of an integer partition field in a manifest; undefined where it is not known. */
export function partitionRange(
  { record }: Manifest,
  index: number,
): { readonly from: number; readonly to: number } | undefined {
  const partitions = record.get(LIST.partitions);
  const summary = Array.isArray(partitions) ? partitions[index] : undefined;
  if (!(summary instanceof Map)) return undefined;
  const [lower, upper] = [510, 511].map((id) => summary.get(id));
  if (lower === undefined || lower === null) return { from: Number.POSITIVE_INFINITY, to: -1 };
  if (
    !(lower instanceof Uint8Array && upper instanceof Uint8Array && lower.length === 4 && upper.length === 4)
  )
    return undefined;
  const intIn = (bytes: Uint8Array) => Buffer.from(bytes).readInt32LE();
  return { from: intIn(lower), to: intIn(upper) };
}

function int64(value: bigint): Uint8Array {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64LE(value);
  return bytes;
}

function int32(value: number): Uint8Array {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  return bytes;
}

function partitionType(schema: unknown): unknown {
  const fieldsOf = (type: unknown): readonly unknown[] =>
    isObject(type) && Array.isArray(type.fields) ? type.fields : [];
  const typeOf = (fields: readonly unknown[], id: number) => {
    const found = fields.find((one) => isObject(one) && one['field-id'] === id);
    return isObject(found) ? found.type : undefined;
  };
  return typeOf(fieldsOf(typeOf(fieldsOf(schema), ENTRY.file)), FILE.partition);
}

function textOf(record: AvroRecord, id: number): string {
  const value = record.get(id);
  if (typeof value !== 'string') throw new Error(`the field ${id} is missing`);
  return value;
}

function intOf(record: AvroRecord, id: number): number {
  const value = record.get(id) ?? 0;
  if (typeof value !== 'number') throw new Error(`the field ${id} is no int`);
  return value;
}

function longOf(record: AvroRecord, id: number): bigint {
  const value = record.get(id) ?? 0n;
  if (typeof value !== 'bigint') throw new Error(`the field ${id} is no long`);
  return value;
}

/**
 * Bounds and nulls of the columns of a file with statistics, which are those of times: the files of the metadata outlive the rows, and
 * hold nothing by which people are known.
 */
export function metricsOf(bytes: Uint8Array): Pick<NewFile, 'bounds' | 'nulls'> {
  const { schema, row_groups } = parquetMetadata(bytes, { parsers: EXACT });
  const ids = new Map(schema.map(({ name, field_id }) => [name, field_id]));
  const bounds = new Map<number, readonly [bigint, bigint]>();
  const nulls = new Map<number, number>();
  for (const { columns } of row_groups)
    for (const { meta_data } of columns) {
      const id = ids.get(meta_data?.path_in_schema[0] ?? '');
      const { min_value: min, max_value: max, null_count = 0n } = meta_data?.statistics ?? {};
      if (id === undefined || meta_data?.statistics === undefined) continue;
      nulls.set(id, (nulls.get(id) ?? 0) + Number(null_count));
      if (typeof min !== 'bigint' || typeof max !== 'bigint') continue;
      let [least = min, most = max] = bounds.get(id) ?? [];
      if (min < least) least = min;
      if (max > most) most = max;
      bounds.set(id, [least, most]);
    }
  return { bounds, nulls };
}

/** The reader would make milliseconds of them. */
const EXACT = { timestampFromMicroseconds: (microseconds: bigint) => microseconds };

/** A file of the connection test. */
export function emptyFile(schema: TableSchema): EncodedRows {
  const writer = new TableWriter(schema);
  writer.add(new Map(), 1);
  return { bytes: writer.finish(), count: 1 };
}
