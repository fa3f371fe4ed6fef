import { randomUUID } from 'node:crypto';
import { Unavailable, WarehouseRefused } from '@tributary/core';
import type { EgressGuard } from '../../egress/guard.ts';
import { ServerPool } from '../../postgres/pool.ts';
import { LEDGER } from '../ledger.ts';
import {
  asRefused,
  type Dialect,
  type MergingEngine,
  type RowsFile,
  type SqlSession,
  type Staging,
  StatementRefused,
} from '../merging/dialect.ts';
import { rowsFile } from '../merging/rows-file.ts';
import { failureOf, isChangedMeanwhile, isRefusal, refusalText } from '../postgresql/failures.ts';
import { VERSIONS } from '../tables.ts';
import { createOwnTables, literal, redshiftDialect } from './dialect.ts';
import { LIMITS, type RedshiftSettings } from './settings.ts';
import { StagedFiles } from './staged-files.ts';

/** A live load, a backfill and a deletion or test at a time. */
const MAX_CONNECTIONS = 4;
/** How long a load waits for another one, ms. */
const LOCK_MS = 120_000;

interface EngineOptions {
  readonly destinationId: string;
  readonly workspaceId: string;
  readonly schema: string;
  readonly timeoutMs: number;
}

/**
 * Redshift, by PostgreSQL's protocol. It has serializable transactions, also for changes of tables, whose snapshot begins with
 * the first statement behind the lock; no savepoints, so a statement that is refused costs its transaction.
 */
export class RedshiftEngine implements MergingEngine {
  readonly limits = LIMITS;
  readonly ownTables = [LEDGER, VERSIONS];
  readonly dialect: Dialect;
  readonly #pool: ServerPool;
  readonly #files: StagedFiles;
  readonly #settings: RedshiftSettings;
  readonly #schema: string;

  constructor(egress: EgressGuard, settings: RedshiftSettings, options: EngineOptions) {
    const { destinationId, workspaceId, schema, timeoutMs } = options;
    this.#pool = new ServerPool(egress, settings, {
      timeoutMs,
      workspaceId,
      max: MAX_CONNECTIONS,
      hasRows: true,
    });
    this.#files = new StagedFiles(egress, settings, destinationId);
    this.#settings = settings;
    this.#schema = schema;
    this.dialect = redshiftDialect(schema);
  }

  async use<T>(signal: AbortSignal, work: (session: SqlSession) => Promise<T>): Promise<T> {
    try {
      // Any error that leaves `work` is none of the server, so the connection ends with it, and the server rolls back.
      return await this.#pool.use(
        (client) =>
          work({
            run: async (text, values = []) => {
              try {
                const query = { text, values: [...values], rowMode: 'array' as const, types: TEXTS };
                const { rows, rowCount } = await client.query<(string | null)[]>(query);
                return { rows, count: rowCount ?? 0 };
              } catch (error) {
                throw this.#failureOf(error, signal);
              }
            },
          }),
        signal,
      );
    } catch (error) {
      throw this.#failureOf(error, signal);
    }
  }

  async begin(session: SqlSession): Promise<void> {
    await session.run('begin');
    await session.run(`set statement_timeout to ${LOCK_MS}`);
    await session.run(`lock table ${this.dialect.table(VERSIONS)}`);
    await session.run('set statement_timeout to 0');
  }

  change<T>(signal: AbortSignal, work: (session: SqlSession) => Promise<T>): Promise<T> {
    return this.use(signal, async (session) => {
      await this.begin(session);
      const result = await work(session);
      await session.run('commit');
      return result;
    });
  }

  makeOwnTables(signal: AbortSignal): Promise<void> {
    return asRefused(
      this.use(signal, async (session) => {
        await session.run('begin');
        await this.#makeOwnTables(session);
        await session.run('commit');
      }),
    );
  }

  async stage(session: SqlSession, file: RowsFile, batch: string, signal: AbortSignal): Promise<Staging> {
    const manifest = await this.#files.upload(file, batch, signal);
    // A name of its own, as the session may have the tables of another load.
    const name = `_tributary_${randomUUID().replaceAll('-', '')}`;
    const [rows, news, closing] = ['rows', 'news', 'closing'].map((part) => `${name}_${part}`);
    const columns = Array.from(
      file.widths,
      (width = 1, at) => `c${at} varchar(${Math.min(65_535, Math.max(1, width))})`,
    );
    await session.run(
      `create temporary table ${rows} (${['t integer', 'n integer', ...columns].join(', ')})`,
    );
    await session.run(`create temporary table ${news} (ucid varchar(65535))`);
    await session.run(
      `create temporary table ${closing} (ucid varchar(65535), id_type varchar(65535), id_value varchar(65535), changed_at varchar(64))`,
    );
    await this.#copy(session, `${rows}`, manifest);
    const { rows: counts } = await session.run(`select count(*) from ${rows}`);
    if (Number(counts[0]?.[0]) !== file.count)
      throw new Unavailable(`Redshift took ${counts[0]?.[0]} of ${file.count} rows from the bucket`);
    const relation = (table: number, width: number) => {
      const list = Array.from({ length: width }, (_, at) =>
        at < columns.length ? `c${at}` : `cast(null as varchar(1)) as c${at}`,
      );
      return `(select ${['n', ...list].join(', ')} from ${rows} where t = ${table})`;
    };
    const drop = [rows, news, closing].map((table) => `drop table ${table}`);
    return { rows: relation, news: `${news}`, closing: `${closing}`, drop };
  }

  unstage(batch: string, signal: AbortSignal): Promise<void> {
    return this.#files.remove(batch, signal);
  }

  async test(signal: AbortSignal): Promise<void> {
    const row = { table: '', columns: new Map(), count: 1, rows: [['it works']] };
    const file = await rowsFile([row], signal);
    await asRefused(
      this.use(signal, async (session) => {
        await session.run('begin');
        await this.#makeOwnTables(session);
        const table = this.dialect.table('_tributary_test');
        await session.run(`create table ${table} (id ${this.dialect.columnType('id', 'text')})`);
        await this.stage(session, file, 'connection-test', signal);
        await session.run('rollback');
      }),
    );
    await this.#files.removeNow('connection-test', signal);
  }

  async close(): Promise<void> {
    await Promise.all([this.#pool.close(), this.#files.close()]);
  }

  /** Makes the schema and the loader's own tables where they are missing. The right to make them is needed only then. */
  async #makeOwnTables(session: SqlSession): Promise<void> {
    const { rows } = await session.run('select 1 from pg_catalog.pg_namespace where nspname = $1', [
      this.#schema,
    ]);
    if (rows.length === 0) await session.run(`create schema ${this.dialect.quoted(this.#schema)}`);
    for (const statement of createOwnTables(this.dialect)) await session.run(statement);
  }

  async #copy(session: SqlSession, table: string, manifest: string): Promise<void> {
    const { iam_role: role, access_key_id, secret_access_key, region, bucket } = this.#settings;
    const rights =
      role === undefined
        ? `access_key_id ${literal(access_key_id)} secret_access_key ${literal(secret_access_key)}`
        : `iam_role ${role === 'default' ? role : literal(role)}`;
    try {
      await session.run(
        `copy ${table} from ${literal(`s3://${bucket}/${manifest}`)} ${rights} region ${literal(region)}
         manifest gzip format as json 'auto' compupdate off statupdate off`,
      );
    } catch (error) {
      if (!(error instanceof StatementRefused)) throw error;
      const reason = `Redshift does not read the bucket: ${error.message}`;
      if (/SlowDown|Throttl|InternalError|ServiceUnavailable|timed? ?out|NoSuchKey|Status 404/i.test(reason))
        throw new Unavailable(reason, { cause: error });
      throw new WarehouseRefused(reason, { cause: error });
    }
  }

  #failureOf(error: unknown, signal: AbortSignal): unknown {
    if (
      error instanceof StatementRefused ||
      error instanceof Unavailable ||
      error instanceof WarehouseRefused
    )
      return error;
    if (signal.aborted) return new Unavailable('stopped', { cause: error });
    // Redshift has one SQLSTATE for most of what it refuses, and for transactions that cannot be serialized.
    const isTransient = isChangedMeanwhile(error) || /serializable isolation/i.test(messageIn(error));
    return isRefusal(error) && !isTransient
      ? new StatementRefused(this.#masked(refusalText(error)))
      : failureOf(error, this.#pool.lastFailure);
  }

  /** Some errors repeat the statement. */
  #masked(text: string): string {
    const { secret_access_key, password } = this.#settings;
    return [secret_access_key, password].reduce((rest, secret) => rest.replaceAll(secret, '***'), text);
  }
}

/** All values as texts. */
const TEXTS = { getTypeParser: () => (text: string) => text };

function messageIn(error: unknown): string {
  return error instanceof Error ? error.message : '';
}
