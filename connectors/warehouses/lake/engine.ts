import {
  type Clock,
  type ColumnType,
  type CommitResult,
  DISCARDS_TABLE,
  type HeldColumn,
  IDENTITY_MAP_TABLE,
  joinColumnTypes,
  type LedgerRow,
  newId,
  type PeopleToDelete,
  parseObject,
  type TableChange,
  type TableColumns,
  Unavailable,
  USERS_TABLE,
  type Warehouse,
  type WarehouseBatch,
  WarehouseRefused,
} from '@tributary/core';
import { ledgerRow } from '../ledger.ts';
import { CommitLog, OWN, Staging } from './commit-log.ts';
import { isOfEvents, messageIdsIn, rowsOfPeople } from './deletion.ts';
import { stageInserts } from './inserts.ts';
import type { Rows } from './parquet.ts';
import { stageProfiles } from './profiles.ts';
import { LIMITS } from './settings.ts';
import type { LakeStore, StoredFile } from './store.ts';
import {
  isOurs,
  isQuiet,
  newFileName,
  readFile,
  readSchema,
  receivedOf,
  rewritten,
  schemaName,
  schemaText,
  writable,
} from './table-files.ts';

/** How often a change is made anew as another loader changed the lake. */
const ATTEMPTS = 10;
/** Tables whose rows are staged at a time: in a bucket each takes some round trips. */
const TABLES_AT_ONCE = 4;
/** Schemas that are read at a time. */
const AT_ONCE = 8;
/** Bytes of a table that are written anew to widen a column: in a larger one the column is held. */
const MAX_REWRITTEN = 2 * 1_024 ** 3;

type Counts = Readonly<Record<string, number>>;

interface LakeOptions {
  readonly destinationId: string;
  readonly clock: Clock;
}

/**
 * A lake of Parquet files as a warehouse. `CommitLog` has the protocol: everything that changes, also a schema, a deletion and a
 * compaction, is an entry of one log. The row of the ledger is a file for each lane that an entry moves to its place after all
 * others.
 *
 * A row is known by its `id` and the time at which it was received. A reader of `<table>/**` sees each row at most once: where
 * files are merged, the old ones go first.
 */
export class Lake implements Warehouse {
  readonly limits = LIMITS;
  readonly #store: LakeStore;
  readonly #log: CommitLog;
  readonly #destinationId: string;
  readonly #clock: Clock;
  readonly #compaction: Compaction;

  constructor(store: LakeStore, { destinationId, clock }: LakeOptions) {
    this.#store = store;
    this.#log = new CommitLog(store);
    this.#destinationId = destinationId;
    this.#clock = clock;
    this.#compaction = new Compaction(clock);
  }

  async newest(lane: string, signal: AbortSignal): Promise<LedgerRow | undefined> {
    await this.#log.newest(signal);
    return this.#ledger(lane, signal);
  }

  async describe(tables: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, TableColumns>> {
    const described = new Map<string, TableColumns>();
    for (let at = 0; at < tables.length; at += AT_ONCE) {
      const some = tables.slice(at, at + AT_ONCE);
      const schemas = await Promise.all(some.map((table) => readSchema(this.#store, table, signal)));
      for (const [index, table] of some.entries()) {
        const schema = schemas[index];
        if (schema !== undefined) described.set(table, schema);
      }
    }
    return described;
  }

  async alter(changes: readonly TableChange[], signal: AbortSignal): Promise<readonly HeldColumn[]> {
    const held: HeldColumn[] = [];
    await this.#change(signal, async (staging) => {
      held.length = 0;
      for (const change of changes) await this.#stageTable(staging, change, held, signal);
      return true;
    });
    return held;
  }

  async commit(batch: WarehouseBatch, signal: AbortSignal): Promise<CommitResult> {
    const { ledger, inserts, profiles } = batch;
    const inserted: Record<string, number> = {};
    const isDone = await this.#change(signal, async (staging) => {
      const newest = await this.#ledger(ledger.lane, signal);
      if (newest !== undefined && newest.seq >= ledger.seq) return false;
      for (let at = 0; at < inserts.length; at += TABLES_AT_ONCE)
        await Promise.all(
          inserts.slice(at, at + TABLES_AT_ONCE).map(async (rows) => {
            inserted[rows.table] = await stageInserts(this.#store, staging, rows, signal);
          }),
        );
      if (profiles !== undefined) {
        const [users, identities] = await Promise.all(
          [USERS_TABLE, IDENTITY_MAP_TABLE].map((table) => readSchema(this.#store, table, signal)),
        );
        if (users === undefined || identities === undefined)
          throw new Unavailable('the tables of profiles were removed during the load');
        const files = { store: this.#store, staging, signal };
        const tables = { users, identities, loadedAt: ledger.loadedAt };
        inserted[USERS_TABLE] = await stageProfiles(files, profiles, tables);
      }
      const { lane, seq, batch: id, ranges, rows: counts, loadedAt } = ledger;
      const text = JSON.stringify({ seq, batch: id, ranges, counts, loaded_at: loadedAt });
      await staging.putMark(this.#laneName(lane), Buffer.from(`${text}\n`), signal);
      return true;
    });
    return isDone ? { done: true, inserted, refused: [] } : { done: false };
  }

  async delete(people: PeopleToDelete, signal: AbortSignal): Promise<Counts> {
    await this.#log.newest(signal);
    const tables = await this.#tables(signal);
    const messageIds = new Set<string>();
    for (const table of tables.filter(isOfEvents))
      for (const name of await this.#filesOf(table, signal))
        for (const id of await messageIdsIn(this.#store, name, people, signal)) messageIds.add(id);
    const deleted: Record<string, number> = {};
    // What was discarded is found by the events, so it goes before them: a deletion that is repeated finds all of it.
    for (const table of [DISCARDS_TABLE, ...tables.filter((name) => name !== DISCARDS_TABLE)])
      if (tables.includes(table))
        deleted[table] = await this.#deleteRows(table, rowsOfPeople(table, people, messageIds), signal);
    return deleted;
  }

  async maintain(signal: AbortSignal): Promise<boolean> {
    return this.#compaction.next(
      () => this.#tables(signal),
      async (table) => {
        const files = (await this.#store.files(table, signal)).filter(({ name }) => isOurs(name));
        const small = mergeable(files, this.#clock());
        if (small === undefined) return false;
        await this.#change(signal, (staging) => this.#stageMerged(staging, table, small, signal));
        return true;
      },
      () => this.#log.tidy(this.#clock(), signal),
    );
  }

  async test(
    signal: AbortSignal,
  ): Promise<{ readonly ok: true } | { readonly ok: false; readonly reason: string }> {
    const probe = `${OWN}/test-${newId()}`;
    try {
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
      if (!isExclusive) return { ok: false, reason: 'files cannot be created exclusively there' };
      return isRead && isListed ? { ok: true } : { ok: false, reason: 'what was written is not there' };
    } catch (error) {
      if (error instanceof Unavailable || error instanceof WarehouseRefused)
        return { ok: false, reason: error.message };
      throw error;
    }
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  /**
   * Makes a change by what the lake has now, and again where another process was faster. False where `stage` returns false:
   * then nothing is changed.
   */
  async #change(signal: AbortSignal, stage: (staging: Staging) => Promise<boolean>): Promise<boolean> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const n = await this.#log.newest(signal);
      const staging = new Staging(this.#store);
      let isStaged = false;
      try {
        const isWanted = await stage(staging);
        await staging.written();
        isStaged = isWanted;
      } finally {
        if (!isStaged) await staging.discard(signal);
      }
      if (!isStaged) return false;
      if (staging.isEmpty || (await this.#log.commit(n, staging, signal))) return true;
    }
    throw new Unavailable('the lake is changed by another loader all the time');
  }

  async #ledger(lane: string, signal: AbortSignal): Promise<LedgerRow | undefined> {
    const name = this.#laneName(lane);
    const bytes = await this.#store.read(name, signal);
    if (bytes === undefined) return undefined;
    try {
      return ledgerRow(lane, parseObject(Buffer.from(bytes).toString('utf8')));
    } catch (error) {
      throw new WarehouseRefused(`${name} was changed by hand`, { cause: error });
    }
  }

  #laneName(lane: string): string {
    return `${OWN}/lanes/${this.#destinationId}/${encodeURIComponent(lane)}.json`;
  }

  /** Names of folders with a schema. */
  async #tables(signal: AbortSignal): Promise<readonly string[]> {
    const folders = (await this.#store.folders(signal)).filter(
      (name) => /^[a-z0-9_]+$/.test(name) && name !== OWN,
    );
    return [...(await this.describe(folders, signal)).keys()];
  }

  async #filesOf(table: string, signal: AbortSignal): Promise<readonly string[]> {
    return (await this.#store.names(table, signal)).filter(isOurs);
  }

  async #stageTable(
    staging: Staging,
    { table, add, widen }: TableChange,
    held: HeldColumn[],
    signal: AbortSignal,
  ): Promise<void> {
    const known = await readSchema(this.#store, table, signal);
    const schema = new Map(known);
    const wider = new Map<string, ColumnType>();
    let isTextAlready = true;
    for (const [column, to] of [...add, ...[...widen].map(([name, { to: type }]) => [name, type] as const)]) {
      const from = schema.get(column);
      if (!schema.has(column)) schema.set(column, to);
      else if (from !== undefined && from !== to && joinColumnTypes(from, to) === to) {
        wider.set(column, to);
        // Files have JSON as its text.
        isTextAlready &&= from === 'json';
      }
    }
    if (wider.size > 0) {
      const all = isTextAlready ? [] : await this.#store.files(table, signal);
      const files = all.filter(({ name }) => isOurs(name));
      const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
      if (bytes > MAX_REWRITTEN) {
        const reason = `the table has ${bytes} bytes, which are too many to be written anew`;
        for (const column of wider.keys()) held.push({ table, column, reason });
      } else {
        for (const [column, to] of wider) schema.set(column, to);
        for (const { name } of files) {
          const whole = await rewritten(this.#store, [name], writable(schema), () => true, signal);
          await staging.put(name, whole.bytes, signal);
        }
      }
    }
    const isChanged = known === undefined || [...schema].some(([name, type]) => known.get(name) !== type);
    if (isChanged) await staging.putMark(schemaName(table), schemaText(schema), signal);
  }

  async #deleteRows(
    table: string,
    isTheirs: (rows: Rows, at: number) => boolean,
    signal: AbortSignal,
  ): Promise<number> {
    let deleted = 0;
    await this.#change(signal, async (staging) => {
      deleted = 0;
      const columns = writable((await readSchema(this.#store, table, signal)) ?? new Map());
      for (const name of await this.#filesOf(table, signal)) {
        let count = 0;
        for await (const rows of readFile(this.#store, name, {}, signal))
          for (let at = 0; at < rows.count; at++) if (isTheirs(rows, at)) count += 1;
        if (count === 0) continue;
        deleted += count;
        const others = await rewritten(
          this.#store,
          [name],
          columns,
          (rows, at) => !isTheirs(rows, at),
          signal,
        );
        // A name that may be used again is never removed: a process that is late would remove the next file of the name.
        if (others.count === 0 && receivedOf(name) !== undefined) staging.removals.push(name);
        else await staging.put(name, others.bytes, signal);
      }
      return true;
    });
    return deleted;
  }

  /** Stages one file for several of a day. The lake may have lost some since they were listed. */
  async #stageMerged(
    staging: Staging,
    table: string,
    names: readonly string[],
    signal: AbortSignal,
  ): Promise<boolean> {
    const schema = await readSchema(this.#store, table, signal);
    const there = new Set(await this.#filesOf(table, signal));
    const times = names.map(receivedOf).filter((received) => received !== undefined);
    const [first] = times;
    if (schema === undefined || first === undefined || names.some((name) => !there.has(name))) return false;
    const merged = await rewritten(this.#store, names, writable(schema), () => true, signal);
    staging.removals.push(...names);
    const from = Math.min(...times.map((received) => received.from));
    const to = Math.max(...times.map((received) => received.to));
    await staging.put(newFileName(table, first.day, { from, to }), merged.bytes, signal);
    return true;
  }
}

/** Files of one day at least that are merged. */
const MERGED_FILES = 8;
/** Bytes of a file that is merged, and of those that are merged into one. */
const SMALL_FILE = 8 * 1_024 ** 2;
const MERGED_BYTES = 32 * 1_024 ** 2;

/** Small files of one day with old rows, in the order of the times; undefined where there are not enough. */
export function mergeable(files: readonly StoredFile[], now: number): readonly string[] | undefined {
  const small = files.filter(({ name, bytes }) => bytes <= SMALL_FILE && isQuiet(name, now));
  for (const ofDay of Map.groupBy(small, ({ name }) => receivedOf(name)?.day).values()) {
    if (ofDay.length < MERGED_FILES) continue;
    const merged: string[] = [];
    let left = MERGED_BYTES;
    for (const { name, bytes } of ofDay.toSorted((one, other) => (one.name < other.name ? -1 : 1))) {
      left -= bytes;
      if (left < 0) break;
      merged.push(name);
    }
    return merged;
  }
  return undefined;
}

/** How long a piece of maintenance looks for something to do, ms. */
const PIECE_MS = 1_000;
/** After a round through all tables maintenance rests, ms. */
const REST_MS = 3_600_000;

/** The round of maintenance through the tables, in bounded pieces. */
class Compaction {
  readonly #clock: Clock;
  #left: string[] = [];
  #nextRoundAt = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Merges files of one table at most; true while the round goes on. */
  async next(
    tables: () => Promise<readonly string[]>,
    merge: (table: string) => Promise<boolean>,
    tidy: () => Promise<void>,
  ): Promise<boolean> {
    const began = this.#clock();
    if (this.#left.length === 0) {
      if (began < this.#nextRoundAt) return false;
      this.#nextRoundAt = began + REST_MS;
      await tidy();
      this.#left = [...(await tables())];
    }
    while (this.#clock() - began < PIECE_MS) {
      // One that cannot be merged keeps no other from it.
      const table = this.#left.shift();
      if (table === undefined) return false;
      if (!(await merge(table))) continue;
      this.#left.unshift(table);
      return true;
    }
    return this.#left.length > 0;
  }
}
