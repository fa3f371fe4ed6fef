import { generateKeyPairSync } from 'node:crypto';
import { type JsonObject, objectIn } from '@tributary/core';
import pg from 'pg';
import type { RunningEngine } from '../../../engines/index.ts';
import { freshPrefix } from '../../../helpers/engines.ts';
import { connectReader, quoted, tablesOf } from '../postgresql/reader.ts';
import { startCommitProxy } from '../suite/commit-proxy.ts';
import { loadersOf, type ServerHarness } from '../suite/harness.ts';
import { startBigqueryApi } from './api.ts';
import { columnTypes, Dataset } from './backend.ts';

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 });

/** The key of a service account whose tokens an API on this machine issues. */
function serviceAccountKey(port: number): string {
  return JSON.stringify({
    type: 'service_account',
    project_id: 'project-1',
    private_key_id: 'key-1',
    private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    client_email: 'loader@project-1.example.com',
    token_uri: `http://127.0.0.1:${port}/token`,
  });
}

/** A dataset of its own, which is a schema of the server of the spec, behind a proxy. */
export async function bigqueryHarness({ url: address }: RunningEngine) {
  const name = freshPrefix().replace('.', '_');
  const dataset = new Dataset(name);
  // Rows of a load are found by hashes: PostgreSQL knows too little of a table that it has just been given.
  const pool = new pg.Pool({ connectionString: address, max: 8, options: '-c enable_nestloop=off' });
  // The server of a test ends under its connections, also those in use.
  pool.on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  const api = await startBigqueryApi(pool, dataset);
  const proxy = await startCommitProxy({ host: '127.0.0.1', port: api.port });
  const reader = connectReader(address);
  const of = (table: string) => dataset.of(table);
  const sql = async (text: string) => {
    await reader.query(text);
  };
  const type = 'warehouse-bigquery';
  const settings = {
    project: 'project-1',
    dataset: name,
    service_account_key: serviceAccountKey(proxy.port),
    endpoint: `http://127.0.0.1:${proxy.port}`,
  };
  const loaders = loadersOf(type, settings);

  return {
    destination: { type, settings },
    api,
    key: settings.service_account_key,
    sql: (text: (of: (table: string) => string) => string) => sql(text(of)),
    /** Tables with names like a pattern. */
    tables: (pattern: string) =>
      reader.query('select tablename as name from pg_tables where schemaname = $1 and tablename like $2', [
        name,
        pattern,
      ]),
    open(as: JsonObject = {}) {
      const warehouse = loaders.open(as);
      // The rows of PostgreSQL have a bound that those of BigQuery have not.
      return { ...warehouse, limits: { ...warehouse.limits, rowValues: 320 } };
    },
    /** The columns of all tables, with their types as the API has them, by the name that statements have. */
    async describe() {
      const tables: Record<string, Readonly<Record<string, string>>> = {};
      for (const table of await dataset.tables(pool))
        tables[`project-1.${name}.${table}`] = await columnTypes(pool, dataset, table);
      return tables;
    },
    ...tablesOf(reader, name),
    ...proxy.faults,
    /** The answers to all requests for the job of the next commit. */
    loseNextCommit() {
      let job: unknown;
      api.meddle = ({ path, body, sql: script }) => {
        const { jobId } = objectIn(body.jobReference);
        if (script.includes('_tributary_loads` (destination_id')) job ??= jobId;
        return job !== undefined && (jobId === job || path.endsWith(`/${job}`))
          ? { loses: 'answer' }
          : undefined;
      };
    },
    async close() {
      await loaders.close();
      await proxy.close();
      await api.close();
      await pool.end();
      await sql(`drop schema if exists ${quoted(name)} cascade`);
      await reader.end();
    },
  } satisfies ServerHarness & Readonly<Record<string, unknown>>;
}
