import {
  type ColumnType,
  type ColumnValue,
  EventLoopYielder,
  IDENTITY_MAP_TABLE,
  type RefusedRow,
  type TableRows,
  USERS_TABLE,
  type WarehouseBatch,
  WarehouseRefused,
} from '@tributary/core';
import { LEDGER } from '../ledger.ts';
import { keyOf } from '../tables.ts';
import { type Claims, lineOf } from './claim.ts';
import { type ClickHouseServer, mayConcernRows, refusalText } from './server.ts';
import {
  type DatabaseSql,
  deletedProfiles,
  IS_ROW,
  insertGone,
  insertIdentities,
  insertLedger,
  insertRows,
  insertUsers,
  LEDGER_ROW,
  literal,
  type Mutation,
  type Part,
  PROFILES,
  type Staged,
  type StagedProfile,
} from './sql.ts';

/** Characters of a chunk that is sent. */
const CHUNK = 64 * 1_024;
/** Tables that are inserted into at a time: most of a statement's time is its way and the disk. */
const AT_ONCE = 4;
/** The label of discards of rows that were refused after the others were staged. */
const REFUSED = '#refused';

/** Lines of staged rows, in chunks. */
async function* chunked(lines: Iterable<string>): AsyncGenerator<string> {
  const yielder = new EventLoopYielder(() => performance.now());
  let chunk = '';
  for (const line of lines) {
    chunk += line;
    if (chunk.length < CHUNK) continue;
    yield chunk;
    chunk = '';
    if (yielder.isYieldDue) await yielder.yield();
  }
  if (chunk !== '') yield chunk;
}

/** A value as the server reads it from a text. */
function textOf(value: ColumnValue, type: ColumnType): string | null {
  if (typeof value === 'boolean') return String(value);
  if (value === null || type !== 'timestamp') return value;
  // Servers before 25.6 read no other form in a cast.
  return value.slice(0, -1).replace('T', ' ');
}

function* linesOf(attempt: string, label: string, { columns, rows }: TableRows): Generator<string> {
  const types = [...columns.values()];
  let n = 0;
  for (const row of rows) {
    const values = row.map((value, at) => textOf(value, types[at] ?? 'text'));
    yield lineOf(attempt, [label, n, values]);
    n += 1;
  }
}

/** The profiles of a batch, with the time of their change. One without identities has none of its own: it has that of the load. */
function* profilesOf({ profiles, ledger }: WarehouseBatch): Generator<StagedProfile> {
  if (profiles === undefined) return;
  const { users, identities, gone } = profiles;
  const changed = new Map<string, string>();
  for (const [ucid, , , at] of identities.rows) {
    const known = changed.get(String(ucid));
    if (known === undefined || String(at) < known) changed.set(String(ucid), String(at));
  }
  const names = [...users.columns.keys()];
  const [ucidAt, versionAt] = [names.indexOf('ucid'), names.indexOf('version')];
  for (const row of users.rows) {
    const ucid = String(row[ucidAt]);
    yield [ucid, String(row[versionAt]), changed.get(ucid) ?? ledger.loadedAt, 'false', 'false'];
  }
  for (const { ucid, version, at, isDeleted } of gone)
    yield [ucid, String(version), at, isDeleted ? 'true' : 'false', 'true'];
}

/** All that is staged of a batch. */
export function stagedBatch(
  attempt: string,
  batch: WarehouseBatch,
  destinationId: string,
): AsyncIterable<string> {
  function* lines() {
    const { ledger, inserts, profiles } = batch;
    const { lane, seq, batch: id, ranges, rows, loadedAt } = ledger;
    const values = [
      destinationId,
      lane,
      String(seq),
      id,
      JSON.stringify(ranges),
      JSON.stringify(rows),
      textOf(loadedAt, 'timestamp'),
    ];
    yield lineOf(attempt, [LEDGER_ROW, 0, values]);
    for (const rows of inserts) yield* linesOf(attempt, rows.table, rows);
    if (profiles === undefined) return;
    yield* linesOf(attempt, USERS_TABLE, profiles.users);
    yield* linesOf(attempt, IDENTITY_MAP_TABLE, profiles.identities);
    let n = 0;
    for (const [ucid, version, at, ...flags] of profilesOf(batch)) {
      yield lineOf(attempt, [PROFILES, n, [ucid, version, textOf(at, 'timestamp'), ...flags]]);
      n += 1;
    }
  }
  return chunked(lines());
}

/** Loads the staged rows of one batch, under its claim. Each step may be repeated after any of the others. */
export class BatchLoader {
  readonly refused: RefusedRow[] = [];
  readonly #server: ClickHouseServer;
  readonly #sql: DatabaseSql;
  readonly #claims: Claims;
  readonly #staged: Staged;
  readonly #signal: AbortSignal;
  readonly #mutate: (table: string, mutation: Mutation) => Promise<void>;

  constructor(
    server: ClickHouseServer,
    sql: DatabaseSql,
    claims: Claims,
    {
      staged,
      signal,
      mutate,
    }: {
      readonly staged: Staged;
      readonly signal: AbortSignal;
      mutate(table: string, mutation: Mutation): Promise<void>;
    },
  ) {
    this.#server = server;
    this.#sql = sql;
    this.#claims = claims;
    this.#staged = staged;
    this.#signal = signal;
    this.#mutate = mutate;
  }

  /** The row of the ledger comes last: until then the batch is loaded again. */
  async load(batch: WarehouseBatch): Promise<void> {
    await this.#insertAll(batch.inserts);
    if (batch.profiles !== undefined) await this.#applyProfiles(batch.profiles.users);
    if (this.refused.length > 0) {
      const discards = batch.discardsOf([...this.refused]);
      const { claim, attempt } = this.#staged;
      const lines = chunked(linesOf(attempt, REFUSED, discards));
      await this.#claims.stage(claim, attempt, lines, this.#signal);
      await this.#insert(discards, REFUSED);
    }
    await this.#run(insertLedger(this.#sql.table(LEDGER), this.#staged));
  }

  /** Inserts the rows of all tables, some tables at a time. All statements have ended when it rejects. */
  async #insertAll(inserts: readonly TableRows[]): Promise<void> {
    const left = [...inserts];
    const work = async () => {
      for (let rows = left.shift(); rows !== undefined; rows = left.shift())
        await this.#insert(rows, rows.table).catch((error: unknown) => {
          left.length = 0;
          throw error;
        });
    };
    const ended = await Promise.allSettled(Array.from({ length: AT_ONCE }, work));
    for (const result of ended) if (result.status === 'rejected') throw result.reason;
  }

  async #insert({ table, columns, count }: TableRows, label: string): Promise<void> {
    if (count === 0) return;
    if (keyOf(table, columns) === undefined)
      throw new WarehouseRefused(`the column "id" of the table "${table}" was changed by hand`);
    const names = [...columns.keys()];
    const source = { ...this.#staged, label };
    await this.#insertParts(table, count, (part) => insertRows(this.#sql.table(table), names, source, part));
  }

  /** See `ProfileRows`. The rows of `users` come last, because they tell which changes are new. */
  async #applyProfiles({ columns, count }: TableRows): Promise<void> {
    const users = this.#sql.stored(USERS_TABLE);
    const identities = this.#sql.stored(IDENTITY_MAP_TABLE);
    await this.#run(insertIdentities(identities, users, this.#staged));
    const deleted = await this.#server.rows(deletedProfiles(users, this.#staged), this.#signal);
    if (deleted.length > 0) {
      const isTheirs = `ucid in (${deleted.map(({ ucid }) => literal(String(ucid))).join(', ')})`;
      await this.#mutate(IDENTITY_MAP_TABLE, { change: `alter table ${identities} delete`, where: isTheirs });
      await this.#mutate(USERS_TABLE, {
        change: `alter table ${users} delete`,
        where: `${isTheirs} and ${IS_ROW}`,
      });
    }
    const names = [...columns.keys()];
    if (count > 0)
      await this.#insertParts(USERS_TABLE, count, (part) => insertUsers(users, names, this.#staged, part));
    await this.#run(insertGone(users, this.#staged));
  }

  /** Inserts rows; where the server refuses some, those alone are left out. */
  async #insertParts(
    table: string,
    count: number,
    statement: (part: Part) => string,
    part: Part = { from: 0, to: count },
  ): Promise<void> {
    const { from, to } = part;
    try {
      await this.#run(statement(part));
    } catch (refusal) {
      if (!mayConcernRows(refusal)) throw refusal;
      // Rejects where the table refuses any row.
      if (to - from === count) await this.#run(statement({ from: 0, to: 0 }));
      if (to - from === 1) {
        this.refused.push({ table, row: from, reason: refusalText(refusal) });
        return;
      }
      const middle = Math.ceil((from + to) / 2);
      await this.#insertParts(table, count, statement, { from, to: middle });
      await this.#insertParts(table, count, statement, { from: middle, to });
    }
  }

  #run(statement: string): Promise<void> {
    return this.#server.run(statement, this.#signal);
  }
}
