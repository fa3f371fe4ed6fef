import { randomUUID } from 'node:crypto';
import { type JsonObject, objectIn, Unavailable, WarehouseRefused } from '@tributary/core';
import type { ConnectorContext } from '../../kind.ts';
import { openBucketClient } from '../../s3/client.ts';
import { classifyS3Failure } from '../../s3/connector.ts';
import type { LoadedDestination, Open } from '../kind.ts';
import type { Dialect, MergingEngine, RowsFile, SqlSession, Staging } from '../merging/dialect.ts';
import { MergingWarehouse } from '../merging/warehouse.ts';
import { LEDGER, VERSIONS } from '../tables.ts';
import { type QueryResult, SnowflakeClient, type SnowflakeSession } from './client.ts';
import type { SnowflakeSettings } from './settings.ts';
import { createOwnTables, LOCK, quoted, snowflakeDialect } from './sql.ts';

/** Sessions that are kept for the next load. */
const MAX_IDLE = 2;
/** An older session is not used again, ms: its token ends after an hour. */
const MAX_AGE_MS = 30 * 60_000;
const FILE = 'rows.json.gz';
const STAGE = '_tributary_stage';
/** A session for the time of one call. */
interface EngineSession extends SqlSession {
  /** The result with the names of its columns. */
  query(statement: string, values?: readonly string[]): Promise<QueryResult>;
}

export const open: Open<SnowflakeSettings> = (...args) =>
  new MergingWarehouse(new SnowflakeEngine(...args), args[2].id);

/**
 * Snowflake. Each statement of a transaction sees what was committed before it; a change of a table commits the transaction
 * that it is part of, so all that a load needs is made before its transaction, and changes run in a second session while
 * the first one holds the lock.
 */
class SnowflakeEngine implements MergingEngine<EngineSession> {
  readonly ownTables = [LEDGER, VERSIONS, LOCK];
  readonly dialect: Dialect;
  readonly #client: SnowflakeClient;
  readonly #context: ConnectorContext;
  readonly #destinationId: string;
  readonly #database: string;
  readonly #schema: string;
  #idle: readonly SnowflakeSession[] = [];

  constructor(context: ConnectorContext, settings: SnowflakeSettings, { id, place }: LoadedDestination) {
    this.#client = new SnowflakeClient(context, settings);
    this.#context = context;
    this.#destinationId = id;
    this.#database = settings.database;
    this.#schema = place;
    this.dialect = snowflakeDialect(settings.database, place);
  }

  async use<T>(signal: AbortSignal, work: (session: EngineSession) => Promise<T>): Promise<T> {
    const session = await this.#session(signal);
    try {
      const query: EngineSession['query'] = (statement, values) => session.query(statement, signal, values);
      const run: EngineSession['run'] = async (statement, values) => {
        const { names, rows } = await query(statement, values);
        const isCount = names.length > 0 && names.every((name) => /^number of /i.test(name));
        return { rows, count: isCount ? Number(rows[0]?.[0] ?? 0) : 0 };
      };
      const result = await work({ query, run });
      await this.#keep(session);
      return result;
    } catch (error) {
      await session.end();
      throw error;
    }
  }

  async begin(session: SqlSession): Promise<void> {
    await session.run('begin');
    const { count } = await session.run(
      `update ${this.dialect.table(LOCK)} set ${quoted('locked_at')} = current_timestamp()`,
    );
    if (count === 0)
      throw new WarehouseRefused(`the row of ${LOCK} is gone: drop the table, it is made again`);
  }

  change<T>(signal: AbortSignal, work: (session: EngineSession) => Promise<T>): Promise<T> {
    return this.use(signal, async (holder) => {
      await this.begin(holder);
      const result = await this.use(signal, work);
      await holder.run('rollback');
      return result;
    });
  }

  makeOwnTables(signal: AbortSignal): Promise<void> {
    return this.use(signal, async (session) => {
      if (!(await this.#isIn(session, 'schemata where schema_name')))
        await session.run(`create schema if not exists ${this.#within}`);
      for (const statement of createOwnTables(this.dialect)) await session.run(statement);
      const lock = this.dialect.table(LOCK);
      await session.run(`insert into ${lock} (${quoted('locked_at')})
        select current_timestamp() from (select count(*) as n from ${lock}) known where known.n = 0`);
      await session.run(
        `create stage if not exists ${this.dialect.table(STAGE)} encryption = (type = 'SNOWFLAKE_SSE')`,
      );
    });
  }

  async stage(session: EngineSession, file: RowsFile, batch: string, signal: AbortSignal): Promise<Staging> {
    const [news, closing] = ['_tributary_news', '_tributary_closing'].map((name) => this.dialect.table(name));
    await session.run(`create or replace temporary table ${news} (ucid varchar)`);
    await session.run(
      `create or replace temporary table ${closing} (ucid varchar, id_type varchar, id_value varchar, changed_at varchar)`,
    );
    const rows = await this.#copy(session, this.#stage, file, batch, signal);
    return {
      rows(table, width) {
        const columns = Array.from({ length: width }, (_, at) => `v:c${at}::varchar as c${at}`);
        return `(select ${['v:n::integer as n', ...columns].join(', ')} from ${rows} where v:t::integer = ${table})`;
      },
      news: `${news}`,
      closing: `${closing}`,
      drop: [],
    };
  }

  async unstage(batch: string, signal: AbortSignal): Promise<void> {
    await this.use(signal, (session) => session.run(`remove ${this.#stage}/${this.#pathOf(batch)}/`));
  }

  test(file: RowsFile, signal: AbortSignal): Promise<void> {
    return this.use(signal, async (session) => {
      const isThere = await this.#isIn(session, 'schemata where schema_name');
      if (!isThere) await session.run(`create schema ${this.#within}`);
      const test = this.dialect.table('_tributary_test');
      await session.run(`create table ${test} (id varchar)`);
      await session.run(`drop table ${test}`);
      await session.run(`create temporary stage ${test} encryption = (type = 'SNOWFLAKE_SSE')`);
      const copied = await this.#copy(session, `@${test}`, file, 'connection_test', signal);
      await session.run(`drop table ${copied}`);
      await session.run(`drop stage ${test}`);
      // With a schema Snowflake drops its tables, also those of a load that began meanwhile.
      if (!isThere && !(await this.#isIn(session, 'tables where table_schema')))
        await session.run(`drop schema ${this.#within}`);
    });
  }

  async close(): Promise<void> {
    const idle = this.#idle;
    this.#idle = [];
    await Promise.all(idle.map((session) => session.end()));
    await this.#client.close();
  }

  get #within(): string {
    return `${quoted(this.#database)}.${quoted(this.#schema)}`;
  }

  get #stage(): string {
    return `@${this.dialect.table(STAGE)}`;
  }

  #pathOf(batch: string): string {
    return [this.#destinationId, batch].map((part) => part.replaceAll(/[^A-Za-z0-9/]/g, '_')).join('/');
  }

  /** Whether the catalog has the schema, or a table of it. */
  async #isIn(session: SqlSession, where: 'schemata where schema_name' | 'tables where table_schema') {
    const { rows } = await session.run(
      `select 1 from ${quoted(this.#database)}.information_schema.${where} = ? limit 1`,
      [this.#schema.toUpperCase()],
    );
    return rows.length > 0;
  }

  /** Resolves with a temporary table that has the rows of a file. */
  async #copy(
    session: EngineSession,
    stage: string,
    file: RowsFile,
    batch: string,
    signal: AbortSignal,
  ): Promise<string> {
    const table = this.dialect.table('_tributary_rows');
    const place = `${stage}/${this.#pathOf(`${batch}_${randomUUID()}`)}`;
    const { data } = await session.query(
      `put 'file:///tmp/${FILE}' ${place} auto_compress = false source_compression = gzip overwrite = true`,
    );
    await upload(this.#client, this.#context, { name: FILE, body: file.body }, data, signal);
    await session.run(`create or replace temporary table ${table} (v variant)`);
    const { names, rows } = await session.query(
      `copy into ${table} from ${place}/ files = ('${FILE}') file_format = (type = json)`,
    );
    const at = names.findIndex((name) => name.toLowerCase() === 'rows_loaded');
    const loaded = rows.reduce((sum, row) => sum + Number(row[at] ?? Number.NaN), 0);
    if (loaded !== file.count) throw new Unavailable(`Snowflake took ${loaded} of ${file.count} rows`);
    return table;
  }

  async #session(signal: AbortSignal): Promise<SnowflakeSession> {
    if (signal.aborted) throw new Unavailable('stopped');
    const [kept, ...others] = this.#idle;
    this.#idle = others;
    if (kept === undefined) return this.#client.signIn(signal);
    if (performance.now() - kept.beganAt < MAX_AGE_MS) return kept;
    await kept.end();
    return this.#session(signal);
  }

  async #keep(session: SnowflakeSession): Promise<void> {
    if (this.#idle.length < MAX_IDLE) this.#idle = [...this.#idle, session];
    else await session.end();
  }
}

/** A file is put within this time, ms. */
const PUT_MS = 120_000;

/**
 * Puts a file to where the answer to `PUT` says: storage of AWS, Azure or Google that belongs to the account. The stage is
 * encrypted there, so the file goes as it is.
 */
export async function upload(
  client: Pick<SnowflakeClient, 'send'>,
  { egress, clock }: ConnectorContext,
  { name, body }: { readonly name: string; readonly body: Uint8Array },
  data: JsonObject,
  signal: AbortSignal,
): Promise<void> {
  const { encryptionMaterial } = data;
  const stage = objectIn(data.stageInfo);
  const { locationType, location, region, endPoint, storageAccount, presignedUrl } = stage;
  const creds = objectIn(stage.creds);
  const hasMaterial = Array.isArray(encryptionMaterial)
    ? encryptionMaterial.some(Boolean)
    : !!encryptionMaterial;
  if (hasMaterial)
    throw new WarehouseRefused(
      'the stage _TRIBUTARY_STAGE must be of the encryption SNOWFLAKE_SSE: drop it, it is made again',
    );
  const [container = '', ...folders] = text(location).split('/');
  const path = `${folders.join('/')}${name}`;
  const encoded = path.split('/').map(encodeURIComponent).join('/');

  switch (locationType) {
    case 'S3': {
      const bucket = openBucketClient(egress, {
        region: text(region),
        bucket: container,
        path_style: false,
        access_key_id: text(creds.AWS_KEY_ID),
        secret_access_key: text(creds.AWS_SECRET_KEY),
        session_token: text(creds.AWS_TOKEN),
        ...(typeof endPoint === 'string' && endPoint !== '' ? { endpoint: `https://${endPoint}` } : {}),
      });
      const timeout = AbortSignal.timeout(PUT_MS);
      try {
        await bucket.put(path, body, AbortSignal.any([signal, timeout]));
      } catch (error) {
        if (signal.aborted || timeout.aborted)
          throw new Unavailable(signal.aborted ? 'stopped' : 'timed out', { cause: error });
        const result = classifyS3Failure(error, bucket.lastFailure, clock());
        if (result === undefined) throw error;
        // The key is one of Snowflake's, and new for each file.
        throw new Unavailable(`the stage: ${'reason' in result ? result.reason : result.outcome}`, {
          cause: error,
        });
      } finally {
        await bucket.close();
      }
      return;
    }
    case 'AZURE': {
      const url = addressOf(
        `https://${text(storageAccount)}.${text(endPoint) || 'blob.core.windows.net'}/${container}/${encoded}`,
      );
      url.search = text(creds.AZURE_SAS_TOKEN);
      const headers = ['x-ms-blob-type', 'BlockBlob', 'content-type', 'application/octet-stream'];
      await client.send({ method: 'PUT', url, headers, body }, signal);
      return;
    }
    case 'GCS': {
      const token = text(creds.GCS_ACCESS_TOKEN);
      const url = addressOf(text(presignedUrl) || `https://storage.googleapis.com/${container}/${encoded}`);
      const headers = ['content-type', 'application/octet-stream'];
      if (token !== '') headers.push('authorization', `Bearer ${token}`);
      await client.send({ method: 'PUT', url, headers, body }, signal);
      return;
    }
    default:
      throw new Unavailable('Snowflake names a storage that is not known here');
  }
}

function text(value: JsonObject[string] | undefined): string {
  return typeof value === 'string' ? value : '';
}

function addressOf(url: string): URL {
  const parsed = URL.parse(url);
  if (parsed === null) throw new Unavailable('Snowflake does not say where to put the file');
  return parsed;
}
