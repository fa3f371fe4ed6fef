import { randomUUID } from 'node:crypto';
import { mapConcurrently, Unavailable, WarehouseRefused } from '@tributary/core';
import type { PoolClient } from 'pg';
import type { EgressGuard } from '../../egress/guard.ts';
import type { ConnectorContext } from '../../kind.ts';
import { type BucketClient, openBucketClient } from '../../s3/client.ts';
import { classifyS3Failure } from '../../s3/connector.ts';
import type { BucketSettings } from '../../s3/settings.ts';
import type { LoadedDestination, Open } from '../kind.ts';
import {
  type Dialect,
  type MergingEngine,
  type RowsFile,
  type SqlSession,
  type Staging,
  StatementRefused,
} from '../merging/dialect.ts';
import { MAX_UNREMOVED, MergingWarehouse } from '../merging/warehouse.ts';
import { PostgresqlServer } from '../postgresql/server.ts';
import { isChangedMeanwhile, isRefusal, refusalText } from '../postgresql/sql.ts';
import { failedCall, LEDGER, VERSIONS } from '../tables.ts';
import type { RedshiftSettings } from './settings.ts';
import { createOwnTables, literal, redshiftDialect } from './sql.ts';

/** How long a load waits for another one, ms. */
const LOCK_MS = 120_000;

export const open: Open<RedshiftSettings> = (...args) =>
  new MergingWarehouse(new RedshiftEngine(...args), args[2].id);

/**
 * Redshift, by PostgreSQL's protocol. It has serializable transactions, also for changes of tables, whose snapshot begins with
 * the first statement behind the lock; no savepoints, so a statement that is refused costs its transaction.
 */
class RedshiftEngine implements MergingEngine {
  readonly ownTables = [LEDGER, VERSIONS];
  readonly dialect: Dialect;
  readonly #server: PostgresqlServer;
  readonly #files: StagedFiles;
  readonly #settings: RedshiftSettings;
  readonly #schema: string;

  constructor(context: ConnectorContext, settings: RedshiftSettings, destination: LoadedDestination) {
    const { id, workspaceId, place } = destination;
    this.#server = new PostgresqlServer(context, settings, workspaceId);
    this.#files = new StagedFiles(context.egress, settings, id);
    this.#settings = settings;
    this.#schema = place;
    this.dialect = redshiftDialect(place);
  }

  use<T>(signal: AbortSignal, work: (session: SqlSession) => Promise<T>): Promise<T> {
    const run =
      (client: PoolClient) =>
      async (text: string, values: readonly string[] = []) => {
        try {
          const query = { text, values: [...values], rowMode: 'array' as const, types: TEXTS };
          const { rows, rowCount } = await client.query<(string | null)[]>(query);
          return { rows, count: rowCount ?? 0 };
        } catch (error) {
          throw this.#refusalOf(error) ?? this.#server.failureOf(error, signal);
        }
      };
    // Any error that leaves `work` is none of the server, so the connection ends with it, and the server rolls back.
    return this.#server.use(signal, (client) => work({ run: run(client) }));
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
    return this.use(signal, async (session) => {
      await session.run('begin');
      await this.#makeOwnTables(session);
      await session.run('commit');
    });
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

  async test(file: RowsFile, signal: AbortSignal): Promise<void> {
    await this.use(signal, async (session) => {
      await session.run('begin');
      await this.#makeOwnTables(session);
      await session.run(
        `create table ${this.dialect.table('_tributary_test')} (id ${this.dialect.types.text})`,
      );
      await this.stage(session, file, 'connection-test', signal);
      await session.run('rollback');
    });
    await this.unstage('connection-test', signal);
  }

  async close(): Promise<void> {
    await Promise.all([this.#server.close(), this.#files.close()]);
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

  #refusalOf(error: unknown): StatementRefused | undefined {
    if (!isRefusal(error) || isChangedMeanwhile(error)) return undefined;
    // Redshift has one SQLSTATE for most of what it refuses, and for transactions that cannot be serialized.
    if (/serializable isolation/i.test(error.message)) return undefined;
    // Some errors repeat the statement.
    const { secret_access_key, password } = this.#settings;
    const masked = (text: string, secret: string) => text.replaceAll(secret, '***');
    return new StatementRefused([secret_access_key, password].reduce(masked, refusalText(error)));
  }
}

/** All values as texts. */
const TEXTS = { getTypeParser: () => (text: string) => text };

/** One file is put or removed within this time, ms. */
const CALL_MS = 60_000;
/** Files that are removed at a time. */
const AT_ONCE = 8;

/** The files of loads in a bucket. Each attempt has a path of its own, so that none reads the files of another. */
class StagedFiles {
  readonly #client: BucketClient;
  readonly #settings: BucketSettings;
  readonly #destinationId: string;
  /** Keys by batch. */
  readonly #staged = new Map<string, string[]>();

  constructor(egress: EgressGuard, settings: BucketSettings, destinationId: string) {
    this.#client = openBucketClient(egress, settings);
    this.#settings = settings;
    this.#destinationId = destinationId;
  }

  /** Resolves with the key of the manifest of a file. */
  async upload({ body }: RowsFile, batch: string, signal: AbortSignal): Promise<string> {
    const { bucket, prefix } = this.#settings;
    const folder = `${prefix}/${this.#destinationId}/${batch}-${randomUUID()}`;
    const [rows, manifest] = [`${folder}/rows.json.gz`, `${folder}/manifest.json`];
    const [id = batch] = batch.split('/');
    this.#staged.set(id, [...(this.#staged.get(id) ?? []), rows, manifest]);
    const [oldest] = this.#staged.keys();
    if (this.#staged.size > 2 * MAX_UNREMOVED && oldest !== undefined) this.#staged.delete(oldest);
    const entries = [{ url: `s3://${bucket}/${rows}`, mandatory: true }];
    await this.#call(signal, (until) => this.#client.put(rows, body, until));
    await this.#call(signal, (until) =>
      this.#client.put(manifest, Buffer.from(JSON.stringify({ entries })), until),
    );
    return manifest;
  }

  /** Removes the files of a batch; rejects where one cannot be removed. */
  async remove(batch: string, signal: AbortSignal): Promise<void> {
    const keys = this.#staged.get(batch) ?? [];
    await mapConcurrently(keys, AT_ONCE, (key) =>
      this.#call(signal, (until) => this.#client.delete(key, until)),
    );
    this.#staged.delete(batch);
  }

  async close(): Promise<void> {
    await this.#client.close();
  }

  async #call(signal: AbortSignal, call: (until: AbortSignal) => Promise<void>): Promise<void> {
    const timeout = AbortSignal.timeout(CALL_MS);
    try {
      await call(AbortSignal.any([signal, timeout]));
    } catch (error) {
      if (signal.aborted) throw new Unavailable('stopped', { cause: error });
      if (timeout.aborted) throw new Unavailable('the bucket: timed out', { cause: error });
      throw failedCall(classifyS3Failure(error, this.#client.lastFailure, Date.now()), error, 'the bucket: ');
    }
  }
}
