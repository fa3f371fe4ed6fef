import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { type ColumnType, EventLoopYielder, Unavailable, WarehouseRefused } from '@tributary/core';
import {
  type FileMetaData,
  parquetMetadata,
  parquetRead,
  type SchemaElement,
  snappyUncompress,
} from 'hyparquet';
import { ByteWriter, ParquetWriter } from 'hyparquet-writer';
import { type Cell, DECIMAL, widenedCell } from './cells.ts';
import type { DataFile, EncodedRows, LakeTransaction, Received, TableSchema } from './format.ts';

/** The columns of a table in their order. */
export type Columns = ReadonlyMap<string, ColumnType>;

/** Some rows of a table by column, all of the same length. */
export interface Rows {
  readonly columns: Columns;
  readonly cells: ReadonlyMap<string, Cell[]>;
  readonly count: number;
}

/** Rows of a row group at most, of a loader and of other writers. */
const GROUP_ROWS = 50_000;
const MAX_GROUP_ROWS = 250_000;
const DECIMAL_BYTES = 16;
/** Bytes of one column in a row group: a batch has a quarter. */
const MAX_CHUNK_BYTES = 64 * 1_024 * 1_024;
/** Bytes of all pages of a row group, decompressed. */
const MAX_GROUP_BYTES = 256 * 1_024 * 1_024;
/** Rows from which on compressing a page is worth it. */
const COMPRESSED_ROWS = 50;
/** Compresses better than Snappy, and faster, as it is native code. */
const CODEC = 'ZSTD';
const LEVEL = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };

const STRING = { type: 'BYTE_ARRAY', converted_type: 'UTF8', logical_type: { type: 'STRING' } } as const;

const ELEMENTS: Readonly<Record<ColumnType, Omit<SchemaElement, 'name'>>> = {
  boolean: { type: 'BOOLEAN' },
  bigint: { type: 'INT64' },
  numeric: {
    type: 'FIXED_LEN_BYTE_ARRAY',
    type_length: DECIMAL_BYTES,
    converted_type: 'DECIMAL',
    precision: DECIMAL.whole + DECIMAL.fraction,
    scale: DECIMAL.fraction,
  },
  double: { type: 'DOUBLE' },
  timestamp: {
    type: 'INT64',
    converted_type: 'TIMESTAMP_MICROS',
    logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MICROS' },
  },
  text: STRING,
  // Not the type JSON: DuckDB refuses a file with a document that its parser does not take, such as half of a surrogate pair.
  json: STRING,
};

/** The columns that files of the table have. */
export function writable({ columns }: TableSchema): Columns {
  const known = new Map<string, ColumnType>();
  for (const [name, type] of columns) if (type !== undefined) known.set(name, type);
  return known;
}

/** Writes one file of a table; each call of `add` begins a row group. */
export class TableWriter {
  readonly #columns: Columns;
  readonly #bytes = new ByteWriter();
  readonly #writer: ParquetWriter;

  constructor(schema: TableSchema) {
    const columns = writable(schema);
    this.#columns = columns;
    const leaves = Array.from(columns, ([name, type]): SchemaElement => {
      const id = schema.fieldIds?.get(name);
      const field = id === undefined ? {} : { field_id: id };
      return { name, repetition_type: 'OPTIONAL', ...ELEMENTS[type], ...field };
    });
    this.#writer = new ParquetWriter({
      writer: this.#bytes,
      schema: [{ name: 'root', num_children: columns.size }, ...leaves],
      codec: CODEC,
      compressors: { [CODEC]: (bytes) => zstdCompressSync(bytes, LEVEL) },
      createdBy: 'tributary',
    });
  }

  /** Columns that the rows lack are null. */
  add(cells: ReadonlyMap<string, Cell[]>, count: number): void {
    if (count === 0) return;
    const nothing = new Array<null>(count).fill(null);
    const columnData = Array.from(this.#columns, ([name, type]) => {
      const data = cells.get(name);
      const isSmall = data === undefined || count < COMPRESSED_ROWS;
      return {
        name,
        data: data ?? nothing,
        // Queries skip row groups by their times; of other columns the bounds tell little.
        statistics: type === 'timestamp',
        ...(isSmall ? { codec: 'UNCOMPRESSED' as const } : {}),
      };
    });
    // Synchronous, as the writer is in memory.
    void this.#writer.write({ columnData, rowGroupSize: GROUP_ROWS });
  }

  finish(): Uint8Array {
    void this.#writer.finish();
    return this.#bytes.getBytes();
  }
}

/** Which part of a file is read. */
export interface Selection {
  /** Absent: all. */
  readonly columns?: readonly string[];
  /** Row groups with a `received_at` in this range only, epoch ms. */
  readonly received?: Received;
}

/** What the format of the table knows of a file. */
interface FileContext {
  /** The numbers of the table's columns: a column of the file without one of these is left out. Absent: names count. */
  readonly fieldIds?: ReadonlyMap<string, number> | undefined;
  /** Positions of rows that were deleted since. */
  readonly deleted?: ReadonlySet<number> | undefined;
}

/** Reads a file with the types of `TableWriter`, one row group at a time. */
export async function* readFile(
  name: string,
  bytes: Uint8Array,
  selection: Selection,
  context: FileContext = {},
): AsyncGenerator<Rows> {
  try {
    yield* readTable(bytes, selection, context);
  } catch (error) {
    if (error instanceof Unavailable) throw error;
    throw new WarehouseRefused(`${name} is no file of a loader: move it elsewhere`, { cause: error });
  }
}

async function* readTable(
  bytes: Uint8Array,
  { columns, received }: Selection,
  { fieldIds, deleted }: FileContext,
): AsyncGenerator<Rows> {
  const metadata = parquetMetadata(bytes);
  checkBounds(metadata);
  const names = new Map(Array.from(fieldIds ?? [], ([name, id]) => [id, name]));
  /** By the names in the file, those in the table. */
  const known = new Map<string, string>();
  const types = new Map<string, ColumnType>();
  const elements = metadata.schema.slice(1);
  // A file that another program added by the names of its columns: without their numbers all its values would read as null.
  if (fieldIds !== undefined && elements.every(({ field_id }) => field_id === undefined))
    throw new Error('a file without the numbers of its columns');
  for (const element of elements) {
    const name = fieldIds === undefined ? element.name : names.get(element.field_id ?? -1);
    if (name === undefined || columns?.includes(name) === false) continue;
    known.set(element.name, name);
    types.set(name, typeOf(element));
  }
  const physical = { ...metadata, schema: metadata.schema.map(physicalOf) };
  const file = {
    byteLength: bytes.length,
    slice: (start: number, end = bytes.length) => new Uint8Array(bytes.subarray(start, end)).buffer,
  };
  let rowStart = 0;
  for (const { num_rows, columns: chunks } of metadata.row_groups) {
    const rowEnd = rowStart + Number(num_rows);
    const stats = chunks.find(({ meta_data }) => meta_data?.path_in_schema[0] === 'received_at')?.meta_data
      ?.statistics;
    if (received === undefined || mayHold(stats, received)) {
      const cells = new Map<string, Cell[]>(Array.from(types.keys(), (name) => [name, []]));
      await parquetRead({
        file,
        metadata: physical,
        columns: [...known.keys()],
        rowStart,
        rowEnd,
        compressors: decompressors(),
        parsers: { stringFromBytes: textOf },
        geoparquet: false,
        onChunk: ({ columnName, columnData }) => {
          const name = known.get(columnName) ?? '';
          const column = cells.get(name);
          const convert = converterOf(types.get(name));
          if (column !== undefined)
            for (const value of columnData as Iterable<unknown>) column.push(convert(value));
        },
      });
      yield without(deleted, rowStart, { columns: types, cells, count: rowEnd - rowStart });
    }
    rowStart = rowEnd;
  }
}

/** The rows behind a position of the file without those that were deleted. */
function without(deleted: ReadonlySet<number> | undefined, start: number, rows: Rows): Rows {
  if (deleted === undefined || deleted.size === 0) return rows;
  const isLeft = (_: Cell, at: number) => !deleted.has(start + at);
  const cells = new Map(Array.from(rows.cells, ([name, column]) => [name, column.filter(isLeft)]));
  const count = Array.from({ length: rows.count }, () => null).filter(isLeft).length;
  return { columns: rows.columns, cells, count };
}

/** The service that has the files may be anybody's: what it says of them must not take the memory of this process. */
function checkBounds({ row_groups }: FileMetaData): void {
  for (const { num_rows, columns } of row_groups)
    for (const { meta_data } of columns)
      if (
        num_rows > MAX_GROUP_ROWS ||
        meta_data?.num_values !== num_rows ||
        meta_data.total_uncompressed_size > MAX_CHUNK_BYTES
      )
        throw new Error('a row group of another writer');
}

/** For one row group. Its pages share one bound, as the sizes that they state may be false. */
function decompressors() {
  let room = MAX_GROUP_BYTES;
  const take = (bytes: number) => {
    room -= bytes;
    if (bytes > MAX_CHUNK_BYTES || room < 0) throw new Error('a row group of another writer');
    return bytes;
  };
  return {
    // A page of nulls alone has no bytes, which is no bound that zlib takes.
    [CODEC]: (input: Uint8Array, bytes: number): Uint8Array =>
      zstdDecompressSync(input, { maxOutputLength: Math.max(1, take(bytes)) }),
    SNAPPY(input: Uint8Array, bytes: number): Uint8Array {
      const output = new Uint8Array(take(bytes));
      snappyUncompress(input, output);
      return output;
    },
  };
}

/** Raw values are read: the reader would make doubles of decimals, and milliseconds of times. */
function physicalOf({ converted_type, logical_type, ...element }: SchemaElement): SchemaElement {
  return element;
}

function converterOf(type: ColumnType | undefined): (value: unknown) => Cell {
  if (type === 'numeric') return decimalCell;
  return type === 'bigint' ? integerCell : cellOf;
}

function typeOf({ type, type_length, converted_type, logical_type, scale }: SchemaElement): ColumnType {
  if (type === 'BOOLEAN') return 'boolean';
  if (type === 'DOUBLE' || type === 'FLOAT') return 'double';
  if (converted_type === 'DECIMAL') {
    // Longer ones take time with the square of their length.
    const isBounded =
      type === 'FIXED_LEN_BYTE_ARRAY' ? (type_length ?? 0) <= DECIMAL_BYTES : type !== 'BYTE_ARRAY';
    if (scale === DECIMAL.fraction && isBounded) return 'numeric';
    throw new Error('a decimal of another writer');
  }
  if (type === 'INT32' && converted_type === undefined && logical_type === undefined) return 'bigint';
  if (type === 'INT64') return converted_type === 'TIMESTAMP_MICROS' ? 'timestamp' : 'bigint';
  if (type === 'BYTE_ARRAY' && (converted_type === 'UTF8' || converted_type === 'JSON')) return 'text';
  throw new Error('a column of another writer');
}

function mayHold(
  stats: { readonly min_value?: unknown; readonly max_value?: unknown } | undefined,
  { from, to }: Received,
): boolean {
  const { min_value: min, max_value: max } = stats ?? {};
  return !(min instanceof Date && max instanceof Date) || (min.getTime() <= to && max.getTime() >= from);
}

function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8');
}

function cellOf(value: unknown): Cell {
  return (value ?? null) as Cell;
}

/** Other writers have narrower types of columns that were widened in place. */
function integerCell(value: unknown): Cell {
  return typeof value === 'number' ? BigInt(value) : cellOf(value);
}

function decimalCell(value: unknown): Cell {
  if (!(value instanceof Uint8Array)) return integerCell(value);
  if (value.length === DECIMAL_BYTES) {
    const view = new DataView(value.buffer, value.byteOffset, value.length);
    return (view.getBigInt64(0) << 64n) | view.getBigUint64(8);
  }
  const digits = value.reduce((whole, byte) => (whole << 8n) | BigInt(byte), 0n);
  return BigInt.asIntN(8 * value.length, digits);
}

/** The rows of files for which `isKept` is true, as one file with all columns of the table as it is now. */
export async function rewritten(
  transaction: LakeTransaction,
  table: string,
  files: readonly DataFile[],
  schema: TableSchema,
  isKept: (rows: Rows, at: number) => boolean = () => true,
): Promise<EncodedRows> {
  const columns = writable(schema);
  const writer = new TableWriter(schema);
  const thread = new EventLoopYielder(() => performance.now());
  let count = 0;
  for (const file of files)
    for await (const rows of transaction.rows(table, file)) {
      if (transaction.signal.aborted) throw new Unavailable('stopped');
      const kept: number[] = [];
      for (let at = 0; at < rows.count; at++) if (isKept(rows, at)) kept.push(at);
      writer.add(widenedCells(rows, columns, kept), kept.length);
      count += kept.length;
      if (thread.isYieldDue) await thread.yield();
    }
  return { bytes: writer.finish(), count };
}

/** Some rows in the types of the table. */
export function widenedCells(
  rows: Rows,
  columns: Columns,
  which: readonly number[],
): ReadonlyMap<string, Cell[]> {
  const cells = new Map<string, Cell[]>();
  for (const [name, to] of columns) {
    const from = rows.columns.get(name);
    const column = rows.cells.get(name);
    if (from === undefined || column === undefined) continue;
    cells.set(
      name,
      which.map((at) => widenedCell(column[at] ?? null, from, to)),
    );
  }
  return cells;
}
