import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Unavailable } from '@tributary/core';
import { type ClickHouseServer, codeOf, TABLE_EXISTS, UNKNOWN_TABLE } from './server.ts';
import { type DatabaseSql, literal, type Staged } from './sql.ts';

/** The name that the staging of the one attempt has whose turn it is. */
const CLAIM = '_tributary_claim';
const STAGING = '_tributary_stage_';
/** A staging that a crash left is dropped after this long: no upload takes it. */
const ORPHAN_MS = 3_600_000;
/** How often an attempt gives a sign of life, and how long without one it is taken for dead. */
const BEAT_MS = 5_000;
const DEAD_SECONDS = 20;
/** How often an attempt looks whether the claim is free. */
const POLL_MS = 50;
/** How long the end of an attempt waits for its tables to be dropped. */
const RELEASE_MS = 2_000;

/** A staged row: its label, its number, its values. */
export type StagedRow = readonly [label: string, n: number, values: readonly (string | null)[]];

/**
 * Mutual exclusion of the attempts that change a database, for which ClickHouse has no lock. An attempt stages its rows in a table
 * of its own and renames it to `_tributary_claim`, which only succeeds while no table has that name. All statements that write
 * rows read them from there. So whoever drops the claim of another attempt has ended it for good: `drop ... sync` returns once no
 * statement uses the table any more, and further ones find none, or no rows of their attempt.
 *
 * A claim is dropped by its own attempt in the end, by a further attempt of the same process, or by any other one when there was
 * no sign of life for 20 s. An attempt that was slow and not dead fails, as when the server is down, and is repeated.
 */
export class Claims {
  readonly #server: ClickHouseServer;
  readonly #sql: DatabaseSql;
  /** Attempts of this process that have ended; the server may still have the claim of one. */
  readonly #ended = new Set<string>();

  constructor(server: ClickHouseServer, sql: DatabaseSql) {
    this.#server = server;
    this.#sql = sql;
  }

  /** Stages rows, waits for the claim, does the work, and gives the claim back. */
  async hold<T>(
    lines: (attempt: string) => AsyncIterable<string>,
    signal: AbortSignal,
    work: (staged: Staged) => Promise<T>,
  ): Promise<T> {
    const attempt = randomBytes(8).toString('hex');
    const stage = `${STAGING}${Date.now().toString(36)}_${attempt}`;
    const claim = this.#sql.table(CLAIM);
    let beating: NodeJS.Timeout | undefined;
    try {
      await this.#server.run(this.#sql.createStage(stage, attempt), signal);
      await this.stage(this.#sql.table(stage), attempt, lines(attempt), signal);
      await this.#take(stage, attempt, signal);
      beating = setInterval(() => void this.#beat(claim, attempt), BEAT_MS);
      return await work({ claim, attempt });
    } finally {
      clearInterval(beating);
      this.#ended.add(attempt);
      await this.#release(stage, attempt);
    }
  }

  /** Adds rows to a staging. */
  stage(table: string, attempt: string, lines: AsyncIterable<string>, signal: AbortSignal): Promise<void> {
    async function* all() {
      // A staging without rows would be of nobody.
      yield lineOf(attempt, ['', 0, []]);
      yield* lines;
    }
    return this.#server.insert(table, ['attempt', 't', 'n', 'v'], all(), signal);
  }

  /** Drops stagings that crashes left. */
  async sweep(tables: readonly string[], signal: AbortSignal): Promise<void> {
    for (const table of tables) {
      if (!table.startsWith(STAGING)) continue;
      const at = Number.parseInt(table.slice(STAGING.length), 36);
      if (!(Date.now() - at < ORPHAN_MS))
        await this.#server.run(`drop table if exists ${this.#sql.table(table)} sync`, signal);
    }
  }

  async #take(stage: string, attempt: string, signal: AbortSignal): Promise<void> {
    const claim = this.#sql.table(CLAIM);
    for (;;) {
      try {
        await this.#server.run(`rename table ${this.#sql.table(stage)} to ${claim}`, signal);
        this.#ended.clear();
        return;
      } catch (error) {
        if (codeOf(error) !== TABLE_EXISTS) throw error;
      }
      const holder = await this.#holder(signal);
      if (holder === undefined) continue;
      if (this.#ended.has(holder.attempt) || holder.silent > DEAD_SECONDS) {
        await this.#server.run(`drop table if exists ${claim} sync`, signal);
        continue;
      }
      await sleep(POLL_MS, undefined, { signal }).catch(() => {
        throw new Unavailable(`stopped while the attempt ${attempt} waited for its turn`);
      });
    }
  }

  /** The attempt that has the claim, and the seconds since its last sign of life; undefined where there is none. */
  async #holder(
    signal: AbortSignal,
  ): Promise<{ readonly attempt: string; readonly silent: number } | undefined> {
    // The first row is of the attempt that has the claim: one that lost it may give a sign of life once more.
    const query = `select argMin(attempt, at) as attempt, dateDiff('second', max(at), now64(3)) as silent
      from ${this.#sql.table(CLAIM)}`;
    try {
      const [row] = await this.#server.rows(query, signal);
      return { attempt: String(row?.attempt), silent: Number(row?.silent) };
    } catch (error) {
      if (codeOf(error) === UNKNOWN_TABLE) return undefined;
      throw error;
    }
  }

  /** Without one the attempt is taken for dead in the end: nothing else depends on it. */
  async #beat(claim: string, attempt: string): Promise<void> {
    const signal = AbortSignal.timeout(BEAT_MS);
    const statement = `insert into ${claim} (attempt, t, n, v) select ${literal(attempt)}, '', 0, []`;
    await this.#server.run(statement, signal).catch(() => undefined);
  }

  /**
   * Drops the staging or the claim of an attempt that has ended. Where that fails, the next attempt of this process drops the claim,
   * or that of another one after a while.
   */
  async #release(stage: string, attempt: string): Promise<void> {
    const signal = AbortSignal.timeout(RELEASE_MS);
    try {
      const holder = await this.#holder(signal);
      const name = holder?.attempt === attempt ? CLAIM : stage;
      await this.#server.run(`drop table if exists ${this.#sql.table(name)} sync`, signal);
      this.#ended.delete(attempt);
    } catch {
      // Said above.
    }
  }
}

/** A row as the server reads it. */
export function lineOf(attempt: string, [label, n, values]: StagedRow): string {
  return `["${attempt}","${label}",${n},${JSON.stringify(values)}]\n`;
}
