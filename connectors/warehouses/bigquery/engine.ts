import { PassThrough } from 'node:stream';
import {
  type Clock,
  type CommitResult,
  type HeldColumn,
  type JsonObject,
  type LedgerRow,
  mapConcurrently,
  newId,
  objectIn,
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
import type { ConnectorContext } from '../../kind.ts';
import { deletePeople, partsOf } from '../deletion.ts';
import type { LoadedDestination, Open, WarehouseEngine } from '../kind.ts';
import { type Dialect, rowsFile } from '../merging/dialect.ts';
import { goneRows, insertStaged, profileStatements } from '../merging/statements.ts';
import {
  changeEach,
  checkKeys,
  checkTypes,
  isLoaded,
  jsonIn,
  LEDGER,
  ledgerRow,
  neededChanges,
  plannedTables,
  tested,
} from '../tables.ts';
import { BigqueryClient, BigqueryRefusal, type Cell, pause } from './client.ts';
import type { BigquerySettings } from './settings.ts';
import {
  cast,
  checks,
  countingScript,
  describedColumns,
  inPlace,
  isInPlace,
  LOADED,
  LOCK,
  locking,
  OWN_TABLES,
  quoted,
  REBUILDING,
  rebuild,
  STAGE,
  STAGED,
  stageResource,
  type TableStatement,
  tableResource,
  writeLedger,
} from './sql.ts';

/** Calls about tables at a time. */
const AT_ONCE = 8;
/** Tables that one transaction changes: BigQuery allows 100, of which the loader's own and those of profiles take six. */
const MAX_CHANGED = 90;
/** Characters of the statements of one script: BigQuery allows 1 MB. */
const MAX_SCRIPT = 900_000;
/** A stage whose load failed ends by itself, ms. */
const STAGE_MS = 24 * 3_600_000;
/** Attempts at a transaction while others run, and the pause after the first one, ms. */
const TURNS = 8;
const TURN_MS = 250;
/** Tables of a page of the dataset's list. */
const PAGE = 1_000;
const DAY_MS = 86_400_000;

/** What BigQuery says of the transactions that it ended, as another one changed the same rows. */
const CONFLICT = /concurrent update|concurrent transaction/i;

export const open: Open<BigquerySettings> = (...args) => new BigqueryWarehouse(...args);

/**
 * BigQuery as a warehouse. It has no transaction over load jobs, so a commit is
 *
 * 1. a table for the staged rows of this attempt, which ends by itself;
 * 2. one load job into it, whose rows are counted;
 * 3. a script with one transaction: it changes the row of the lock, as only then BigQuery ends one of two transactions; refuses
 *    a batch that is in the ledger; inserts staged rows whose ids are not there, and the ledger row;
 * 4. the end of the stage.
 *
 * After a crash behind 1 or 2 nothing is visible. Behind 3, and after an answer that was lost, the ledger has the batch. A script
 * of an earlier attempt that still runs either commits first, and the next one is refused, or is ended by its conflict with it.
 * Of a batch with too many tables for one transaction the first scripts insert rows alone, which the next attempt leaves alone.
 *
 * The id of a job is new for each attempt, and the same for each request of it: BigQuery takes it once.
 */
class BigqueryWarehouse implements WarehouseEngine {
  readonly #client: BigqueryClient;
  readonly #destinationId: string;
  readonly #dataset: string;
  readonly #matchDays: number | undefined;
  readonly #clock: Clock;
  readonly #sql: Pick<Dialect, 'quoted' | 'table' | 'cast'> = {
    quoted,
    cast,
    table: (name) => this.#of(name),
  };
  readonly #ledger: string;
  readonly #lock: string;
  #isPrepared = false;

  constructor(context: ConnectorContext, settings: BigquerySettings, { id, place }: LoadedDestination) {
    this.#client = new BigqueryClient(context, settings);
    this.#destinationId = id;
    this.#dataset = place;
    this.#matchDays = settings.match_days;
    this.#clock = context.clock;
    this.#ledger = this.#of(LEDGER);
    this.#lock = this.#of(LOCK);
  }

  newest(lane: string, signal: AbortSignal): Promise<LedgerRow | undefined> {
    return this.#told(async () => {
      const wasPrepared = this.#isPrepared;
      await this.#prepare(signal);
      try {
        return await this.#newest(lane, signal);
      } catch (error) {
        if (!wasPrepared || !isNotFound(error)) throw error;
        // Somebody dropped the ledger since.
        this.#isPrepared = false;
        await this.#prepare(signal);
        return await this.#newest(lane, signal);
      }
    });
  }

  describe(tables: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, TableColumns>> {
    return this.#told(async () => {
      const found = await mapConcurrently(
        tables,
        AT_ONCE,
        async (table) => [table, await this.#describe(table, signal)] as const,
      );
      return new Map(found.flatMap(([table, columns]) => (columns === undefined ? [] : [[table, columns]])));
    });
  }

  alter(changes: readonly TableChange[], signal: AbortSignal): Promise<readonly HeldColumn[]> {
    return this.#told(async () => {
      await this.#prepare(signal);
      const altered = await mapConcurrently(changes, AT_ONCE, (change) => this.#alterInPlace(change, signal));
      const held = altered.flatMap((one) => one.held);
      // One after the other, as each keeps the others away.
      for (const { table, anew } of altered)
        held.push(
          ...(await changeEach(table, anew, (some) => refusalOf(this.#rebuild(table, some, signal)))),
        );
      return held;
    });
  }

  commit(batch: WarehouseBatch, signal: AbortSignal): Promise<CommitResult> {
    return this.#told(async () => {
      const part = batch.ledger.batch.replaceAll(/[^A-Za-z0-9]/g, '').slice(0, 16);
      const stage = `${STAGE}${part}_${batch.attempt}_${idPart().slice(-12)}`;
      const staged = await this.#stage(stage, batch, signal);
      const result = await this.#commitStaged(this.#of(stage), staged, batch, signal);
      // The stage ends by itself where this fails.
      if (staged > 0) await this.#drop(stage, signal).catch(() => undefined);
      return result;
    });
  }

  delete(people: PeopleToDelete, signal: AbortSignal): Promise<Readonly<Record<string, number>>> {
    return this.#told(async () => {
      await this.#prepare(signal);
      const described = await this.describe(await this.#tables(signal), signal);
      const loaded = new Map([...described].filter(isLoaded));
      const deleted: Record<string, number> = {};
      for (const part of partsOf(people)) await this.#deletePart(part, loaded, deleted, signal);
      return deleted;
    });
  }

  /** Deletes people whom one script may name. */
  async #deletePart(
    people: PeopleToDelete,
    loaded: ReadonlyMap<string, TableColumns>,
    deleted: Record<string, number>,
    signal: AbortSignal,
  ): Promise<void> {
    const names = new Map<string, string>();
    const statements: TableStatement[] = [];
    const { quoted, table } = this.#sql;
    const sql = {
      quoted,
      table,
      place: (value: string) => {
        const name = names.get(value) ?? `p${names.size}`;
        names.set(value, name);
        return `@${name}`;
      },
      asText: (column: string) => `cast(${column} as string)`,
      contains: (column: string, text: string) => `strpos(${column}, ${text}) > 0`,
      remove: async (name: string, condition: string) => {
        statements.push({ table: name, statement: `delete from ${table(name)} where ${condition}` });
        return 0;
      },
    };
    await deletePeople(sql, loaded, people);
    const parameters = Object.fromEntries(Array.from(names, ([value, name]) => [name, value]));
    for (const some of chunksOf(statements)) {
      const script = countingScript(
        locking(this.#lock),
        some.map(({ statement }) => statement),
        [],
      );
      const counts = await this.#transaction(script, parameters, signal);
      for (const [at, { table }] of some.entries())
        deleted[table] = (deleted[table] ?? 0) + (counts?.[at] ?? 0);
    }
  }

  test(signal: AbortSignal): Promise<WarehouseTest> {
    return tested(this.#told(() => this.#try(signal)));
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  #of(table: string): string {
    return `\`${this.#client.project}.${this.#dataset}.${table}\``;
  }

  #query(
    sql: string,
    parameters: Readonly<Record<string, string>>,
    signal: AbortSignal,
    jobId = `tributary_${idPart()}`,
  ): Promise<readonly (readonly Cell[])[]> {
    return this.#client.query(jobId, sql, parameters, signal);
  }

  #reference(tableId: string): JsonObject {
    return { projectId: this.#client.project, datasetId: this.#dataset, tableId };
  }

  /** Makes the dataset and the loader's own tables where they are missing; the rights to make them are needed only then. */
  async #prepare(signal: AbortSignal): Promise<void> {
    if (this.#isPrepared) return;
    await this.#openDataset(signal);
    for (const [name, columns] of Object.entries(OWN_TABLES)) {
      if ((await this.#describe(name, signal)) !== undefined) continue;
      await this.#createTable(name, columns, signal);
    }
    const noRow = `not exists (select 1 from ${this.#lock})`;
    const [row] = await this.#query(`select cast(${noRow} as string)`, {}, signal);
    // Two loaders may each insert one: a transaction changes all of them.
    if (row?.[0] === 'true')
      await this.#query(
        `insert into ${this.#lock} (rebuilding, loads) select cast(null as string), 0 from (select 1) one where ${noRow}`,
        {},
        signal,
      );
    this.#isPrepared = true;
  }

  /** True where the dataset was made. */
  async #openDataset(signal: AbortSignal): Promise<boolean> {
    const path = `datasets/${this.#dataset}`;
    const isThere = await this.#client.get(path, signal);
    const datasetReference = { projectId: this.#client.project, datasetId: this.#dataset };
    const isMade =
      isThere === undefined &&
      (await this.#client.create('datasets', { datasetReference, location: this.#client.location }, signal));
    const { location, defaultTableExpirationMs } = isThere ?? (await this.#client.get(path, signal)) ?? {};
    if (defaultTableExpirationMs !== undefined)
      throw new WarehouseRefused(
        `the dataset "${this.#dataset}" deletes its tables after a time, the ledger as well: remove its default table expiration`,
      );
    if (typeof location === 'string') this.#client.location = location;
    return isMade;
  }

  async #newest(lane: string, signal: AbortSignal): Promise<LedgerRow | undefined> {
    const time = "format_timestamp('%E4Y-%m-%dT%H:%M:%E3SZ', loaded_at, 'UTC')";
    const [row] = await this.#query(
      `select cast(l.seq as string), batch, ranges, counts, ${time} from ${this.#ledger} l where destination_id = @destination and lane = @lane order by l.seq desc limit 1`,
      { destination: this.#destinationId, lane },
      signal,
    );
    if (row === undefined) return undefined;
    const [seq, batch, ranges, counts, loaded_at] = row;
    return ledgerRow(lane, { seq, batch, ranges, counts, loaded_at });
  }

  async #createTable(table: string, columns: TableChange['add'], signal: AbortSignal): Promise<boolean> {
    const resource = tableResource(this.#reference(table), table, columns);
    return this.#client.create(`datasets/${this.#dataset}/tables`, resource, signal);
  }

  async #describe(table: string, signal: AbortSignal): Promise<TableColumns | undefined> {
    const found = await this.#client.get(`datasets/${this.#dataset}/tables/${table}`, signal);
    if (found === undefined) return undefined;
    if (found.type !== 'TABLE')
      throw new WarehouseRefused(`"${table}" is no table, so nothing can be loaded into it`);
    const columns = describedColumns(found);
    if (columns === undefined) throw new Unavailable(`BigQuery did not describe the table "${table}"`);
    return columns;
  }

  /** Names of the tables of the dataset. */
  async #tables(signal: AbortSignal): Promise<readonly string[]> {
    const names: string[] = [];
    let token: unknown = '';
    while (typeof token === 'string') {
      const path = `datasets/${this.#dataset}/tables?maxResults=${PAGE}&pageToken=${encodeURIComponent(token)}`;
      const { tables, nextPageToken }: JsonObject = (await this.#client.get(path, signal)) ?? {};
      for (const table of Array.isArray(tables) ? tables : []) {
        const { type, tableReference } = objectIn(table);
        const { tableId } = objectIn(tableReference);
        if (type === 'TABLE' && typeof tableId === 'string' && !tableId.startsWith('_tributary_'))
          names.push(tableId);
      }
      token = nextPageToken;
    }
    return names;
  }

  /** Does what needs no column to be written anew; `anew` are the columns that do. */
  async #alterInPlace(
    change: TableChange,
    signal: AbortSignal,
  ): Promise<{ table: string; held: readonly HeldColumn[]; anew: TableChange['widen'] }> {
    const { table, add } = change;
    const before = await this.#describe(table, signal);
    if (before === undefined && (await this.#createTable(table, add, signal)))
      return { table, held: [], anew: new Map() };
    const described = before ?? (await this.#describe(table, signal)) ?? new Map();
    const of = this.#of(table);
    const { missing, narrow } = neededChanges(change, described);
    const there = new Map([...narrow].filter(([, { from, to }]) => isInPlace(from, to)));
    const anew = new Map([...narrow].filter(([column]) => !there.has(column)));
    const needed = new Map([...missing.keys(), ...there.keys()].map((column) => [column, column]));
    const held = await changeEach(table, needed, (some) =>
      refusalOf(this.#query(inPlace(of, only(missing, some), only(there, some)).join(';\n'), {}, signal)),
    );
    return { table, held, anew };
  }

  async #rebuild(table: string, columns: TableChange['widen'], signal: AbortSignal): Promise<void> {
    await this.#inTurn(signal, async () => {
      // Another loader may have widened them while this one waited.
      const narrow = await this.#narrow(table, columns, signal);
      if (narrow.size === 0) return;
      const script = rebuild(this.#of(table), this.#lock, narrow).join(';\n');
      const job = `tributary_rebuild_${idPart()}`;
      try {
        await this.#query(script, { job }, signal, job);
      } catch (error) {
        if (!(error instanceof BigqueryRefusal)) throw error;
        // The mark of a job that failed keeps loads away.
        await this.#endMark(signal);
        // Refused because another loader had widened them since they were described.
        if ((await this.#narrow(table, columns, signal)).size > 0) throw error;
      }
    });
  }

  /** Which of the columns are still to be widened. */
  async #narrow(table: string, widen: TableChange['widen'], signal: AbortSignal) {
    const described = (await this.#describe(table, signal)) ?? new Map();
    return neededChanges({ table, add: new Map(), widen }, described).narrow;
  }

  /** Loads the rows of a batch into a table of this attempt. */
  async #stage(stage: string, { inserts, profiles }: WarehouseBatch, signal: AbortSignal): Promise<number> {
    checkKeys(inserts);
    const ofProfiles =
      profiles === undefined ? [] : [profiles.users, profiles.identities, goneRows(profiles.gone)];
    const tables = [...inserts, ...ofProfiles];
    const { body, count } = await rowsFile(tables, signal, new PassThrough());
    if (count === 0) return 0;
    const endsAt = this.#clock() + STAGE_MS;
    // Of all columns that are read: the last ones may have no value in this batch.
    const width = Math.max(...tables.map(({ columns }) => columns.size));
    const resource = stageResource(this.#reference(stage), tables.length, width, endsAt);
    await this.#client.create(`datasets/${this.#dataset}/tables`, resource, signal);
    const job = `tributary_load_${idPart()}`;
    const loaded = await this.#client.load(job, `${this.#dataset}.${stage}`, body, signal);
    if (loaded !== count) throw new Unavailable(`BigQuery staged ${loaded} of ${count} rows`);
    return count;
  }

  async #commitStaged(
    stage: string,
    count: number,
    batch: WarehouseBatch,
    signal: AbortSignal,
  ): Promise<CommitResult> {
    const { lane, seq, batch: id, ranges, rows, loadedAt } = batch.ledger;
    const parameters = {
      destination: this.#destinationId,
      lane,
      seq: String(seq),
      batch: id,
      ranges: JSON.stringify(ranges),
      counts: JSON.stringify(rows),
      loaded_at: loadedAt,
    };
    const before = [...locking(this.#lock), ...checks(this.#ledger, stage, count)];
    const { inserts, profiles } = batch;
    const staging = {
      rows: (table: number) => `(select * from ${stage} where t = ${table})`,
      news: 'tributary_news',
      closing: 'tributary_closing',
    };
    const all = inserts.flatMap((table, index) => {
      if (table.count === 0) return [];
      const near = nearby(table, this.#matchDays);
      return [{ table: table.table, statement: insertStaged(this.#sql, staging, table, index, { near }) }];
    });
    const parts = chunksOf(all);
    const last = parts.pop() ?? [];
    const ofProfiles: string[] = [];
    if (profiles !== undefined) {
      const { users } = profiles;
      const load = { users, index: inserts.length, loadedAt };
      const { statements, isNews } = profileStatements(this.#sql, staging, load);
      ofProfiles.push(
        `create temp table ${staging.news} (ucid string)`,
        `create temp table ${staging.closing} (ucid string, id_type string, id_value string, changed_at string)`,
        ...statements,
      );
      const statement = insertStaged(this.#sql, staging, users, inserts.length, { which: isNews });
      if (users.count > 0) last.push({ table: USERS_TABLE, statement });
    }
    const scripts = [
      ...parts.map((part) => ({ part, own: before, after: [] })),
      {
        part: last,
        own: [...before, ...ofProfiles],
        after: writeLedger(this.#ledger, seq),
      },
    ];
    const inserted: Record<string, number> = {};
    try {
      for (const { part, own, after } of scripts) {
        const script = countingScript(
          own,
          part.map(({ statement }) => statement),
          after,
        );
        const counts = await this.#transaction(script, parameters, signal);
        if (counts === undefined) return { done: false };
        for (const [at, { table }] of part.entries()) inserted[table] = counts[at] ?? 0;
      }
    } catch (error) {
      if (error instanceof BigqueryRefusal) await this.#checkTypes(batch, signal);
      throw error;
    }
    return { done: true, inserted, refused: [] };
  }

  /** BigQuery converts no value to another type unasked, so a script that was planned for other columns is refused whole. */
  async #checkTypes(batch: WarehouseBatch, signal: AbortSignal): Promise<void> {
    const tables = plannedTables(batch).map(({ table }) => table);
    checkTypes(batch, await this.describe(tables, signal));
  }

  /** Runs a script with one transaction; undefined where the batch is loaded, else the rows that its statements counted. */
  async #transaction(
    script: string,
    parameters: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<readonly number[] | undefined> {
    try {
      const [row] = await this.#inTurn(signal, () => this.#query(script, parameters, signal));
      const counts = jsonIn(row?.[0] ?? '');
      if (!Array.isArray(counts)) throw new Unavailable('BigQuery did not count the rows of a load');
      return counts.map(Number);
    } catch (error) {
      if (!(error instanceof BigqueryRefusal)) throw error;
      if (error.message.includes(LOADED)) return undefined;
      if (error.message.includes(STAGED))
        throw new Unavailable('BigQuery lost staged rows', { cause: error });
      throw error;
    }
  }

  /** Repeats a script that was ended because of another one. */
  async #inTurn<T>(signal: AbortSignal, run: () => Promise<T>): Promise<T> {
    for (let n = 1; ; n++) {
      try {
        return await run();
      } catch (error) {
        if (!(error instanceof BigqueryRefusal)) throw error;
        const isRebuilding = error.message.includes(REBUILDING);
        if (!isRebuilding && !CONFLICT.test(error.message)) throw error;
        if (n === TURNS) throw new Unavailable('other loads change the same tables', { cause: error });
        if (isRebuilding) await this.#endMark(signal);
        await pause(TURN_MS * 2 ** Math.min(n - 1, 5) * (0.5 + Math.random()), signal);
      }
    }
  }

  /** Takes away the mark of a job that writes a table anew, where the job has ended. */
  async #endMark(signal: AbortSignal): Promise<void> {
    const [row] = await this.#query(
      `select rebuilding from ${this.#lock} where rebuilding is not null limit 1`,
      {},
      signal,
    );
    const job = row?.[0];
    if (typeof job !== 'string' || (await this.#client.isRunning(job, signal))) return;
    await this.#query(`update ${this.#lock} set rebuilding = null where rebuilding = @job`, { job }, signal);
  }

  async #drop(table: string, signal: AbortSignal): Promise<void> {
    await this.#client.delete(`datasets/${this.#dataset}/tables/${table}`, signal);
  }

  /** Does what a load does, with a table of its own. */
  async #try(signal: AbortSignal): Promise<void> {
    const isMade = await this.#openDataset(signal);
    const table = `_tributary_test_${idPart()}`;
    const resource = tableResource(this.#reference(table), table, new Map([['id', 'text']]));
    const expirationTime = String(this.#clock() + STAGE_MS);
    await this.#client.create(`datasets/${this.#dataset}/tables`, { ...resource, expirationTime }, signal);
    try {
      const insert = `insert into ${this.#of(table)} (id) select 'test'`;
      await this.#query(['begin transaction', insert, 'commit transaction'].join(';\n'), {}, signal);
    } finally {
      await this.#drop(table, signal);
      // One into which a load has put a table meanwhile stays: it is in use.
      if (isMade)
        await this.#client.delete(`datasets/${this.#dataset}`, signal).catch((error: unknown) => {
          if (!(error instanceof Unavailable)) throw error;
        });
    }
  }

  /** What BigQuery refused as the errors of the port. */
  async #told<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof BigqueryRefusal)) throw error;
      const isGone = isNotFound(error);
      // Somebody dropped one of the loader's own tables, or a table of the load.
      if (isGone) this.#isPrepared = false;
      throw isGone
        ? new Unavailable(error.message, { cause: error })
        : new WarehouseRefused(error.message, { cause: error });
    }
  }
}

/** Why BigQuery refused a change of columns; undefined where it made it. */
async function refusalOf(change: Promise<unknown>): Promise<string | undefined> {
  try {
    await change;
    return undefined;
  } catch (error) {
    if (error instanceof BigqueryRefusal && !isNotFound(error)) return error.message;
    throw error;
  }
}

function isNotFound(error: unknown): boolean {
  return error instanceof BigqueryRefusal && (error.reason === 'notFound' || error.status === 404);
}

const RECEIVED = 'received_at';
const EARLIEST = Date.parse('0001-01-01T00:00:00.000Z');
const LATEST = Date.parse('9999-12-31T23:59:59.999Z');

/** The condition on rows that may be the same as those of a load, by the times at which these were received; '' for all rows. */
function nearby({ columns, rows }: TableRows, days: number | undefined): string {
  const at = columns.get(RECEIVED) === 'timestamp' ? [...columns.keys()].indexOf(RECEIVED) : -1;
  if (days === undefined || at === -1) return '';
  let [first, last] = ['9999', '0'];
  for (const { [at]: received } of rows) {
    if (typeof received !== 'string') continue;
    if (received < first) first = received;
    if (received > last) last = received;
  }
  if (last === '0') return '';
  const from = new Date(Math.max(EARLIEST, Date.parse(first) - days * DAY_MS)).toISOString();
  const to = new Date(Math.min(LATEST, Date.parse(last) + days * DAY_MS)).toISOString();
  return ` and known.${RECEIVED} between timestamp '${from}' and timestamp '${to}'`;
}

/** Statements in the parts that one script may have. */
function chunksOf(statements: readonly TableStatement[]): TableStatement[][] {
  const chunks: TableStatement[][] = [];
  let length = 0;
  for (const one of statements) {
    const chunk = chunks.at(-1);
    length += one.statement.length;
    if (chunk !== undefined && chunk.length < MAX_CHANGED && length <= MAX_SCRIPT) chunk.push(one);
    else {
      chunks.push([one]);
      length = one.statement.length;
    }
  }
  return chunks;
}

function only<T>(
  columns: ReadonlyMap<string, T>,
  some: ReadonlyMap<string, unknown>,
): ReadonlyMap<string, T> {
  return new Map([...columns].filter(([column]) => some.has(column)));
}

/** Part of a name that no other has. */
function idPart(): string {
  return newId().replaceAll('-', '');
}
