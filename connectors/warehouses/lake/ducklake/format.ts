import {
  type ColumnType,
  type LedgerRow,
  newId,
  type TableColumns,
  Unavailable,
  WarehouseRefused,
} from '@tributary/core';
import { parquetMetadata } from 'hyparquet';
import { isLoaded, LEDGER, ledgerRow, VERSIONS } from '../../tables.ts';
import { DECIMAL } from '../cells.ts';
import type {
  DataFile,
  EncodedRows,
  LakeTransaction,
  Part,
  Received,
  TableFormat,
  TableSchema,
} from '../format.ts';
import { type Rows, readFile, type Selection } from '../parquet.ts';
import { FileWrites, type LakeStore } from '../store.ts';
import {
  bucketOf,
  type CatalogDatabase,
  createCatalog,
  createLedger,
  forIds,
  insert,
  integer,
  isOwn,
  JSON_COMMENT,
  type Query,
  SCHEMA,
  type SqlRow,
  TRUE,
  timeOf,
  timeText,
  VERSION,
} from './tables.ts';

/** The file of a catalog in the folder of the lake, as documents of DuckDB call it. */
export const CATALOG_FILE = 'metadata.sqlite';
/** Ledger rows of a lane that are kept: the newest one counts. */
const KEPT_LOADS = 1_000;
/** A change that takes longer is not committed: its files may have been removed as orphans. */
const MAX_CHANGE_MS = 30 * 60_000;
/** By which bounds of a file are extended when they are compared as texts, whose digits vary. */
const SLACK_MS = 1_000;

const TYPES: Readonly<Record<ColumnType, string>> = {
  boolean: 'boolean',
  bigint: 'int64',
  numeric: `decimal(${DECIMAL.whole + DECIMAL.fraction},${DECIMAL.fraction})`,
  double: 'float64',
  timestamp: 'timestamptz',
  text: 'varchar',
  json: 'varchar',
};
const TYPE_OF: ReadonlyMap<unknown, ColumnType> = new Map([
  ...Object.entries(TYPES).map(([type, name]) => [name, type as ColumnType] as const),
  [TYPES.text, 'text'],
  ['json', 'json'],
]);

/** Columns with bounds in the catalog, by which queries leave files out. Bounds of texts would outlive deleted people. */
const BOUNDED = ['received_at', 'timestamp'] as const;

/** The newest snapshot, as a change finds it. */
interface Snapshot {
  readonly id: number;
  readonly schemaVersion: number;
  readonly nextCatalogId: number;
  readonly nextFileId: number;
}

interface Column {
  readonly id: number;
  readonly order: number;
  readonly type: ColumnType | undefined;
}

interface Table {
  readonly id: number;
  /** Of its files, below the root of the lake. */
  readonly path: string;
  readonly columns: ReadonlyMap<string, Column>;
}

interface Catalog {
  readonly schemaId: number;
  readonly tables: ReadonlyMap<string, Table>;
  readonly views: ReadonlySet<string>;
}

/** A file of the catalog. */
interface KnownFile extends DataFile {
  readonly id: number;
  readonly rows: number;
  readonly deletes: string | undefined;
}

interface NewFile {
  readonly table: Table;
  readonly path: string;
  readonly size: number;
  /** Of its footer, which readers ask for at once. */
  readonly footer: number;
  readonly count: number;
  readonly bounds: readonly Bounds[];
}

/** Of a column of a file, as texts. */
interface Bounds {
  readonly column: number;
  readonly min: string;
  readonly max: string;
}

interface FormatOptions {
  readonly destinationId: string;
  /** What readers put before the names of files: a folder or the URL of a prefix, with a `/` behind it. */
  readonly dataPath: string;
  /** The catalog is in the folder of the files, so that it moves with them. */
  readonly isInFolder: boolean;
}

/**
 * DuckLake: the files of all tables are rows of a catalog, which is a SQL database. A change writes its files under new names, and
 * one transaction of the catalog makes them those of a new snapshot, with the row of the ledger. The id of the snapshot follows that
 * of the one that the change began with: of two changes at once one is made anew.
 *
 * DuckDB may read and change the same lake: rows that it deletes are left out, and what it merged is read as any other file.
 */
export class DuckLakeFormat implements TableFormat {
  readonly #store: LakeStore;
  readonly #database: CatalogDatabase;
  readonly #options: FormatOptions;
  /** The tables as of a version of the schema. */
  #known: { readonly key: string; readonly catalog: Catalog } | undefined;

  constructor(store: LakeStore, database: CatalogDatabase, options: FormatOptions) {
    this.#store = store;
    this.#database = database;
    this.#options = options;
  }

  async begin(signal: AbortSignal): Promise<DuckLakeTransaction> {
    const find = (query: Query) => this.#find(query);
    let found = await this.#database.read(find, signal);
    if (found === undefined) {
      // Another process may do the same.
      await this.#database.transaction((query) => this.#create(query, signal), signal);
      found = await this.#database.read(find, signal);
    }
    if (found === undefined) throw new Unavailable('the catalog is made by another process');
    const { destinationId } = this.#options;
    return new DuckLakeTransaction(this.#store, this.#database, { ...found, destinationId, signal });
  }

  async forget(signal: AbortSignal): Promise<void> {
    const { snapshot } = (await this.begin(signal)).begun;
    await this.#database.transaction((query) => expire(query, snapshot.id), signal);
  }

  async tidy(now: number, signal: AbortSignal): Promise<void> {
    await this.begin(signal);
    await tidyFiles(this.#store, this.#database, { now, signal });
  }

  async test(signal: AbortSignal): Promise<void> {
    const probe = `_tributary-test-${newId()}`;
    await this.#store.put(probe, new Uint8Array(1), signal);
    const isRead = (await this.#store.read(probe, signal))?.length === 1;
    await this.#store.remove(probe, signal);
    if (!isRead) throw new WarehouseRefused('what was written is not there');
    const { isInFolder } = this.#options;
    if (isInFolder && (await this.#store.size(CATALOG_FILE, signal)) === undefined) return;
    // What the test makes of the catalog is rolled back.
    const rolledBack = new Error('rolled back');
    await this.#database
      .transaction(async (query) => {
        await this.#create(query, signal);
        await this.#find(query);
        throw rolledBack;
      }, signal)
      .catch((error: unknown) => {
        if (error !== rolledBack) throw error;
      });
  }

  async close(): Promise<void> {
    await this.#database.close();
    await this.#store.close();
  }

  /** Makes what is missing of the catalog, and of the tables beside it. */
  async #create(query: Query, signal: AbortSignal): Promise<void> {
    const names = await this.#tables(query);
    const { dataPath, isInFolder } = this.#options;
    if (!names.has('ducklake_metadata')) {
      // Without their catalog they would be removed as orphans.
      if ((await this.#store.names(SCHEMA, signal)).length > 0)
        throw new WarehouseRefused(
          'the lake has files, but no catalog: restore it, or move the files elsewhere',
        );
      await this.#database.prepare(query);
      await createCatalog(query, this.#database.dialect, dataPath);
    }
    if (!names.has(LEDGER)) await createLedger(query);
    if (isInFolder)
      await query("update ducklake_metadata set value = ? where key = 'data_path' and scope is null", [
        dataPath,
      ]);
  }

  /** The newest snapshot of a catalog that is whole and for this lake. */
  async #find(query: Query) {
    const names = await this.#tables(query);
    if (!names.has('ducklake_metadata') || !names.has(LEDGER)) return undefined;
    const newest = await this.#newest(query);
    if (newest === undefined) return undefined;
    const { snapshot, key, schemaId } = newest;
    const catalog =
      this.#known?.key === key ? this.#known.catalog : await readCatalog(query, snapshot.id, schemaId);
    this.#known = { key, catalog };
    return { snapshot, catalog, names };
  }

  async #tables(query: Query): Promise<ReadonlySet<string>> {
    return new Set((await query(this.#database.dialect.tables)).map(({ name }) => String(name)));
  }

  /** Undefined where the folder of files and catalog was moved. */
  async #newest(query: Query) {
    const rows = await query('select key, value from ducklake_metadata where scope is null');
    const metadata = new Map(rows.map(({ key, value }) => [key, value]));
    const version = metadata.get('version');
    if (version !== VERSION)
      throw new WarehouseRefused(`the catalog has version ${version} of DuckLake, not ${VERSION}`);
    if (metadata.get('encrypted') === 'true') throw new WarehouseRefused('the lake is encrypted');
    if (metadata.get('data_path') !== this.#options.dataPath) {
      if (this.#options.isInFolder) return undefined;
      throw new WarehouseRefused(`the catalog is that of the files in ${metadata.get('data_path')}`);
    }
    const [row] = await query(
      `select snapshot_id, schema_version, next_catalog_id, next_file_id, schema_id, schema_uuid from ducklake_snapshot
       left join ducklake_schema on schema_name = ? and end_snapshot is null order by snapshot_id desc limit 1`,
      [SCHEMA],
    );
    if (row === undefined) throw new WarehouseRefused('the catalog has no snapshot');
    const snapshot: Snapshot = {
      id: integer(row.snapshot_id),
      schemaVersion: integer(row.schema_version),
      nextCatalogId: integer(row.next_catalog_id),
      nextFileId: integer(row.next_file_id),
    };
    if (row.schema_id === null) throw new WarehouseRefused(`the catalog has no schema "${SCHEMA}"`);
    const key = `${snapshot.schemaVersion} ${row.schema_uuid}`;
    return { snapshot, key, schemaId: integer(row.schema_id) };
  }
}

/** Rows of a catalog that are valid at a snapshot. */
function at(snapshot: number, table = ''): string {
  const of = table === '' ? '' : `${table}.`;
  return `${of}begin_snapshot <= ${snapshot} and (${of}end_snapshot is null or ${of}end_snapshot > ${snapshot})`;
}

async function readCatalog(query: Query, snapshot: number, schemaId: number): Promise<Catalog> {
  const schemas = await query(`select path, path_is_relative from ducklake_schema where schema_id = ?`, [
    schemaId,
  ]);
  const tables = await query(
    `select table_id, table_name, path, path_is_relative from ducklake_table where schema_id = ? and ${at(snapshot)}`,
    [schemaId],
  );
  const columns = await query(
    `select c.table_id, c.column_id, c.column_order, c.column_name, c.column_type, t.value as tag from ducklake_column c
     left join ducklake_column_tag t on t.table_id = c.table_id and t.column_id = c.column_id and t.key = 'comment'
       and ${at(snapshot, 't')}
     where c.parent_column is null and ${at(snapshot, 'c')} order by c.table_id, c.column_order`,
  );
  const views = await query(`select view_name from ducklake_view where schema_id = ? and ${at(snapshot)}`, [
    schemaId,
  ]);
  const ofTables = Map.groupBy(columns, ({ table_id }) => integer(table_id));
  return {
    schemaId,
    views: new Set(views.map(({ view_name }) => String(view_name))),
    tables: new Map(
      tables.map((row) => {
        const id = integer(row.table_id);
        const isBelow = [schemas[0], row].every((one) => isTrue(one?.path_is_relative));
        return [
          String(row.table_name),
          {
            id,
            // What lies elsewhere has no file of this lake.
            path: isBelow ? `${schemas[0]?.path}${row.path}` : '',
            columns: new Map(
              ofTables.get(id)?.map((column) => [String(column.column_name), columnOf(column)]) ?? [],
            ),
          },
        ];
      }),
    ),
  };
}

function columnOf({ column_id, column_order, column_type, tag }: SqlRow): Column {
  const type = TYPE_OF.get(column_type);
  const isJson = type === 'text' && tag === JSON_COMMENT;
  return { id: integer(column_id), order: integer(column_order), type: isJson ? 'json' : type };
}

/** A boolean of a catalog: a number, with one driver. */
function isTrue(value: unknown): boolean {
  return value === true || value === 1;
}

interface Begun {
  readonly snapshot: Snapshot;
  readonly catalog: Catalog;
  /** The tables of the database. */
  readonly names: ReadonlySet<string>;
  readonly destinationId: string;
  readonly signal: AbortSignal;
}

class DuckLakeTransaction implements LakeTransaction {
  readonly signal: AbortSignal;
  readonly #store: LakeStore;
  readonly #database: CatalogDatabase;
  readonly begun: Begun;
  /** When the first file was written. */
  #wroteAt: number | undefined;
  readonly #writes: FileWrites;
  readonly #files = new Map<string, KnownFile>();
  readonly #defined = new Map<string, Table>();
  readonly #added: NewFile[] = [];
  readonly #removed = new Map<KnownFile, Table>();

  constructor(store: LakeStore, database: CatalogDatabase, begun: Begun) {
    this.signal = begun.signal;
    this.#store = store;
    this.#database = database;
    this.begun = begun;
    this.#writes = new FileWrites(store);
  }

  async ledger(lane: string): Promise<LedgerRow | undefined> {
    const [row] = await this.#read((query) =>
      query(
        `select seq, batch, ranges, counts, loaded_at from ${LEDGER} where destination_id = ? and lane = ?
         order by seq desc limit 1`,
        [this.begun.destinationId, lane],
      ),
    );
    return row === undefined ? undefined : ledgerRow(lane, row);
  }

  async tables(): Promise<readonly string[]> {
    const all = [...this.begun.catalog.tables].map(([name, table]) => [name, typesOf(table)] as const);
    return all.filter((table) => table[0] !== VERSIONS && isLoaded(table)).map(([name]) => name);
  }

  async schema(name: string): Promise<TableSchema | undefined> {
    const table = this.begun.catalog.tables.get(name);
    return table === undefined ? undefined : schemaOf(table);
  }

  /** Without those that `whyUnread` is about. */
  async files(name: string, received?: Received): Promise<readonly DataFile[]> {
    const table = this.begun.catalog.tables.get(name);
    if (table === undefined) return [];
    const { snapshot } = this.begun;
    const { binary } = this.#database.dialect;
    const bounds =
      received === undefined ? [] : [received.from - SLACK_MS, received.to + SLACK_MS].map(timeText);
    const overlap =
      received === undefined
        ? ''
        : `and (s.min_value is null or s.max_value${binary} >= ? and s.min_value${binary} <= ?)`;
    const rows = await this.#read(async (query) => {
      if (received === undefined) await this.#checkInlined(query, name, table);
      return query(
        `select f.data_file_id, f.path, f.file_size_bytes, f.record_count, s.min_value, s.max_value, d.path as deletes,
           d.format as deletes_format
         from ducklake_data_file f
         left join ducklake_file_column_stats s on s.data_file_id = f.data_file_id and s.column_id = ?
         left join ducklake_delete_file d on d.data_file_id = f.data_file_id and ${at(snapshot.id, 'd')}
         where f.table_id = ? and f.path_is_relative = true and f.mapping_id is null and ${at(snapshot.id, 'f')} ${overlap}`,
        [table.columns.get('received_at')?.id ?? -1, table.id, ...bounds],
      );
    });
    return rows.map((row) => this.#fileOf(table, row));
  }

  /** Of files that DuckDB took over (`ducklake_add_data_files`): they lie outside of the lake, or know columns by name. */
  async whyUnread(name: string): Promise<string | undefined> {
    const table = this.begun.catalog.tables.get(name);
    if (table === undefined) return undefined;
    const isElsewhere =
      table.path === '' ? '' : 'and (f.path_is_relative = false or f.mapping_id is not null)';
    const found = await this.#read((query) =>
      query(
        `select 1 from ducklake_data_file f where f.table_id = ? and ${at(this.begun.snapshot.id, 'f')} ${isElsewhere} limit 1`,
        [table.id],
      ),
    );
    return found.length === 0
      ? undefined
      : `the table "${name}" has files that were added by ducklake_add_data_files: insert their rows instead`;
  }

  async *rows(name: string, file: DataFile, selection: Selection = {}): AsyncGenerator<Rows> {
    const table = this.begun.catalog.tables.get(name);
    const known = this.#files.get(file.name);
    const bytes = await this.#store.read(file.name, this.signal);
    if (table === undefined || bytes === undefined) return;
    const { fieldIds } = schemaOf(table);
    const foreign = [...table.columns].find(([, { type }]) => type === undefined);
    if (foreign !== undefined && selection.columns === undefined && !isOwn(file.name))
      throw new WarehouseRefused(
        `the column "${foreign[0]}" of "${name}" has a type that a loader cannot write`,
      );
    const deleted = known?.deletes === undefined ? undefined : await this.#deletedRows(known.deletes);
    yield* readFile(file.name, bytes, selection, { fieldIds, deleted });
  }

  async define(name: string, columns: TableColumns): Promise<TableSchema> {
    const { catalog, snapshot } = this.begun;
    if (catalog.views.has(name)) throw new WarehouseRefused(`"${name}" is a view: give it another name`);
    const known = catalog.tables.get(name);
    const created = [...this.#defined].filter(([table]) => !catalog.tables.has(table)).length;
    const id = known?.id ?? snapshot.nextCatalogId + created;
    const [row] = await this.#read((query) =>
      query('select coalesce(max(column_id), 0) as id from ducklake_column where table_id = ?', [id]),
    );
    let next = integer(row?.id) + 1;
    let order = Math.max(0, ...Array.from(known?.columns.values() ?? [], (column) => column.order));
    const defined = new Map<string, Column>();
    for (const [column, type] of columns) {
      const of = known?.columns.get(column);
      const isSame = of !== undefined && (of.type === type || (of.type === 'json' && type === 'text'));
      defined.set(column, isSame ? { ...of, type } : { id: next++, order: of?.order ?? ++order, type });
    }
    const table = { id, path: known?.path ?? `${SCHEMA}/${name}/`, columns: defined };
    this.#defined.set(name, table);
    return schemaOf(table);
  }

  async replace(
    name: string,
    replaced: readonly DataFile[],
    { bucket }: Part,
    { bytes, count }: EncodedRows,
  ): Promise<void> {
    const table = this.#defined.get(name) ?? this.begun.catalog.tables.get(name);
    if (table === undefined) throw new Unavailable(`the table ${name} was removed during the load`);
    for (const { name: of } of replaced) {
      const file = this.#files.get(of);
      if (file !== undefined) this.#removed.set(file, table);
    }
    if (count === 0) return;
    const path = fileName(bucket);
    // Of the file itself nothing is kept: a change may write gigabytes.
    const size = bytes.length;
    const footer = new DataView(bytes.buffer, bytes.byteOffset + size - FOOTER_END).getUint32(0, true);
    this.#added.push({ table, path, size, footer, count, bounds: boundsOf(table, bytes) });
    this.#wroteAt ??= performance.now();
    await this.#writes.put(`${table.path}${path}`, bytes, this.signal);
  }

  async commit(ledger?: LedgerRow): Promise<boolean> {
    const isEmpty = this.#added.length + this.#removed.size + this.#defined.size === 0;
    if (isEmpty && ledger === undefined) return true;
    try {
      await this.#writes.written();
      await this.#store.settle(this.signal);
      if (this.#wroteAt !== undefined && performance.now() - this.#wroteAt > MAX_CHANGE_MS)
        throw new Unavailable('the change took too long');
    } catch (error) {
      await this.discard();
      throw error;
    }
    const write = (query: Query) => this.#write(query, isEmpty, ledger);
    const isDone = await this.#database.transaction(write, this.signal);
    if (isDone !== true) await this.discard();
    return isDone === true;
  }

  async discard(): Promise<void> {
    await this.#writes.ended();
    for (const { table, path } of this.#added)
      await this.#store.remove(`${table.path}${path}`, this.signal).catch(() => undefined);
  }

  /** Writes the change into the catalog; false where it has a newer snapshot, or no longer the files that are replaced. */
  async #write(query: Query, isEmpty: boolean, ledger: LedgerRow | undefined): Promise<boolean> {
    const { snapshot, catalog } = this.begun;
    const [newest] = await query('select max(snapshot_id) as id from ducklake_snapshot');
    if (Number(newest?.id) !== snapshot.id || !(await this.#areThere(query))) return false;
    if (ledger !== undefined) await this.#writeLedger(query, ledger);
    if (isEmpty) return true;
    const id = snapshot.id + 1;
    const created = [...this.#defined].filter(([name]) => !catalog.tables.has(name));
    const schemaVersion = snapshot.schemaVersion + (this.#defined.size === 0 ? 0 : 1);
    // First, as the key keeps other changes from it.
    await insert(query, 'ducklake_snapshot', [
      [
        id,
        timeText(Date.now()),
        schemaVersion,
        snapshot.nextCatalogId + created.length,
        snapshot.nextFileId + this.#added.length,
      ],
    ]);
    const changes = [
      ...created.map(([name]) => `created_table:"${SCHEMA}"."${name}"`),
      ...[...this.#defined]
        .filter(([name]) => catalog.tables.has(name))
        .map(([, table]) => `altered_table:${table.id}`),
      ...ids(this.#removed.values()).map((table) => `deleted_from_table:${table}`),
      ...ids(this.#added.map(({ table }) => table)).map((table) => `inserted_into_table:${table}`),
    ];
    await insert(query, 'ducklake_snapshot_changes', [[id, changes.join(','), 'tributary', null, null]]);
    await this.#writeTables(query, { id, schemaVersion });
    await this.#endFiles(query, id);
    await this.#addFiles(query, id);
    return true;
  }

  async #writeLedger(query: Query, { lane, seq, batch, ranges, rows, loadedAt }: LedgerRow): Promise<void> {
    const { destinationId } = this.begun;
    await query(`delete from ${LEDGER} where destination_id = ? and lane = ? and seq <= ?`, [
      destinationId,
      lane,
      seq - KEPT_LOADS,
    ]);
    await insert(query, LEDGER, [
      [destinationId, lane, seq, batch, JSON.stringify(ranges), JSON.stringify(rows), loadedAt],
    ]);
  }

  async #writeTables(
    query: Query,
    { id, schemaVersion }: { readonly id: number; readonly schemaVersion: number },
  ): Promise<void> {
    const { catalog } = this.begun;
    for (const [name, table] of this.#defined) {
      const known = catalog.tables.get(name);
      if (known === undefined) {
        const row = [table.id, newId(), id, null, catalog.schemaId, name, `${name}/`, TRUE] as const;
        await insert(query, 'ducklake_table', [row]);
        await insert(query, 'ducklake_table_stats', [[table.id, 0, 0, 0]]);
      }
      await insert(query, 'ducklake_schema_versions', [[id, schemaVersion, table.id]]);
      const kept = new Set(Array.from(table.columns.values(), (column) => column.id));
      const ended = [...(known?.columns.values() ?? [])].filter((column) => !kept.has(column.id));
      const own = new Set(Array.from(known?.columns.values() ?? [], (column) => column.id));
      const news = [...table.columns].filter(([, column]) => !own.has(column.id));
      for (const kind of ['ducklake_column', 'ducklake_column_tag'])
        await forIds(
          query,
          ended.map((column) => column.id),
          `update ${kind} set end_snapshot = ${id} where table_id = ${table.id} and end_snapshot is null and column_id in (?)`,
        );
      await insert(
        query,
        'ducklake_column',
        news.map(([column, { id: columnId, order, type = 'text' }]) => [
          ...[columnId, id, null, table.id, order, column, TYPES[type], null, 'NULL'],
          TRUE,
          ...[null, 'literal', 'duckdb'],
        ]),
      );
      const isJson = news.filter(([, { type }]) => type === 'json');
      await insert(
        query,
        'ducklake_column_tag',
        isJson.map(([, column]) => [table.id, column.id, id, null, 'comment', JSON_COMMENT]),
      );
      const texts = [...table.columns].filter(
        ([column, { type }]) => type === 'text' && known?.columns.get(column)?.type === 'json',
      );
      await forIds(
        query,
        texts.map(([, column]) => column.id),
        `update ducklake_column_tag set end_snapshot = ${id}
         where table_id = ${table.id} and key = 'comment' and end_snapshot is null and column_id in (?)`,
      );
    }
  }

  /** DuckDB merges files without a snapshot of its own. */
  async #areThere(query: Query): Promise<boolean> {
    const there = await forIds(
      query,
      this.#removedIds,
      'select data_file_id from ducklake_data_file where end_snapshot is null and data_file_id in (?)',
    );
    return there.length === this.#removed.size;
  }

  async #endFiles(query: Query, id: number): Promise<void> {
    for (const kind of ['ducklake_data_file', 'ducklake_delete_file'])
      await forIds(
        query,
        this.#removedIds,
        `update ${kind} set end_snapshot = ${id} where end_snapshot is null and data_file_id in (?)`,
      );
  }

  get #removedIds(): readonly number[] {
    return Array.from(this.#removed.keys(), (file) => file.id);
  }

  async #addFiles(query: Query, id: number): Promise<void> {
    const tables = new Map<number, Table>();
    for (const { table } of this.#added) tables.set(table.id, table);
    for (const table of this.#removed.values()) tables.set(table.id, table);
    let fileId = this.begun.snapshot.nextFileId;
    for (const table of tables.values()) {
      const [stats] = await query(
        'select record_count, next_row_id, file_size_bytes from ducklake_table_stats where table_id = ?',
        [table.id],
      );
      const files = this.#added.filter((file) => file.table.id === table.id);
      const removed = [...this.#removed].filter(([, of]) => of.id === table.id).map(([file]) => file);
      let rowId = Number(stats?.next_row_id ?? 0);
      const rows: FileRow[] = [];
      const bounds: StatsRow[] = [];
      for (const { path, size, footer, count, bounds: ofFile } of files) {
        const of = [null, path, TRUE, 'parquet', count, size, footer, rowId, null, null, null, null] as const;
        rows.push([fileId, table.id, id, null, ...of]);
        for (const { column, min, max } of ofFile)
          bounds.push([fileId, table.id, column, null, count, null, min, max, null, null]);
        rowId += count;
        fileId += 1;
      }
      await insert(query, 'ducklake_data_file', rows);
      await insert(query, 'ducklake_file_column_stats', bounds);
      const count = sum(files, (file) => file.count) - sum(removed, (file) => file.rows);
      const bytes = sum(files, (file) => file.size) - sum(removed, (file) => file.bytes);
      const total = (before: unknown, more: number) => Math.max(0, Number(before ?? 0) + more);
      const values = [total(stats?.record_count, count), rowId, total(stats?.file_size_bytes, bytes)];
      if (stats === undefined) await insert(query, 'ducklake_table_stats', [[table.id, ...values]]);
      else
        await query(
          'update ducklake_table_stats set record_count = ?, next_row_id = ?, file_size_bytes = ? where table_id = ?',
          [...values, table.id],
        );
      // Bounds that DuckDB has of a whole table would leave out new rows.
      await query('delete from ducklake_table_column_stats where table_id = ?', [table.id]);
    }
  }

  /** Rows in the catalog itself, which only DuckDB moves into files. */
  async #checkInlined(query: Query, name: string, table: Table): Promise<void> {
    const inlined = [...this.begun.names].filter(
      (one) =>
        one.startsWith(`ducklake_inlined_data_${table.id}_`) || one === `ducklake_inlined_delete_${table.id}`,
    );
    for (const one of inlined)
      if ((await query(`select 1 from ${one} limit 1`)).length > 0)
        throw new WarehouseRefused(
          `rows of "${name}" are in the catalog: move them into files by ducklake_flush_inlined_data`,
        );
  }

  #fileOf(table: Table, row: SqlRow): KnownFile {
    const path = String(row.path);
    const [from, to] = [timeOf(row.min_value), timeOf(row.max_value)];
    const deletes = row.deletes === null ? undefined : `${table.path}${row.deletes}`;
    if (deletes !== undefined && row.deletes_format !== 'parquet')
      throw new WarehouseRefused(`${deletes} is no Parquet file`);
    const file = {
      name: `${table.path}${path}`,
      bytes: integer(row.file_size_bytes),
      bucket: bucketOf(path),
      received: from === undefined || to === undefined ? undefined : { from, to },
      id: integer(row.data_file_id),
      rows: integer(row.record_count),
      deletes,
    };
    this.#files.set(file.name, file);
    return file;
  }

  async #deletedRows(name: string): Promise<ReadonlySet<number>> {
    const bytes = await this.#store.read(name, this.signal);
    if (bytes === undefined) throw new WarehouseRefused(`${name} is missing`);
    const deleted = new Set<number>();
    for await (const { cells } of readFile(name, bytes, { columns: ['pos'] }))
      for (const position of cells.get('pos') ?? []) deleted.add(Number(position));
    return deleted;
  }

  #read<T>(work: (query: Query) => Promise<T>): Promise<T> {
    return this.#database.read(work, this.signal);
  }
}

type FileRow = readonly (string | number | null | typeof TRUE)[];
type StatsRow = readonly (string | number | null)[];

/** The bytes behind the footer of a Parquet file begin with its length. */
const FOOTER_END = 8;

function ids(tables: Iterable<Table>): readonly number[] {
  return [...new Set(Array.from(tables, ({ id }) => id))];
}

function sum<T>(all: readonly T[], of: (one: T) => number): number {
  return all.reduce((total, one) => total + of(one), 0);
}

function typesOf({ columns }: Table): TableColumns {
  return new Map(Array.from(columns, ([name, { type }]) => [name, type]));
}

function schemaOf(table: Table): TableSchema & { readonly fieldIds: ReadonlyMap<string, number> } {
  const own = [...table.columns].filter(([, { type }]) => type !== undefined);
  return { columns: typesOf(table), fieldIds: new Map(own.map(([name, { id }]) => [name, id])) };
}

const BUCKET_DIGITS = 2;
function fileName(bucket: number | undefined): string {
  const part = bucket === undefined ? 'tributary' : `bucket-${String(bucket).padStart(BUCKET_DIGITS, '0')}`;
  return `${part}-${newId()}.parquet`;
}

/** The bounds of a file's columns, from its own statistics, which are exact to the millisecond. */
function boundsOf(table: Table, bytes: Uint8Array): readonly Bounds[] {
  const { row_groups } = parquetMetadata(bytes);
  return BOUNDED.flatMap((name) => {
    const column = table.columns.get(name);
    const chunks = row_groups.map(
      ({ columns }) =>
        columns.find(({ meta_data }) => meta_data?.path_in_schema[0] === name)?.meta_data?.statistics,
    );
    const times = chunks
      .flatMap((of) => [of?.min_value, of?.max_value])
      .filter((time) => time instanceof Date);
    if (column?.type !== 'timestamp' || times.length < 2 * row_groups.length) return [];
    const ms = times.map((time) => time.getTime());
    const [min, max] = [Math.min(...ms), Math.max(...ms) + 1];
    return [{ column: column.id, min: timeText(min), max: timeText(max) }];
  });
}

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
async function expire(query: Query, before: number): Promise<void> {
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
async function tidyFiles(
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
