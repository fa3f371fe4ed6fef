import { setTimeout as sleep } from 'node:timers/promises';
import {
  type ColumnType,
  isObject,
  type LedgerRow,
  mapConcurrently,
  newId,
  parseObject,
  type TableColumns,
  Unavailable,
  WarehouseRefused,
} from '@tributary/core';
import { ledgerRow, ledgerText, VERSIONS } from '../tables.ts';
import type {
  DataFile,
  EncodedRows,
  LakeTransaction,
  Part,
  Received,
  TableFormat,
  TableSchema,
} from './format.ts';
import { type Rows, readFile, type Selection } from './parquet.ts';
import { VERSION_COLUMNS } from './profiles.ts';
import { FileWrites, isInLake, type LakeStore } from './store.ts';

/** Schemas that are read at a time. */
const AT_ONCE = 8;

/**
 * Plain files, which readers find by their names. `CommitLog` has the protocol: everything that changes, also a schema, a deletion
 * and a compaction, is an entry of one log. The row of the ledger is a file for each lane that an entry moves to its place after
 * all others.
 *
 * A reader of `<table>/**` sees each row at most once: where files are merged, the old ones go first.
 */
export class PlainFormat implements TableFormat {
  readonly #store: LakeStore;
  readonly #log: CommitLog;
  readonly #destinationId: string;

  constructor(store: LakeStore, destinationId: string) {
    this.#store = store;
    this.#log = new CommitLog(store);
    this.#destinationId = destinationId;
  }

  async begin(signal: AbortSignal): Promise<LakeTransaction> {
    const n = await this.#log.newest(signal);
    const begun = { log: this.#log, n, destinationId: this.#destinationId, signal };
    return new PlainTransaction(this.#store, begun);
  }

  /** There are no older versions. */
  async forget(): Promise<void> {}

  tidy(now: number, signal: AbortSignal): Promise<void> {
    return this.#log.tidy(now, signal);
  }

  async test(signal: AbortSignal): Promise<void> {
    const probe = `${OWN}/test-${newId()}`;
    const isFresh = (await this.#log.newest(signal)) === 0;
    const nothing = new Uint8Array(1);
    const isExclusive =
      (await this.#store.create(`${probe}/a`, nothing, signal)) &&
      !(await this.#store.create(`${probe}/a`, nothing, signal));
    await this.#store.move(`${probe}/a`, `${probe}/b`, signal);
    const isRead = (await this.#store.read(`${probe}/b`, signal))?.length === 1;
    const isListed = (await this.#store.names(probe, signal)).length === 1;
    await this.#store.removeFolder(probe, signal);
    if (isFresh && (await this.#store.names(OWN, signal)).length === 0)
      await this.#store.removeFolder(OWN, signal);
    if (!isExclusive) throw new WarehouseRefused('files cannot be created exclusively there');
    if (!isRead || !isListed) throw new WarehouseRefused('what was written is not there');
  }

  close(): Promise<void> {
    return this.#store.close();
  }
}

interface Begun {
  readonly log: CommitLog;
  /** The newest entry of the log. */
  readonly n: number;
  readonly destinationId: string;
  readonly signal: AbortSignal;
}

class PlainTransaction implements LakeTransaction {
  readonly signal: AbortSignal;
  readonly #begun: Begun;
  readonly #store: LakeStore;
  readonly #staging: Staging;
  readonly #defined = new Map<string, TableColumns>();

  constructor(store: LakeStore, begun: Begun) {
    this.signal = begun.signal;
    this.#begun = begun;
    this.#store = store;
    this.#staging = new Staging(store);
  }

  async ledger(lane: string): Promise<LedgerRow | undefined> {
    const name = this.#laneName(lane);
    const bytes = await this.#store.read(name, this.signal);
    if (bytes === undefined) return undefined;
    try {
      return ledgerRow(lane, parseObject(Buffer.from(bytes).toString('utf8')));
    } catch (error) {
      throw new WarehouseRefused(`${name} was changed by hand`, { cause: error });
    }
  }

  /** Names of folders with a schema. */
  async tables(): Promise<readonly string[]> {
    const folders = (await this.#store.folders(this.signal)).filter((name) => /^[a-z0-9_]+$/.test(name));
    const schemaOf = (table: string) => readSchema(this.#store, table, this.signal);
    const schemas = await mapConcurrently(folders, AT_ONCE, schemaOf);
    return folders.filter((_, index) => schemas[index] !== undefined);
  }

  async schema(table: string): Promise<TableSchema | undefined> {
    const columns = table === VERSIONS ? VERSION_COLUMNS : await readSchema(this.#store, table, this.signal);
    return columns && { columns };
  }

  async files(table: string, received?: Received): Promise<readonly DataFile[]> {
    const folder = received === undefined ? folderOf(table) : dayFolder(table, received);
    const parts = new Map<string, Part>();
    const found = await this.#store.files(folder, this.signal, (name) => {
      const part = partOf(name);
      if (part === undefined || !mayHave(part, received)) return false;
      parts.set(name, part);
      return true;
    });
    return found.map(({ name, bytes }) => ({ name, bytes, ...parts.get(name) }));
  }

  async *rows(_table: string, { name }: DataFile, selection: Selection = {}): AsyncGenerator<Rows> {
    const bytes = await this.#store.read(name, this.signal);
    if (bytes !== undefined) yield* readFile(name, bytes, selection);
  }

  async define(table: string, columns: TableColumns): Promise<TableSchema> {
    this.#defined.set(table, columns);
    return { columns };
  }

  async replace(
    table: string,
    replaced: readonly DataFile[],
    part: Part,
    { bytes, count }: EncodedRows,
  ): Promise<void> {
    const [only] = replaced;
    // A name that may be used again is never removed: a process that is late would remove the next file of the name.
    const keeps = part.bucket !== undefined || (replaced.length === 1 && count > 0);
    if (!keeps) this.#staging.removals.push(...replaced.map(({ name }) => name));
    if (count === 0 && !keeps) return;
    const name = keeps && only !== undefined ? only.name : fileName(table, part);
    await this.#staging.put(name, bytes, this.signal);
  }

  async commit(ledger?: LedgerRow): Promise<boolean> {
    for (const [table, columns] of this.#defined)
      await this.#staging.put(schemaName(table), schemaText(columns), this.signal, { isMark: true });
    if (ledger !== undefined) {
      const text = Buffer.from(`${ledgerText(ledger)}\n`);
      await this.#staging.put(this.#laneName(ledger.lane), text, this.signal, { isMark: true });
    }
    return this.#begun.log.commit(this.#begun.n, this.#staging, this.signal);
  }

  discard(): Promise<void> {
    return this.#staging.discard(this.signal);
  }

  #laneName(lane: string): string {
    return `${OWN}/lanes/${this.#begun.destinationId}/${encodeURIComponent(lane)}.json`;
  }
}

function mayHave({ received: of }: Part, received: Received | undefined): boolean {
  return of === undefined || received === undefined || (of.from <= received.to && of.to >= received.from);
}

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
async function readSchema(
  store: LakeStore,
  table: string,
  signal: AbortSignal,
): Promise<TableColumns | undefined> {
  const bytes = await store.read(schemaName(table), signal);
  if (bytes === undefined) return undefined;
  let columns: unknown;
  try {
    ({ columns } = parseObject(Buffer.from(bytes).toString('utf8')));
  } catch {
    columns = undefined;
  }
  if (!isObject(columns)) throw new WarehouseRefused(`${schemaName(table)} was changed by hand`);
  return new Map(Object.entries(columns).map(([name, type]) => [name, isType(type) ? type : undefined]));
}

function isType(type: unknown): type is ColumnType {
  return TYPES.has(type);
}

/** The versions of profiles are no table of readers. */
function folderOf(table: string): string {
  return table === VERSIONS ? `${OWN}/profiles` : table;
}

function schemaName(table: string): string {
  return `${folderOf(table)}/_schema.json`;
}

function schemaText(columns: TableColumns): Uint8Array {
  return Buffer.from(`${JSON.stringify({ columns: Object.fromEntries(columns) }, null, 1)}\n`);
}

function dayFolder(table: string, received: Received | undefined): string {
  const day = received === undefined ? NO_DAY : dayOf(received);
  return `${folderOf(table)}/${PARTITION}=${day}`;
}

function dayOf({ from }: Received): string {
  return new Date(from).toISOString().slice(0, '2026-11-30'.length);
}

/** A name for a file with rows of this part. That of a bucket is always the same. */
function fileName(table: string, { received, bucket }: Part): string {
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

/** Everything that is no table. Readers of `<table>/**` do not see it. */
const OWN = '_tributary';
const LOG = `${OWN}/log`;
const STAGING = `${OWN}/staging`;
/** Digits of the number of an entry. */
const DIGITS = 12;
/** Entries that are kept: the newest one counts, the others tell a person what happened. */
const KEPT = 100;
/** How often it is looked whether another process has published its change, ms. */
const POLL_MS = 200;
/** Staged files that are moved at a time. */
const FILES_AT_ONCE = 8;
/** Staged files of attempts that never became an entry are removed after so long, ms. */
const ORPHANED_AFTER_MS = 3_600_000;

interface Move {
  readonly from: string;
  readonly to: string;
  readonly bytes: number;
  /** It tells of the files before it: it is moved once they are, and never where one was lost. */
  readonly isMark?: true;
}

/** A change of the lake: files that are removed, and staged ones that get their final names, in this order. */
interface Entry {
  readonly n: number;
  /** The folder of the staged files. */
  readonly staging: string;
  readonly removals: readonly string[];
  readonly moves: readonly Move[];
}

/** The files of one attempt to change the lake, under a path of their own. */
class Staging {
  readonly folder = `${STAGING}/${newId()}`;
  readonly removals: string[] = [];
  readonly #moves: Move[] = [];
  readonly #store: LakeStore;
  readonly #writes: FileWrites;

  constructor(store: LakeStore) {
    this.#store = store;
    this.#writes = new FileWrites(store);
  }

  /** In the order of the calls of `put`. */
  get moves(): readonly Move[] {
    return this.#moves;
  }

  get isEmpty(): boolean {
    return this.#moves.length + this.removals.length === 0;
  }

  /** Writes a file that gets the name `to`, or replaces the one of that name. */
  async put(
    to: string,
    bytes: Uint8Array,
    signal: AbortSignal,
    mark: Pick<Move, 'isMark'> = {},
  ): Promise<void> {
    const from = `${this.folder}/${this.#moves.length}`;
    this.#moves.push({ from, to, bytes: bytes.length, ...mark });
    await this.#writes.put(from, bytes, signal);
  }

  /** Removes what was staged, as far as that works: orphans are removed later. */
  async discard(signal: AbortSignal): Promise<void> {
    await this.#writes.ended();
    await this.#store.removeFolder(this.folder, signal).catch(() => undefined);
  }

  /** Resolves once all files are written. */
  written(): Promise<void> {
    return this.#writes.written();
  }
}

/**
 * The order of all changes of a lake, of every lane, table and process. A change is made thus:
 *
 * 1. Its new files are staged, and checked to be there.
 * 2. The entry behind the newest one is created exclusively: from then on the change is committed.
 * 3. It is published: files are removed and staged ones moved to their names; that of the lane is the last one of a load.
 * 4. The staging folder is removed.
 *
 * A crash before 2 leaves orphans, which no reader sees. One after 2 is completed by `newest`, which every process calls before
 * it makes the next change: so no two changes are published at the same time, and a process that was slow finds no file left to
 * move. Of two processes that create the same entry one gives way, and looks at the lake again. A staged file that a person
 * removed between 2 and 3 is lost: the file of the lane is not moved then, so its batch is loaded again from the log, without
 * the rows that were published.
 */
export class CommitLog {
  readonly #store: LakeStore;
  /** The newest entry that is known to be published. */
  #published = 0;
  /** The staging folder of the last change that this process tried to commit. */
  #own: string | undefined;

  constructor(store: LakeStore) {
    this.#store = store;
  }

  /** The number of the newest entry, whose change is published when this resolves. 0: there is none. */
  async newest(signal: AbortSignal): Promise<number> {
    const n = await this.#newestNumber(signal);
    if (n === 0 || n === this.#published) return n;
    const entry = entryOf(n, await this.#store.read(entryName(n), signal));
    if (!(await this.#isPublishedByOther(entry, signal))) await this.#publish(entry, signal);
    this.#published = n;
    return n;
  }

  /** Commits and publishes a change behind the entry `n`. False where there is another one. */
  async commit(n: number, staging: Staging, signal: AbortSignal): Promise<boolean> {
    try {
      await staging.written();
    } catch (error) {
      await staging.discard(signal);
      throw error;
    }
    if (staging.isEmpty) return true;
    const { folder, removals, moves } = staging;
    const entry: Entry = { n: n + 1, staging: folder, removals, moves };
    const staged = await this.#store.names(folder, signal);
    if (staged.length !== moves.length)
      throw new Unavailable('staged files were removed: they are made again');
    await this.#store.settle(signal);
    const text = Buffer.from(JSON.stringify(entry));
    this.#own = folder;
    const isCreated = await this.#store.create(entryName(entry.n), text, signal);
    // One that was removed as an old one could be created once more.
    if (!isCreated || (await this.#newestNumber(signal)) >= entry.n + KEPT) {
      await this.#store.removeFolder(folder, signal);
      return false;
    }
    const isWhole = await this.#publish(entry, signal);
    if (!isWhole) throw new Unavailable('staged files were removed: they are made again');
    this.#published = entry.n;
    return true;
  }

  /** Removes old entries, and the files of attempts that ended. */
  async tidy(now: number, signal: AbortSignal): Promise<void> {
    const newest = await this.newest(signal);
    for (const name of await this.#store.names(LOG, signal)) {
      const n = numberOf(name);
      if (n !== undefined && n <= newest - KEPT) await this.#store.remove(name, signal);
    }
    for (const { name, changedAt } of await this.#store.files(STAGING, signal))
      if (changedAt < now - ORPHANED_AFTER_MS) await this.#store.remove(name, signal);
  }

  /** Waits for the process that committed the entry, where its moves could come late; false where it has not published it. */
  async #isPublishedByOther({ staging }: Entry, signal: AbortSignal): Promise<boolean> {
    const patience = staging === this.#own ? 0 : this.#store.lateMoveMs;
    const until = performance.now() + patience;
    for (;;) {
      if ((await this.#store.names(staging, signal)).length === 0) return true;
      if (performance.now() >= until) return false;
      await sleep(POLL_MS);
    }
  }

  async #newestNumber(signal: AbortSignal): Promise<number> {
    const names = await this.#store.names(LOG, signal);
    return names.reduce((newest, name) => Math.max(newest, numberOf(name) ?? 0), 0);
  }

  /** False where staged files are lost. May run in several processes at a time. */
  async #publish({ removals, moves, staging }: Entry, signal: AbortSignal): Promise<boolean> {
    for (const name of removals) await this.#store.remove(name, signal);
    // A crash of the machine must not bring files back beside the one that they were merged into.
    if (removals.length > 0) await this.#store.settle(signal);
    let isWhole = true;
    const waiting: Move[] = [];
    const moveAll = async () => {
      const moved = await mapConcurrently(waiting, FILES_AT_ONCE, (move) => this.#move(move, signal));
      isWhole &&= !moved.includes(false);
      waiting.length = 0;
    };
    for (const move of moves) {
      if (move.isMark === true) {
        await moveAll();
        // What was moved must be durable before the file that tells so.
        await this.#store.settle(signal);
        if (!isWhole) break;
      }
      waiting.push(move);
    }
    if (isWhole) await moveAll();
    await this.#store.settle(signal);
    // Another process that published all of it removed the folder, and may have changed the files since.
    isWhole ||= (await this.#store.names(staging, signal)).length === 0;
    await this.#store.removeFolder(staging, signal);
    return isWhole;
  }

  /** False where the staged file is lost. */
  async #move({ from, to, bytes }: Move, signal: AbortSignal): Promise<boolean> {
    return (await this.#store.move(from, to, signal)) || (await this.#store.size(to, signal)) === bytes;
  }
}

function entryName(n: number): string {
  return `${LOG}/${String(n).padStart(DIGITS, '0')}.json`;
}

function numberOf(name: string): number | undefined {
  const [, digits] = /\/(\d{12})\.json$/.exec(name) ?? [];
  return digits === undefined ? undefined : Number(digits);
}

/** An entry, checked: it names files that are moved and removed. */
function entryOf(n: number, bytes: Uint8Array | undefined): Entry {
  const changed = () => new WarehouseRefused(`the entry ${n} of ${LOG} was changed by hand`);
  if (bytes === undefined) throw new Unavailable(`the entry ${n} of ${LOG} is gone`);
  let value: unknown;
  try {
    value = parseObject(Buffer.from(bytes).toString('utf8'));
  } catch {
    throw changed();
  }
  if (!isEntry(value) || value.n !== n) throw changed();
  return value;
}

function isEntry(value: unknown): value is Entry {
  if (!isObject(value)) return false;
  const { n, staging, removals, moves } = value;
  return (
    typeof n === 'number' &&
    isName(staging) &&
    staging.startsWith(`${STAGING}/`) &&
    Array.isArray(removals) &&
    removals.every(isName) &&
    Array.isArray(moves) &&
    moves.every(
      (move) => isObject(move) && isName(move.from) && isName(move.to) && typeof move.bytes === 'number',
    )
  );
}

/** Whether a text is a name below the root of the lake. */
function isName(name: unknown): name is string {
  return typeof name === 'string' && isInLake(name);
}
