import { type LedgerRow, newId, parseObject, type TableColumns, WarehouseRefused } from '@tributary/core';
import { ledgerRow } from '../../ledger.ts';
import { VERSIONS } from '../../tables.ts';
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
import { VERSION_COLUMNS } from '../profiles.ts';
import type { LakeStore } from '../store.ts';
import { CommitLog, OWN, Staging } from './commit-log.ts';
import { dayFolder, fileName, folderOf, partOf, readSchema, schemaName, schemaText } from './table-files.ts';

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
    return new PlainTransaction(this.#store, this.#log, { n, destinationId: this.#destinationId, signal });
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
  /** The newest entry of the log. */
  readonly n: number;
  readonly destinationId: string;
  readonly signal: AbortSignal;
}

class PlainTransaction implements LakeTransaction {
  readonly signal: AbortSignal;
  readonly #store: LakeStore;
  readonly #log: CommitLog;
  readonly #n: number;
  readonly #destinationId: string;
  readonly #staging: Staging;
  readonly #defined = new Map<string, TableColumns>();

  constructor(store: LakeStore, log: CommitLog, { n, destinationId, signal }: Begun) {
    this.signal = signal;
    this.#store = store;
    this.#log = log;
    this.#n = n;
    this.#destinationId = destinationId;
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
    const tables: string[] = [];
    for (let at = 0; at < folders.length; at += AT_ONCE) {
      const some = folders.slice(at, at + AT_ONCE);
      const schemas = await Promise.all(some.map((table) => readSchema(this.#store, table, this.signal)));
      tables.push(...some.filter((_, index) => schemas[index] !== undefined));
    }
    return tables;
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
      await this.#staging.putMark(schemaName(table), schemaText(columns), this.signal);
    if (ledger !== undefined) {
      const { lane, seq, batch, ranges, rows: counts, loadedAt } = ledger;
      const text = JSON.stringify({ seq, batch, ranges, counts, loaded_at: loadedAt });
      await this.#staging.putMark(this.#laneName(lane), Buffer.from(`${text}\n`), this.signal);
    }
    return this.#log.commit(this.#n, this.#staging, this.signal);
  }

  discard(): Promise<void> {
    return this.#staging.discard(this.signal);
  }

  #laneName(lane: string): string {
    return `${OWN}/lanes/${this.#destinationId}/${encodeURIComponent(lane)}.json`;
  }
}

function mayHave({ received: of }: Part, received: Received | undefined): boolean {
  return of === undefined || received === undefined || (of.from <= received.to && of.to >= received.from);
}
