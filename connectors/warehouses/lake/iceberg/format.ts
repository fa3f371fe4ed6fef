import {
  type Clock,
  IDENTITY_MAP_TABLE,
  type LedgerRow,
  mapConcurrently,
  newId,
  parseObject,
  type TableColumns,
  Unavailable,
  USERS_TABLE,
  WarehouseRefused,
} from '@tributary/core';
import { isLoaded, LEDGER, ledgerRow, ledgerText, VERSIONS } from '../../tables.ts';
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
import type { LakeStore } from '../store.ts';
import {
  emptyFile,
  type Manifest,
  metricsOf,
  type NewFile,
  type Partition,
  partitionRange,
  type TableFile,
} from './manifests.ts';
import {
  checkVersion,
  type Field,
  fieldWith,
  longJson,
  MAIN,
  type PartitionSpec,
  type RestCatalog,
  type Snapshot,
  type TableMetadata,
} from './rest-catalog.ts';
import { IcebergTables, type TableChanges } from './tables.ts';

/** Tables that are read or committed at a time. */
const AT_ONCE = 4;
/** Bytes of a file that is read: what is larger is of another program. */
const MAX_FILE_BYTES = 64 * 1_024 * 1_024;
const DAY_MS = 86_400_000;
const MICROSECONDS = 1_000n;
/** Files of changes that ended without a commit are removed after so long, ms. */
const ORPHANED_AFTER_MS = 3_600_000;
/** A change whose files are older is not committed: they may be removed before it is whole. */
const MAX_CHANGE_MS = ORPHANED_AFTER_MS / 2;
/** How long snapshots stay readable where the table does not say so, ms. */
const SNAPSHOT_AGE_MS = 3_600_000;
const SNAPSHOT_AGE = 'history.expire.max-snapshot-age-ms';
/** How often the removal of snapshots is tried beside other changes. */
const ATTEMPTS = 10;

/** What tables are made with: other programs write files that are read here, and their metadata stays small. */
const PROPERTIES = {
  'format-version': '2',
  'write.parquet.compression-codec': 'zstd',
  'write.parquet.row-group-size-bytes': String(16 * 1_024 * 1_024),
  'write.parquet.row-group-limit': '50000',
  'write.target-file-size-bytes': String(32 * 1_024 * 1_024),
  'write.metadata.delete-after-commit.enabled': 'true',
  'write.metadata.previous-versions-max': '20',
  [SNAPSHOT_AGE]: String(SNAPSHOT_AGE_MS),
};

/** Columns of the table whose properties are the ledger. */
const LEDGER_COLUMNS: TableColumns = new Map([['batch', 'text']]);

/** Names of files that are ours. */
const DATA_FILE = /\/data\/(?:[^/]+\/)?(?:bucket-(\d\d)-)?[0-9a-f-]{36}\.parquet$/;
const METADATA_FILE = /\/metadata\/(?:manifest|snap)-[0-9a-f-]{36}\.avro$/;

/** A table and what the transaction makes of it. */
interface StagedTable {
  readonly add: NewFile[];
  readonly remove: TableFile[];
  columns?: TableColumns;
}

interface IcebergOptions {
  readonly catalog: RestCatalog;
  readonly store: LakeStore;
  readonly destinationId: string;
  readonly clock: Clock;
}

/**
 * Tables of Iceberg in a namespace of a REST catalog. A change is one commit for each of its tables, on the condition that the table
 * has the snapshot that was read; the row of the ledger is a property of a table of its own, which is committed last.
 */
export class IcebergFormat implements TableFormat {
  readonly #options: IcebergOptions;
  readonly #tables: IcebergTables;

  constructor(options: IcebergOptions) {
    this.#options = options;
    this.#tables = new IcebergTables(options.catalog, options.store, options.clock);
  }

  async begin(signal: AbortSignal): Promise<LakeTransaction> {
    return this.#begin(signal);
  }

  async forget(signal: AbortSignal): Promise<void> {
    const refs: string[] = [];
    await this.#forEach(signal, async (table) => {
      for (let attempt = 1; !(await this.#expire(table, () => false, true, signal)); attempt++)
        if (attempt === ATTEMPTS) throw new Unavailable(`the table ${table} is changed all the time`);
      const now = await this.#options.catalog.table(table, 'refs', signal);
      for (const ref of now?.refs.keys() ?? []) if (ref !== MAIN) refs.push(`${ref} of ${table}`);
    });
    if (refs.length > 0)
      throw new WarehouseRefused(`branches or tags keep rows that were deleted: drop ${refs.join(', ')}`);
  }

  async tidy(now: number, signal: AbortSignal): Promise<void> {
    await this.#forEach(signal, async (table) => {
      const isKept = (replacedAt: number, { properties }: TableMetadata) => {
        const age = Number(properties[SNAPSHOT_AGE] ?? SNAPSHOT_AGE_MS);
        return !(replacedAt + (Number.isFinite(age) ? age : SNAPSHOT_AGE_MS) < now);
      };
      await this.#expire(table, isKept, false, signal);
      await this.#removeOrphans(table, now, signal);
    });
  }

  async test(signal: AbortSignal): Promise<void> {
    const { catalog, store } = this.#options;
    const probe = `_tributary_test_${newId().replaceAll('-', '')}`;
    const isNew = await catalog.createNamespace(signal);
    try {
      const transaction = this.#begin(signal);
      const schema = await transaction.define(probe, LEDGER_COLUMNS);
      if (!(await transaction.commit())) throw new Unavailable('the table of the test was changed');
      const written = this.#begin(signal);
      await written.replace(probe, [], {}, emptyFile(schema));
      if (!(await written.commit())) throw new Unavailable('the table of the test was changed');
      const read = this.#begin(signal);
      const [file] = await read.files(probe);
      if (file === undefined || (await store.size(file.name, signal)) === undefined)
        throw new WarehouseRefused('what was written is not there');
    } finally {
      const made = await catalog.table(probe, 'refs', signal);
      await catalog.dropTable(probe, signal);
      if (made !== undefined) await store.removeFolder(this.#tables.nameOf(made.location), signal);
      if (isNew) await catalog.dropNamespace(signal);
    }
  }

  async close(): Promise<void> {
    await this.#options.catalog.close();
    await this.#options.store.close();
  }

  #begin(signal: AbortSignal): IcebergTransaction {
    return new IcebergTransaction(this.#tables, this.#options, signal);
  }

  /** Visits all tables of loaders; one that fails keeps no other from it. Rejects with the first failure at the end. */
  async #forEach(signal: AbortSignal, visit: (table: string) => Promise<void>): Promise<void> {
    const { names, refused } = await this.#begin(signal).allTables();
    const failures: unknown[] = [...refused];
    for (const name of names) {
      if (signal.aborted) throw new Unavailable('stopped');
      try {
        await visit(name);
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }

  /**
   * Removes snapshots that are neither kept nor held by a branch or a tag, and the files that only they have. `isAtOnce`: the files of
   * rows first, so that a crash leaves nothing of them that is not found again. False where the table was changed meanwhile.
   */
  async #expire(
    name: string,
    isKept: (replacedAt: number, table: TableMetadata) => boolean,
    isAtOnce: boolean,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { catalog } = this.#options;
    const table = await catalog.table(name, 'all', signal);
    if (table === undefined) return true;
    checkVersion(name, table);
    if (table.current === undefined) return true;
    const held = new Set([table.current.id, ...table.refs.values()]);
    const all = [...table.snapshots.values()].toSorted((one, other) => Number(one.sequence - other.sequence));
    // A query may have begun with a snapshot until the next one was made.
    const gone = all.filter(({ id, at }, index) => !held.has(id) && !isKept(all[index + 1]?.at ?? at, table));
    if (gone.length === 0) return true;
    const ids = new Set(gone.map(({ id }) => id));
    const kept = await this.#pathsOf(
      all.filter(({ id }) => !ids.has(id)),
      signal,
    );
    const old = await this.#pathsOf(gone, signal);
    const rows = [...old.rows].filter((path) => !kept.rows.has(path));
    const metadata = [...old.metadata].filter((path) => !kept.metadata.has(path));
    if (isAtOnce) await this.#remove(rows, signal);
    const commit = {
      requirements: [
        { type: 'assert-table-uuid', uuid: table.uuid },
        { type: 'assert-ref-snapshot-id', ref: MAIN, 'snapshot-id': longJson(table.current.id) },
      ],
      updates: [{ action: 'remove-snapshots', 'snapshot-ids': gone.map(({ id }) => longJson(id)) }],
    };
    const { state } = await catalog.commit(name, commit, signal);
    if (state !== 'committed') return false;
    await this.#remove([...rows, ...metadata], signal);
    return true;
  }

  /** Removes files of ours that no snapshot has, and that are too old for one to be made of them. */
  async #removeOrphans(name: string, now: number, signal: AbortSignal): Promise<void> {
    const { catalog, store } = this.#options;
    const location = (await catalog.table(name, 'refs', signal))?.location;
    if (location === undefined) return;
    const isOurs = (file: string) => DATA_FILE.test(file) || METADATA_FILE.test(file);
    const old = (await store.files(this.#tables.nameOf(location), signal, isOurs)).filter(
      ({ changedAt }) => changedAt < now - ORPHANED_AFTER_MS,
    );
    if (old.length === 0) return;
    // Read behind the list: what is committed since is newer than what was listed.
    const table = await catalog.table(name, 'all', signal);
    if (table?.location !== location) return;
    const { rows, metadata } = await this.#pathsOf([...table.snapshots.values()], signal);
    const used = new Set([...rows, ...metadata].map((path) => this.#tables.nameOf(path)));
    for (const file of old) if (!used.has(file.name)) await store.remove(file.name, signal);
  }

  /** The files of snapshots. */
  async #pathsOf(snapshots: readonly Snapshot[], signal: AbortSignal) {
    const metadata = new Set<string>();
    const manifests = new Map<string, Manifest>();
    const lists = await mapConcurrently(snapshots, AT_ONCE, (one) => this.#tables.manifests(one, signal));
    for (const manifest of lists.flat()) manifests.set(manifest.path, manifest);
    for (const { manifestList } of snapshots) metadata.add(manifestList);
    for (const path of manifests.keys()) metadata.add(path);
    const files = await this.#tables.filesOf([...manifests.values()], signal);
    return { metadata, rows: new Set(files.map(({ path }) => path)) };
  }

  async #remove(paths: readonly string[], signal: AbortSignal): Promise<void> {
    for (const path of paths) await this.#options.store.remove(this.#tables.nameOf(path), signal);
  }
}

class IcebergTransaction implements LakeTransaction {
  readonly signal: AbortSignal;
  readonly #tables: IcebergTables;
  readonly #options: IcebergOptions;
  /** As they were when they were first looked at. */
  readonly #read = new Map<string, Promise<TableMetadata | undefined>>();
  /** By the name in the store. */
  readonly #files = new Map<string, TableFile>();
  readonly #staged = new Map<string, StagedTable>();
  /** When the first file was written. */
  #wroteAt: number | undefined;
  /** Where new tables will be. */
  readonly #locations = new Map<string, string>();

  constructor(tables: IcebergTables, options: IcebergOptions, signal: AbortSignal) {
    this.#tables = tables;
    this.#options = options;
    this.signal = signal;
  }

  async ledger(lane: string): Promise<LedgerRow | undefined> {
    const { properties = {} } = (await this.#table(LEDGER)) ?? {};
    const text = properties[this.#laneName(lane)];
    if (text === undefined) return undefined;
    try {
      return ledgerRow(lane, parseObject(text));
    } catch (error) {
      throw new WarehouseRefused(`the properties of ${LEDGER} were changed by hand`, { cause: error });
    }
  }

  async tables(): Promise<readonly string[]> {
    const own = new Set([LEDGER, VERSIONS]);
    // A deletion reads the others, and is told of those that are refused by `forget`.
    return (await this.allTables()).names.filter((name) => !own.has(name));
  }

  /** Also those that no person reads, and why tables of the namespace are not known to be a loader's. */
  async allTables(): Promise<{ readonly names: readonly string[]; readonly refused: readonly Error[] }> {
    const names = await this.#options.catalog.tables(this.signal);
    const found: string[] = [];
    const refused: Error[] = [];
    const schemaOrRefusal = (name: string) =>
      this.schema(name).catch((error: unknown) => {
        if (!(error instanceof WarehouseRefused)) throw error;
        refused.push(new WarehouseRefused(`${name}: ${error.message}`, { cause: error }));
        return undefined;
      });
    const schemas = await mapConcurrently(names, AT_ONCE, schemaOrRefusal);
    for (const [index, name] of names.entries()) {
      const columns = schemas[index]?.columns;
      if (name === LEDGER || name === VERSIONS || (columns !== undefined && isLoaded([name, columns])))
        found.push(name);
    }
    return { names: found, refused };
  }

  async schema(name: string): Promise<TableSchema | undefined> {
    const table = await this.#table(name);
    return table && schemaOf(table.fields);
  }

  async files(name: string, received?: Received): Promise<readonly DataFile[]> {
    const table = await this.#table(name);
    if (table === undefined) return [];
    checkVersion(name, table);
    const timeId = table.fields.find((field) => field.name === 'received_at')?.id;
    const days = received && { from: dayOf(received.from), to: dayOf(received.to) };
    const isWanted = (manifest: Manifest) => {
      const fields = table.specs.find(({ id }) => id === manifest.spec)?.fields ?? [];
      const index = fields.findIndex(({ source, transform }) => source === timeId && transform === 'day');
      const range = index < 0 || days === undefined ? undefined : partitionRange(manifest, index);
      return range === undefined || days === undefined || (range.from <= days.to && range.to >= days.from);
    };
    const files: DataFile[] = [];
    for (const file of await this.#tables.files(table.current, this.signal, isWanted)) {
      const times = timeId === undefined ? undefined : file.bounds.get(timeId);
      const of = times && { from: msOf(times[0]), to: msOf(times[1]) };
      if (received !== undefined && of !== undefined && (of.from > received.to || of.to < received.from))
        continue;
      const stored = this.#tables.nameOf(file.path);
      const [, bucket] = DATA_FILE.exec(stored) ?? [];
      this.#files.set(stored, file);
      files.push({
        name: stored,
        bytes: file.bytes,
        received: of,
        bucket: bucket === undefined ? undefined : Number(bucket),
      });
    }
    return files;
  }

  async *rows(
    name: string,
    { name: file, bytes }: DataFile,
    selection: Selection = {},
  ): AsyncGenerator<Rows> {
    if (bytes > MAX_FILE_BYTES || this.#files.get(file)?.isParquet === false)
      throw new WarehouseRefused(`${file} is no file of a loader, or too large to be read`);
    const [table, content] = await Promise.all([
      this.#table(name),
      this.#options.store.read(file, this.signal),
    ]);
    if (table === undefined || content === undefined) return;
    yield* readFile(file, content, selection, { fieldIds: schemaOf(table.fields).fieldIds });
  }

  async whyFixed(name: string): Promise<string | undefined> {
    const table = await this.#table(name);
    const foreign = table?.fields.find(({ type }) => type === undefined);
    if (foreign !== undefined)
      return `the column "${foreign.name}" of the table "${name}" has a type that is not written anew`;
    const manifests = await this.#tables.manifests(table?.current, this.signal);
    return manifests.some(({ isOfDeletes, files }) => isOfDeletes && files > 0)
      ? `the table "${name}" has delete files of another program: let it rewrite the data files`
      : undefined;
  }

  async define(name: string, columns: TableColumns): Promise<TableSchema> {
    const table = await this.#table(name);
    const staged = this.#stagedOf(name);
    staged.columns = columns;
    if (table === undefined && !this.#locations.has(name))
      // A name of its own: what dropped a table before may still remove its files.
      this.#locations.set(name, `${this.#options.store.root}/${name}-${newId().slice(-12)}`);
    return schemaOf(fieldsFor(columns, table));
  }

  async replace(
    name: string,
    replaced: readonly DataFile[],
    part: Part,
    { bytes, count }: EncodedRows,
  ): Promise<void> {
    const table = await this.#table(name);
    const staged = this.#stagedOf(name);
    const known = replaced.map(({ name: one }) => this.#files.get(one)).filter((one) => one !== undefined);
    staged.remove.push(...known);
    if (count === 0) return;
    const location = table?.location ?? this.#locations.get(name);
    if (location === undefined) throw new Unavailable(`the table ${name} was removed during the load`);
    const { bucket, received } = part;
    const folder = received === undefined ? '' : `received_date=${dateOf(received.from)}/`;
    const ofBucket = bucket === undefined ? '' : `bucket-${String(bucket).padStart(2, '0')}-`;
    const path = `${location}/data/${folder}${ofBucket}${newId()}.parquet`;
    const partition = samePartition(known) ?? newPartition(name, table, received);
    staged.add.push({ path, bytes: bytes.length, rows: count, partition, ...metricsOf(bytes) });
    this.#wroteAt ??= performance.now();
    await this.#options.store.put(this.#tables.nameOf(path), bytes, this.signal);
  }

  async commit(ledger?: LedgerRow): Promise<boolean> {
    await this.#options.store.settle(this.signal);
    if (this.#wroteAt !== undefined && performance.now() - this.#wroteAt > MAX_CHANGE_MS) {
      await this.discard();
      throw new Unavailable('the change took too long');
    }
    const about = ledger === undefined ? {} : this.#summaryOf(ledger);
    const names = [...this.#staged.keys()].filter((name) => name !== VERSIONS);
    const versions = this.#staged.get(VERSIONS);
    if (versions !== undefined && !(await this.#claimVersions(about))) return false;
    const done = await mapConcurrently(names, AT_ONCE, (name) => this.#commitTable(name, about));
    let isWhole = !done.includes(false);
    if (isWhole && versions !== undefined) isWhole = await this.#commitTable(VERSIONS, about);
    return isWhole && (ledger === undefined || (await this.#commitLedger(ledger, about)));
  }

  async discard(): Promise<void> {
    for (const { add } of this.#staged.values()) await this.#removeStaged(add);
  }

  #table(name: string): Promise<TableMetadata | undefined> {
    const known = this.#read.get(name);
    if (known !== undefined) return known;
    const reading = this.#options.catalog.table(name, 'refs', this.signal);
    this.#read.set(name, reading);
    return reading;
  }

  #stagedOf(name: string): StagedTable {
    const staged = this.#staged.get(name) ?? { add: [], remove: [] };
    this.#staged.set(name, staged);
    return staged;
  }

  async #commitTable(name: string, summary: Readonly<Record<string, string>>): Promise<boolean> {
    const { add, remove, columns } = this.#stagedOf(name);
    const table = (await this.#table(name)) ?? (await this.#create(name, columns ?? new Map()));
    if (table === undefined) return false;
    const fields = fieldsFor(columns ?? schemaOf(table.fields).columns, table);
    const isOther = fields.some(
      ({ json }, at) => JSON.stringify(json) !== JSON.stringify(table.fields[at]?.json),
    );
    const changes: TableChanges = {
      operation: operationOf(name, add, remove),
      summary,
      ...(add.length + remove.length === 0 ? {} : { add, remove: new Set(remove.map(({ path }) => path)) }),
      // A narrower column of another program is widened with the first file that needs it.
      ...(isOther && (columns !== undefined || add.length > 0) ? { schema: schemaJson(fields, table) } : {}),
    };
    if (changes.add === undefined && changes.schema === undefined) return true;
    const result = await this.#tables.commit(name, table, changes, this.signal);
    if (result === 'conflict') await this.#removeStaged(add);
    return typeof result === 'object';
  }

  /** Undefined where another one made it meanwhile. */
  async #create(name: string, columns: TableColumns): Promise<TableMetadata | undefined> {
    const { catalog, store } = this.#options;
    const fields = fieldsFor(columns, undefined);
    const location = this.#locations.get(name) ?? `${store.root}/${name}-${newId().slice(-12)}`;
    const made = await catalog.createTable(
      name,
      {
        location,
        schema: schemaJson(fields, undefined),
        'partition-spec': {
          'spec-id': 0,
          fields: newSpec(name, fields),
        },
        properties: PROPERTIES,
      },
      this.signal,
    );
    if (made !== undefined) this.#read.set(name, Promise.resolve(made));
    return made;
  }

  /**
   * A snapshot of the versions of profiles that changes nothing. A transaction beside this one, which may have read some of the tables
   * of profiles before and some behind its commits, fails by it at its last commit, and applies its changes anew.
   */
  async #claimVersions(summary: Readonly<Record<string, string>>): Promise<boolean> {
    const table = await this.#table(VERSIONS);
    const { columns = new Map() } = this.#stagedOf(VERSIONS);
    if (table === undefined) return (await this.#create(VERSIONS, columns)) !== undefined;
    const changes = { operation: 'append', add: [], summary } as const;
    const claimed = await this.#tables.commit(VERSIONS, table, changes, this.signal);
    if (typeof claimed !== 'object') return false;
    this.#read.set(VERSIONS, Promise.resolve(claimed));
    return true;
  }

  async #commitLedger(ledger: LedgerRow, summary: Readonly<Record<string, string>>): Promise<boolean> {
    const table = (await this.#table(LEDGER)) ?? (await this.#create(LEDGER, LEDGER_COLUMNS));
    if (table === undefined) return false;
    const properties = { [this.#laneName(ledger.lane)]: ledgerText(ledger) };
    const changes = { operation: 'append', add: [], properties, summary } as const;
    return typeof (await this.#tables.commit(LEDGER, table, changes, this.signal)) === 'object';
  }

  #laneName(lane: string): string {
    return `tributary.${this.#options.destinationId}.${lane}`;
  }

  #summaryOf({ lane, seq, batch }: LedgerRow): Readonly<Record<string, string>> {
    return {
      'tributary.destination': this.#options.destinationId,
      'tributary.lane': lane,
      'tributary.seq': String(seq),
      'tributary.batch': batch,
    };
  }

  async #removeStaged(files: readonly NewFile[]): Promise<void> {
    for (const { path } of files)
      await this.#options.store.remove(this.#tables.nameOf(path), this.signal).catch(() => undefined);
  }
}

function operationOf(
  name: string,
  add: readonly NewFile[],
  remove: readonly TableFile[],
): TableChanges['operation'] {
  if (remove.length === 0) return 'append';
  if (add.length === 0) return 'delete';
  // Merging and widening write the same rows anew: programs that read a table as a stream skip them.
  const added = add.reduce((sum, { rows }) => sum + rows, 0);
  const removed = remove.reduce((sum, { rows }) => sum + rows, 0);
  const isSame = added === removed && name !== VERSIONS && !BY_BUCKET.has(name);
  return isSame ? 'replace' : 'overwrite';
}

function schemaOf(fields: readonly Field[]) {
  return {
    columns: new Map(fields.map(({ name, type }) => [name, type])),
    fieldIds: new Map(fields.map(({ name, id }) => [name, id])),
  };
}

/** The fields of a table with these columns: those that it has keep their ids while their types do. */
function fieldsFor(columns: TableColumns, table: TableMetadata | undefined): readonly Field[] {
  let last = table?.lastColumnId ?? 0;
  const left = new Map(columns);
  const fields: Field[] = [];
  for (const field of table?.fields ?? []) {
    const to = left.get(field.name);
    left.delete(field.name);
    const isText = field.type === 'json' && to === 'text';
    if (to === undefined) fields.push(field);
    else if (to === field.type || isText) fields.push(fieldWith(field.id, field.name, to, field.json));
    else fields.push(fieldWith(++last, field.name, to));
  }
  for (const [name, type] of left) if (type !== undefined) fields.push(fieldWith(++last, name, type));
  return fields;
}

function schemaJson(fields: readonly Field[], table: TableMetadata | undefined) {
  const ids = table?.schemaJson['identifier-field-ids'];
  return {
    type: 'struct',
    'schema-id': table === undefined ? 0 : table.schemaId + 1,
    ...(Array.isArray(ids) && ids.length > 0 ? { 'identifier-field-ids': ids } : {}),
    fields: fields.map(({ json }) => json),
  };
}

/** The name of the partition; no property has a column of this name. */
const PARTITION = 'received_date';
const FIRST_PARTITION_ID = 1_000;
const BY_BUCKET = new Set([USERS_TABLE, IDENTITY_MAP_TABLE]);

function newSpec(name: string, fields: readonly Field[]) {
  const time = BY_BUCKET.has(name) ? undefined : fields.find((field) => field.name === 'received_at');
  if (time?.type !== 'timestamp') return [];
  return [{ 'source-id': time.id, 'field-id': FIRST_PARTITION_ID, name: PARTITION, transform: 'day' }];
}

/** The partition that all these files are in. */
function samePartition(files: readonly TableFile[]): Partition | undefined {
  const [first, ...others] = files.map(({ partition }) => partition);
  const keyOf = ({ spec, values }: Partition) => `${spec} ${Array.from(values).join(' ')}`;
  return first !== undefined && others.every((one) => keyOf(one) === keyOf(first)) ? first : undefined;
}

/** The partition of rows that were received then, by the current spec or by one of before. */
function newPartition(
  name: string,
  table: TableMetadata | undefined,
  received: Received | undefined,
): Partition {
  const timeId = table?.fields.find((field) => field.name === 'received_at')?.id;
  const days = received && new Set([dayOf(received.from), dayOf(received.to)]);
  const valuesOf = ({ fields }: PartitionSpec) => {
    const values = new Map<number, number | null>();
    for (const { id, source, transform } of fields) {
      const isByDay = transform === 'day' && source === timeId && (days === undefined || days.size === 1);
      if (!isByDay && transform !== 'void') return undefined;
      values.set(id, isByDay ? (days?.values().next().value ?? null) : null);
    }
    return values;
  };
  for (const spec of table?.specs ?? [{ id: 0, fields: [], json: [] }]) {
    const values = valuesOf(spec);
    if (values === undefined) continue;
    const fields = spec.fields.map(({ id, name: field }) => ({
      name: field,
      type: ['null', { type: 'int', logicalType: 'date' }],
      default: null,
      'field-id': id,
    }));
    return { spec: spec.id, type: { type: 'record', name: 'r102', fields }, values };
  }
  throw new WarehouseRefused(
    `the partitions of the table "${name}" must be by the day of received_at, or none`,
  );
}

function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS);
}

function dateOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, '2026-11-30'.length);
}

/** Epoch ms of microseconds. */
function msOf(microseconds: bigint): number {
  const below = ((microseconds % MICROSECONDS) + MICROSECONDS) % MICROSECONDS;
  return Number((microseconds - below) / MICROSECONDS);
}
