import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import {
  type ClickHouseClient,
  ClickHouseError,
  ClickHouseLogLevel,
  createClient,
  drainStream,
} from '@clickhouse/client';
import { Unavailable, WarehouseRefused } from '@tributary/core';
import { guardedAgents } from '../../egress/agents.ts';
import { Connections } from '../../egress/connections.ts';
import type { EgressGuard } from '../../egress/guard.ts';
import { classifyNetworkFailure } from '../../failures.ts';
import type { ClickHouseSettings } from './settings.ts';
import type { ResultRow } from './sql.ts';

/** A live load, a backfill and a deletion or test at a time, each with the sign of life of its claim. */
const MAX_SOCKETS = 8;
/** Hundreds of tables with hundreds of columns are described for each of the loads of a minute. */
const MAX_BYTES_A_MINUTE = 256 * 1_024 * 1_024;
const MAX_RESPONSE_BYTES = 64 * 1_024 * 1_024;
/** Silence of the server, ms, after which a request is given up. It reports its progress more often. */
const SILENCE_MS = 120_000;
const PROGRESS_MS = 30_000;

/** Settings of all statements: what they do must not depend on the profile of the user. */
const SETTINGS = {
  // An answer means that the statement has been carried out.
  wait_end_of_query: 1,
  async_insert: 0,
  alter_sync: '2',
  // A block that equals an earlier one is no repetition: rows may have been deleted in between.
  insert_deduplicate: 0,
  // A row that is not read fails the statement.
  input_format_allow_errors_num: 0,
  input_format_allow_errors_ratio: 0,
  materialized_views_ignore_errors: 1,
  max_execution_time: 0,
  final: 0,
  transform_null_in: 0,
  join_use_nulls: 0,
  // Of several replicas the one that answers has all rows.
  select_sequential_consistency: '1',
  send_progress_in_http_headers: 1,
  http_headers_progress_interval_ms: String(PROGRESS_MS),
} as const;

/** Values of a statement, by the names of its placeholders. */
export type Values = Readonly<Record<string, string | readonly string[]>>;

/**
 * One ClickHouse server over HTTP, through the egress guard. Its methods reject with `ClickHouseError` where the server refuses a
 * statement, and with `Unavailable` where the outcome is unknown.
 */
export class ClickHouseServer {
  readonly #connections: Connections;
  readonly #client: ClickHouseClient;
  #settings: Readonly<Record<string, string | number>> = SETTINGS;

  constructor(egress: EgressGuard, { host, port, tls, ca, username, password }: ClickHouseSettings) {
    this.#connections = new Connections(egress, MAX_BYTES_A_MINUTE);
    const { httpAgent, httpsAgent } = guardedAgents(this.#connections, {
      maxSockets: MAX_SOCKETS,
      maxResponseBytes: MAX_RESPONSE_BYTES,
      ca,
    });
    const name = host.includes(':') ? `[${host}]` : host;
    this.#client = createClient({
      url: `${tls ? 'https' : 'http'}://${name}:${port}`,
      http_agent: tls ? httpsAgent : httpAgent,
      username,
      password: password ?? '',
      application: 'tributary',
      request_timeout: SILENCE_MS,
      // Described tables are a few hundred KiB: not worth the time of both.
      compression: { request: false, response: false },
      log: { level: ClickHouseLogLevel.OFF },
    });
  }

  /** Settings of all further statements. */
  addSettings(settings: Readonly<Record<string, string | number>>): void {
    this.#settings = { ...this.#settings, ...settings };
  }

  rows(query: string, signal: AbortSignal, values: Values = {}): Promise<readonly ResultRow[]> {
    return this.#call(signal, async (options) => {
      const result = await this.#client.query({
        query,
        query_params: { ...values },
        format: 'JSONEachRow',
        ...options,
      });
      return result.json<ResultRow>();
    });
  }

  /** The answer to a statement that takes no format. */
  text(statement: string, signal: AbortSignal): Promise<string> {
    return this.#call(signal, async (options) => {
      const { stream } = await this.#client.exec({ query: statement, ...options });
      return text(stream);
    });
  }

  async run(statement: string, signal: AbortSignal, values: Values = {}): Promise<void> {
    await this.#call(signal, (options) =>
      this.#client.command({ query: statement, query_params: { ...values }, ...options }),
    );
  }

  /** Inserts lines of JSON lists. `columns`: those of the table that a list has. */
  async insert(
    table: string,
    columns: readonly string[],
    lines: AsyncIterable<string>,
    signal: AbortSignal,
  ): Promise<void> {
    let failure: unknown;
    async function* sent() {
      try {
        yield* lines;
      } catch (error) {
        // Of ours: the client would tell it as one of the connection.
        failure = error;
        throw error;
      }
    }
    const values = Readable.from(sent(), { objectMode: false });
    try {
      await this.#call(signal, async (options) => {
        const query = `insert into ${table} (${columns.join(', ')}) format JSONCompactEachRow`;
        const { stream } = await this.#client.exec({ query, values, ...options });
        await drainStream(stream);
      });
    } catch (error) {
      throw failure ?? error;
    } finally {
      values.destroy();
    }
  }

  async close(): Promise<void> {
    await this.#client.close();
    this.#connections.end();
  }

  async #call<T>(signal: AbortSignal, call: (options: CallOptions) => Promise<T>): Promise<T> {
    if (signal.aborted) throw new Unavailable('stopped');
    try {
      return await call({ abort_signal: signal, clickhouse_settings: this.#settings });
    } catch (error) {
      if (error instanceof ClickHouseError) throw error;
      if (signal.aborted) throw new Unavailable('stopped', { cause: error });
      const { lastFailure } = this.#connections;
      const result = classifyNetworkFailure(error) ?? (lastFailure && classifyNetworkFailure(lastFailure));
      const options = { cause: error };
      if (result?.outcome === 'dead') throw new WarehouseRefused(result.reason, options);
      if (result?.outcome === 'retry') throw new Unavailable(result.reason, options);
      // The client has no codes for what is left: silence, and an answer that no ClickHouse gives.
      throw new Unavailable('no answer of a ClickHouse server', options);
    }
  }
}

interface CallOptions {
  readonly abort_signal: AbortSignal;
  readonly clickhouse_settings: Readonly<Record<string, string | number>>;
}

/** Codes of refusals that a person must end. */
const REFUSED: ReadonlyMap<string, string> = new Map([
  ['516', 'not authenticated'],
  ['192', 'not authenticated'],
  ['193', 'not authenticated'],
  ['194', 'not authenticated'],
  ['195', 'signing in is not allowed from here'],
  ['497', 'a right is missing'],
  ['291', 'a right is missing'],
  ['164', 'the user may only read'],
  ['452', 'the profile of the user forbids a setting'],
  ['115', 'the server is older than 24.3'],
  ['57', 'something that is no table of a loader has its name'],
]);

/** Codes of tables that a person or another loader changed meanwhile: the next attempt describes them again. */
const CHANGED_MEANWHILE: ReadonlySet<string> = new Set(['60', '81', '218', '16', '47', '15', '10', '517']);

/** Codes of the server as such: files, memory, time, queries, parts, network, replicas, Keeper, disks. */
const ABOUT_THE_SERVER: ReadonlySet<string> = new Set(
  '74 75 76 158 159 160 201 202 203 209 210 225 236 241 242 243 252 279 285 286 289 290 319 341 373 394 425 439 473 499 999 1000 1001'.split(
    ' ',
  ),
);

/**
 * Codes of a constraint that is violated, and of a default or constraint that cannot be computed for a row: numbers and texts
 * that cannot be parsed or converted, a division by zero, `throwIf`. With any other code the load is repeated.
 */
const ABOUT_ROWS: ReadonlySet<string> = new Set(
  '6 26 27 36 38 41 43 53 69 70 72 128 131 153 349 395 407 467 469'.split(' '),
);

export const TABLE_EXISTS = '57';
export const UNKNOWN_TABLE = '60';
/** A right that is missing, and a column that an index or a constraint names. */
const MAY_HOLD: ReadonlySet<string> = new Set(['497', '47']);

export function codeOf(error: unknown): string | undefined {
  return error instanceof ClickHouseError ? error.code : undefined;
}

/** Whether single rows may be the cause of a refusal. */
export function mayConcernRows(error: unknown): error is ClickHouseError {
  return error instanceof ClickHouseError && ABOUT_ROWS.has(error.code);
}

/** Whether something that a person built on a column, or a right, may be the cause of a refusal to change it. */
export function mayConcernColumns(error: unknown): error is ClickHouseError {
  if (!(error instanceof ClickHouseError)) return false;
  const { code } = error;
  if (MAY_HOLD.has(code)) return true;
  return !REFUSED.has(code) && !CHANGED_MEANWHILE.has(code) && !ABOUT_THE_SERVER.has(code);
}

const REASON_LENGTH = 300;

/** What the server says of a row, a column or a right. */
export function refusalText({ message, type, code }: ClickHouseError): string {
  return `${message.slice(0, REASON_LENGTH).trim().toWellFormed()} (${type ?? code})`;
}

/** The error of a load for one of the server. */
export function failureOf(error: unknown): unknown {
  if (!(error instanceof ClickHouseError)) return error;
  const { code, type = code } = error;
  const options = { cause: error };
  const refused = REFUSED.get(code);
  if (refused === 'not authenticated') return new WarehouseRefused(`${refused} (${type})`, options);
  if (refused !== undefined) return new WarehouseRefused(`${refused}: ${refusalText(error)}`, options);
  if (CHANGED_MEANWHILE.has(code))
    return new Unavailable(`the tables were changed during the load (${type})`, options);
  return new Unavailable(`the server answered ${type} (${code})`, options);
}
