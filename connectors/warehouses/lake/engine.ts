import { join, resolve } from 'node:path';
import {
  type Clock,
  type ColumnType,
  type ColumnValue,
  type CommitResult,
  DISCARDS_TABLE,
  EventLoopYielder,
  type HeldColumn,
  type LedgerRow,
  mapConcurrently,
  type PeopleToDelete,
  type TableChange,
  type TableColumns,
  type TableRows,
  Unavailable,
  USERS_TABLE,
  type WarehouseBatch,
  WarehouseRefused,
  type WarehouseTest,
} from '@tributary/core';
import { NOT_VALID } from '../../failures.ts';
import { foldersOf } from '../../folder.ts';
import type { ConnectorContext } from '../../kind.ts';
import { namesIn, textsNaming } from '../deletion.ts';
import type { LoadedDestination, Open, WarehouseEngine } from '../kind.ts';
import { NOT_OF_EVENTS, neededChanges, tested } from '../tables.ts';
import { type Cell, cellOf } from './cells.ts';
import type { DataFile, LakeTransaction, Received, TableFormat, TableSchema } from './format.ts';
import { type Rows, rewritten, TableWriter } from './parquet.ts';
import { stageProfiles } from './profiles.ts';
import { catalogOf, type LakeSettings } from './settings.ts';
import type { LakeStore } from './store.ts';

/** How often a change is made anew as another loader changed the lake. */
const ATTEMPTS = 10;
/** Characters of why tables keep the rows of a person. */
const MAX_REFUSAL = 1_000;
/** Tables whose rows are staged at a time: in a bucket each takes some round trips. */
const TABLES_AT_ONCE = 4;
/** Schemas that are read at a time. */
const AT_ONCE = 8;
/** Bytes of a table that are written anew to widen a column: in a larger one the column is held. */
const MAX_REWRITTEN = 2 * 1_024 ** 3;
/** How long a piece of maintenance looks for something to do, ms. */
const PIECE_MS = 1_000;
/** After a round through all tables maintenance rests, ms. */
const REST_MS = 3_600_000;

type Counts = Readonly<Record<string, number>>;

export const open: Open<LakeSettings> = async (context, settings, destination) =>
  new Lake(await openFormat(context, destination, settings), context.clock);

/** Where the files of a lake are. */
interface Place {
  readonly store: LakeStore;
  /** What readers put before the names of the files. */
  readonly path: string;
  /** The nested folders of a lake on this machine, below the data folder. */
  readonly folders?: readonly string[];
}

async function openFormat(
  context: ConnectorContext,
  { id: destinationId, workspaceId }: LoadedDestination,
  settings: LakeSettings,
): Promise<TableFormat> {
  const { store, path: dataPath, folders } = await openPlace(context, workspaceId, settings);
  if (settings.format === 'parquet') {
    const { PlainFormat } = await import('./plain.ts');
    return new PlainFormat(store, destinationId);
  }
  if (settings.format === 'iceberg') {
    const [{ IcebergFormat }, { RestCatalog }] = await Promise.all([
      import('./iceberg/format.ts'),
      import('./iceberg/rest-catalog.ts'),
    ]);
    const catalog = new RestCatalog(context, settings);
    return new IcebergFormat({ catalog, store, destinationId, clock: context.clock });
  }
  const { DuckLakeFormat } = await import('./ducklake/format.ts');
  const server = catalogOf(settings);
  if (server === undefined) {
    if (folders === undefined) throw new WarehouseRefused(NOT_VALID);
    const { SqliteCatalog } = await import('./ducklake/sqlite.ts');
    const catalog = new SqliteCatalog(resolve(context.dataFolder), folders);
    return new DuckLakeFormat(store, catalog, { destinationId, dataPath, isInFolder: true });
  }
  const [{ PostgresqlCatalog }, { PostgresqlServer }] = await Promise.all([
    import('./ducklake/postgresql.ts'),
    import('../postgresql/server.ts'),
  ]);
  const catalog = new PostgresqlCatalog(
    new PostgresqlServer(context, server, workspaceId),
    settings.catalog_schema,
  );
  return new DuckLakeFormat(store, catalog, { destinationId, dataPath, isInFolder: false });
}

async function openPlace(
  { dataFolder, egress, timeoutMs }: ConnectorContext,
  workspaceId: string,
  settings: LakeSettings,
): Promise<Place> {
  if (settings.folder === undefined) {
    const { BucketStore } = await import('./bucket-store.ts');
    const store = new BucketStore(egress, settings, timeoutMs);
    return { store, path: `s3://${settings.bucket}/${settings.prefix}/` };
  }
  const folders = foldersOf('lake', workspaceId, settings.folder);
  if (folders === undefined) throw new WarehouseRefused(NOT_VALID);
  const { FolderStore } = await import('./folder-store.ts');
  const root = resolve(dataFolder);
  return { store: new FolderStore(root, folders), path: `${join(root, ...folders)}/`, folders };
}

/**
 * A lake of Parquet files as a warehouse: which rows are in which files. What files there are, and how that changes, is the matter
 * of its format. A row is known by its `id` and the time at which it was received.
 */
class Lake implements WarehouseEngine {
  readonly #format: TableFormat;
  readonly #clock: Clock;
  /** Tables of the round of maintenance that were not looked at yet. */
  #left: string[] = [];
  #nextRoundAt = 0;

  constructor(format: TableFormat, clock: Clock) {
    this.#format = format;
    this.#clock = clock;
  }

  async newest(lane: string, signal: AbortSignal): Promise<LedgerRow | undefined> {
    return (await this.#format.begin(signal)).ledger(lane);
  }

  async describe(tables: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, TableColumns>> {
    const transaction = await this.#format.begin(signal);
    const described = new Map<string, TableColumns>();
    await mapConcurrently(tables, AT_ONCE, async (table) => {
      const schema = await transaction.schema(table);
      if (schema !== undefined) described.set(table, schema.columns);
    });
    return described;
  }

  async alter(changes: readonly TableChange[], signal: AbortSignal): Promise<readonly HeldColumn[]> {
    const held: HeldColumn[] = [];
    await this.#change(signal, async (transaction) => {
      held.length = 0;
      for (const change of changes) held.push(...(await stageTable(transaction, change)));
      return true;
    });
    return held;
  }

  async commit({ ledger, inserts, profiles }: WarehouseBatch, signal: AbortSignal): Promise<CommitResult> {
    const inserted: Record<string, number> = {};
    const stage = async (transaction: LakeTransaction) => {
      const newest = await transaction.ledger(ledger.lane);
      if (newest !== undefined && newest.seq >= ledger.seq) return false;
      await mapConcurrently(inserts, TABLES_AT_ONCE, async (rows) => {
        inserted[rows.table] = await stageInserts(transaction, rows);
      });
      if (profiles !== undefined)
        inserted[USERS_TABLE] = await stageProfiles(transaction, profiles, ledger.loadedAt);
      return true;
    };
    const isDone = await this.#change(signal, stage, ledger);
    return isDone ? { done: true, inserted, refused: [] } : { done: false };
  }

  async delete(people: PeopleToDelete, signal: AbortSignal): Promise<Counts> {
    const found = await this.#format.begin(signal);
    const tables = await found.tables();
    const messageIds = new Set<string>();
    for (const table of tables)
      if (!NOT_OF_EVENTS.has(table))
        for (const id of await messageIdsIn(found, table, people)) messageIds.add(id);
    const deleted: Record<string, number> = {};
    const refused: string[] = [];
    // What was discarded is found by the events, so it goes before them: a deletion that is repeated finds all of it.
    for (const table of [DISCARDS_TABLE, ...tables.filter((name) => name !== DISCARDS_TABLE)]) {
      if (!tables.includes(table)) continue;
      const isTheirs = rowsOfPeople(table, people, messageIds);
      try {
        await this.#change(signal, async (transaction) => {
          deleted[table] = await stageDeletion(transaction, table, isTheirs);
          return true;
        });
      } catch (error) {
        // A table that cannot be written anew keeps no other from losing its rows, but the events by which discards are found.
        if (!(error instanceof WarehouseRefused) || table === DISCARDS_TABLE) throw error;
        refused.push(error.message);
      }
    }
    await this.#format.forget(signal);
    if (refused.length > 0) throw new WarehouseRefused(refused.join('; ').slice(0, MAX_REFUSAL));
    return deleted;
  }

  /** Merges files of one table at most; true while the round through all tables goes on. */
  async maintain(signal: AbortSignal): Promise<boolean> {
    const began = this.#clock();
    if (this.#left.length === 0) {
      if (began < this.#nextRoundAt) return false;
      this.#nextRoundAt = began + REST_MS;
      try {
        await this.#format.tidy(began, signal);
      } finally {
        // A table that cannot be tidied keeps no other from being merged.
        this.#left = [...(await (await this.#format.begin(signal)).tables())];
      }
    }
    while (this.#clock() - began < PIECE_MS) {
      // One that cannot be merged keeps no other from it.
      const table = this.#left.shift();
      if (table === undefined) return false;
      const merge = (transaction: LakeTransaction) => stageMerging(transaction, table, this.#clock());
      if (!(await this.#change(signal, merge))) continue;
      this.#left.unshift(table);
      return true;
    }
    return this.#left.length > 0;
  }

  test(signal: AbortSignal): Promise<WarehouseTest> {
    return tested(this.#format.test(signal));
  }

  close(): Promise<void> {
    return this.#format.close();
  }

  /**
   * Makes a change by what the lake has now, and again where another process was faster. False where `stage` returns false:
   * then nothing is changed.
   */
  async #change(
    signal: AbortSignal,
    stage: (transaction: LakeTransaction) => Promise<boolean>,
    ledger?: LedgerRow,
  ): Promise<boolean> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const transaction = await this.#format.begin(signal);
      let isStaged = false;
      try {
        isStaged = await stage(transaction);
      } finally {
        if (!isStaged) await transaction.discard();
      }
      if (!isStaged) return false;
      if (await transaction.commit(ledger)) return true;
    }
    throw new Unavailable('the lake is changed by another loader all the time');
  }
}

async function stageTable(transaction: LakeTransaction, change: TableChange): Promise<readonly HeldColumn[]> {
  const { table } = change;
  const known = await transaction.schema(table);
  const columns = new Map(known?.columns);
  const { missing, narrow } = neededChanges(change, columns);
  for (const [column, type] of missing) columns.set(column, type);
  // Files have JSON as its text.
  const isTextAlready = [...narrow.values()].every(({ from }) => from === 'json');
  const isRewritten = !isTextAlready;
  const files = isRewritten ? await transaction.files(table) : [];
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  const unread = isRewritten ? await transaction.whyUnread?.(table) : undefined;
  const fixed =
    bytes > MAX_REWRITTEN
      ? `the table has ${bytes} bytes, which are too many to be written anew`
      : (unread ?? (files.length > 0 ? await transaction.whyFixed?.(table) : undefined));
  if (fixed === undefined) for (const [column, { to }] of narrow) columns.set(column, to);
  const isChanged =
    known === undefined || [...columns].some(([name, type]) => known.columns.get(name) !== type);
  if (isChanged) {
    const schema = await transaction.define(table, columns);
    if (fixed === undefined)
      for (const file of files)
        await transaction.replace(table, [file], file, await rewritten(transaction, table, [file], schema));
  }
  return fixed === undefined ? [] : Array.from(narrow.keys(), (column) => ({ table, column, reason: fixed }));
}

/** Stages the files of a table without some rows; returns how many these are. */
async function stageDeletion(
  transaction: LakeTransaction,
  table: string,
  isTheirs: IsTheirs,
): Promise<number> {
  const schema = (await transaction.schema(table)) ?? { columns: new Map() };
  const unread = await transaction.whyUnread?.(table);
  if (unread !== undefined) throw new WarehouseRefused(unread);
  let deleted = 0;
  for (const file of await transaction.files(table)) {
    let count = 0;
    for await (const rows of transaction.rows(table, file))
      for (let at = 0; at < rows.count; at++) if (isTheirs(rows, at)) count += 1;
    if (count === 0) continue;
    deleted += count;
    const fixed = await transaction.whyFixed?.(table);
    if (fixed !== undefined) throw new WarehouseRefused(fixed);
    const others = await rewritten(transaction, table, [file], schema, (rows, at) => !isTheirs(rows, at));
    await transaction.replace(table, [file], file, others);
  }
  return deleted;
}

/** Stages one file for several of a day; false where there are not enough. */
async function stageMerging(transaction: LakeTransaction, table: string, now: number): Promise<boolean> {
  const [schema, files] = await Promise.all([transaction.schema(table), transaction.files(table)]);
  const small = mergeable(files, now);
  if (schema === undefined || small === undefined) return false;
  if ((await transaction.whyFixed?.(table)) !== undefined) return false;
  const times = small.map(({ received }) => received).filter((received) => received !== undefined);
  const received = {
    from: Math.min(...times.map(({ from }) => from)),
    to: Math.max(...times.map(({ to }) => to)),
  };
  await transaction.replace(table, small, { received }, await rewritten(transaction, table, small, schema));
  return true;
}

/** After so long live loads no longer look at the times of rows, or write beside them, ms. */
const QUIET_AFTER_MS = 6 * 3_600_000;
const DAY_MS = 86_400_000;
/** Files of one day at least that are merged. */
const MERGED_FILES = 8;
/** Bytes of a file that is merged, and of those that are merged into one. */
const SMALL_FILE = 8 * 1_024 ** 2;
const MERGED_BYTES = 32 * 1_024 ** 2;

/** Small files of one day with old rows, in the order of the times; undefined where there are not enough. */
export function mergeable(files: readonly DataFile[], now: number): readonly DataFile[] | undefined {
  const small = files
    .flatMap((file) => (file.received === undefined ? [] : [{ file, ...file.received }]))
    .filter(({ file, to }) => file.bytes <= SMALL_FILE && to + QUIET_AFTER_MS <= now);
  for (const ofDay of Map.groupBy(small, ({ from }) => Math.floor(from / DAY_MS)).values()) {
    if (ofDay.length < MERGED_FILES) continue;
    const merged: DataFile[] = [];
    let left = MERGED_BYTES;
    for (const { file } of ofDay.toSorted((one, other) => one.from - other.from || one.to - other.to)) {
      left -= file.bytes;
      if (left < 0) break;
      merged.push(file);
    }
    return merged;
  }
  return undefined;
}

/** Whether a row of a table goes. */
type IsTheirs = (rows: Rows, at: number) => boolean;

const text = (rows: Rows, column: string, at: number): Cell => rows.cells.get(column)?.[at] ?? null;

function isIn(values: ReadonlySet<string>, cell: Cell): boolean {
  return typeof cell === 'string' && values.has(cell);
}

/** The rows of a table that go; `messageIds` are those of the events of people, by which their discards are found. */
function rowsOfPeople(
  table: string,
  people: PeopleToDelete,
  messageIds: ReadonlySet<string> = new Set(),
): IsTheirs {
  const names = namesIn(table, people).map((one) => ({ ...one, ids: new Set(one.ids) }));
  const isNamed: IsTheirs = (rows, at) =>
    names.some(
      ({ column, ids, type }) =>
        isIn(ids, text(rows, column, at)) && (type === undefined || text(rows, 'type', at) === type),
    );
  if (table !== DISCARDS_TABLE) return isNamed;
  const texts = textsNaming(people);
  return (rows, at) => {
    if (isNamed(rows, at) || isIn(messageIds, text(rows, 'message_id', at))) return true;
    const value = text(rows, 'value', at);
    const isWhole = text(rows, 'column_name', at) === null && typeof value === 'string';
    return isWhole && texts.some((one) => value.includes(one));
  };
}

/** The message ids of events of people in a table. */
async function messageIdsIn(
  transaction: LakeTransaction,
  table: string,
  people: PeopleToDelete,
): Promise<readonly string[]> {
  const isTheirs = rowsOfPeople(table, people);
  const columns = ['id', ...namesIn(table, people).map(({ column }) => column)];
  const ids: string[] = [];
  for (const file of await transaction.files(table))
    for await (const rows of transaction.rows(table, file, { columns }))
      for (let at = 0; at < rows.count; at++)
        if (isTheirs(rows, at)) ids.push(String(text(rows, 'id', at)).replace(/^development:/, ''));
  return ids;
}

/** Rows that are encoded at a time, in tens of milliseconds: the stages of the process use the same thread. */
const ROWS_AT_ONCE = 5_000;

type Row = readonly ColumnValue[];

/** The rows of one day. */
interface DayRows {
  readonly byId: Map<string, Row>;
  from: number;
  to: number;
}

/** Stages rows in files of their days, without those that the lake has; returns their number. */
export async function stageInserts(transaction: LakeTransaction, rows: TableRows): Promise<number> {
  const { table } = rows;
  const schema = await schemaOf(transaction, rows);
  let inserted = 0;
  for (const { byId, from, to } of byDay(rows).values()) {
    const received = Number.isNaN(from) ? undefined : { from, to };
    for (const id of await knownIds(transaction, table, byId, received)) byId.delete(id);
    if (byId.size === 0) continue;
    const bytes = await encoded(schema, rows.columns, [...byId.values()], transaction.signal);
    await transaction.replace(table, [], { received }, { bytes, count: byId.size });
    inserted += byId.size;
  }
  return inserted;
}

/** The columns of the table, which are those that the rows were planned for. */
async function schemaOf(transaction: LakeTransaction, { table, columns }: TableRows): Promise<TableSchema> {
  const schema = await transaction.schema(table);
  for (const [name, type] of columns)
    if (schema?.columns.get(name) !== type)
      throw new Unavailable(`the table ${table} was changed during the load`);
  return schema ?? { columns: new Map() };
}

/** By the day (UTC) at which they were received; of several rows with one id the first one. */
function byDay({ columns, rows }: TableRows): ReadonlyMap<string, DayRows> {
  const names = [...columns.keys()];
  const [idAt, receivedAt] = [names.indexOf('id'), names.indexOf('received_at')];
  const days = new Map<string, DayRows>();
  for (const row of rows) {
    const time = row[receivedAt] ?? null;
    const day = typeof time === 'string' ? time.slice(0, DAY_LENGTH) : '';
    const ms = typeof time === 'string' ? Date.parse(time) : Number.NaN;
    const known = days.get(day);
    const id = String(row[idAt]);
    if (known === undefined) {
      days.set(day, { byId: new Map([[id, row]]), from: ms, to: ms });
      continue;
    }
    if (known.byId.has(id)) continue;
    known.byId.set(id, row);
    known.from = Math.min(known.from, ms);
    known.to = Math.max(known.to, ms);
  }
  return days;
}
const DAY_LENGTH = '2026-11-30'.length;

/**
 * Which ids the lake has in rows that were received at the same times. One record of the log has the same id and time whenever
 * it is loaded, so only files that overlap are read: of a live load mostly the one of the load before.
 */
async function knownIds(
  transaction: LakeTransaction,
  table: string,
  wanted: ReadonlyMap<string, unknown>,
  received: Received | undefined,
): Promise<readonly string[]> {
  const known: string[] = [];
  for (const file of await transaction.files(table, received)) {
    if (received === undefined && file.received !== undefined) continue;
    const selection = { columns: ['id'], ...(received === undefined ? {} : { received }) };
    for await (const { cells } of transaction.rows(table, file, selection))
      for (const id of cells.get('id') ?? []) if (typeof id === 'string' && wanted.has(id)) known.push(id);
  }
  return known;
}

async function encoded(
  schema: TableSchema,
  used: ReadonlyMap<string, ColumnType>,
  rows: readonly Row[],
  signal: AbortSignal,
): Promise<Uint8Array> {
  const writer = new TableWriter(schema);
  const thread = new EventLoopYielder(() => performance.now());
  for (let start = 0; start < rows.length; start += ROWS_AT_ONCE) {
    const some = rows.slice(start, start + ROWS_AT_ONCE);
    const cells = new Map<string, Cell[]>();
    let column = 0;
    for (const [name, type] of used) cells.set(name, cellsOf(some, column++, type));
    writer.add(cells, some.length);
    if (signal.aborted) throw new Unavailable('stopped');
    if (thread.isYieldDue) await thread.yield();
  }
  return writer.finish();
}

function cellsOf(rows: readonly Row[], column: number, type: ColumnType): Cell[] {
  let last: ColumnValue = null;
  let cell: Cell = null;
  return rows.map((row) => {
    const value = row[column] ?? null;
    // The time of the load, the name of the event: many columns have one value in all rows.
    if (value !== last) {
      last = value;
      cell = cellOf(value, type);
    }
    return cell;
  });
}
