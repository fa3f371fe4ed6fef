import { readFile } from 'node:fs/promises';
import type { ColumnType } from '@tributary/core';
import type { RunningEngine } from '../../../engines/index.ts';
import { freshPrefix } from '../../../helpers/engines.ts';
import { startS3Server } from '../../../helpers/s3-server.ts';
import { COMMITTED, connectReader, quoted, tablesOf } from '../postgresql/reader.ts';
import { startCommitProxy } from '../suite/commit-proxy.ts';
import { loadersOf, type ServerHarness } from '../suite/harness.ts';
import { FUNCTIONS, translatorTo } from './translation.ts';

const SQL_TYPES: Readonly<Record<ColumnType, string>> = {
  boolean: 'boolean',
  bigint: 'bigint',
  numeric: 'numeric(38, 19)',
  double: 'double precision',
  timestamp: 'timestamptz',
  text: 'varchar(65535)',
  json: 'json',
};

type Quote = (name: string) => string;

/** A schema of its own on a PostgreSQL server that takes Redshift's SQL, behind a proxy. */
export async function redshiftHarness({ url: address }: RunningEngine) {
  const url = new URL(address);
  const bucket = await startS3Server('warehouse-files');
  let onRead: (key: string) => Promise<Buffer | undefined> = async () => undefined;
  const read = async (key: string) => (await onRead(key)) ?? readFile(bucket.path(key));
  const proxy = await startCommitProxy({ host: url.hostname, port: Number(url.port) }, COMMITTED, (engine) =>
    translatorTo(engine, { read }),
  );
  const schema = freshPrefix().replaceAll(/[^a-z0-9]/g, '_');
  const of = (table: string) => `${quoted(schema)}.${quoted(table)}`;
  const reader = connectReader(address);
  const sql = async (text: string) => {
    await reader.query(text);
  };
  // Of several specs at once, the first makes them.
  await sql(`begin; select pg_advisory_xact_lock(1); ${FUNCTIONS}; commit`);
  const tables = tablesOf(reader, schema, (type) => SQL_TYPES[type]);
  const type = 'warehouse-redshift';
  const settings = {
    host: '127.0.0.1',
    port: proxy.port,
    tls: false,
    database: 'postgres',
    username: url.username,
    password: url.password === '' ? 'none' : url.password,
    schema,
    ...bucket.settings,
    endpoint: `http://127.0.0.1:${bucket.port}`,
    prefix: 'loads',
  };
  const loaders = loadersOf(type, settings);
  return {
    destination: { type, settings },
    bucket,
    // A row of PostgreSQL is in one page.
    rowValues: 900,
    nameLength: 63,
    /** Runs statements of PostgreSQL; `of` qualifies a name. */
    sql: (text: (of: Quote) => string) => sql(text(of)),
    /** Calls back before an object is read by a copy. The result is read in its place. */
    beforeRead(call: (key: string) => Promise<Buffer | undefined>) {
      onRead = call;
    },
    open: loaders.open,
    ...tables,
    byHand: {
      ...tables.byHand,
      // Redshift enforces none but `not null`; the search for the guilty rows is the same.
      refuse: (table, column, value) =>
        sql(`alter table ${of(table)} add constraint picky check (${quoted(column)} <> '${value}')`),
      hold: (table, column) =>
        sql(`create view ${of('a_view')} as select ${quoted(column)} from ${of(table)}`),
    },
    ...proxy.faults,
    async close() {
      await loaders.close();
      await proxy.close();
      await sql(`drop schema if exists ${quoted(schema)} cascade`);
      await reader.end();
      await bucket.close();
    },
  } satisfies ServerHarness & Readonly<Record<string, unknown>>;
}
