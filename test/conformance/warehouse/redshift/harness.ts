import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ColumnType } from '@tributary/core';
import S3rver from 's3rver';
import type { RunningEngine } from '../../../engines/index.ts';
import { freshPrefix } from '../../../helpers/engines.ts';
import { COMMITTED, connectReader, quoted, tablesOf } from '../postgresql/reader.ts';
import { startCommitProxy } from '../suite/commit-proxy.ts';
import { loadersOf, type ServerHarness } from '../suite/harness.ts';
import { FUNCTIONS, startTranslation } from './translation.ts';

const BUCKET = 'warehouse-files';
/** The only access key of the server of objects. */
const KEY = 'S3RVER';

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

/** A bucket of its own, whose objects are files. */
async function startBucket() {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-s3-'));
  const server = new S3rver({
    port: 0,
    address: '127.0.0.1',
    silent: true,
    vhostBuckets: false,
    directory: folder,
    configureBuckets: [{ name: BUCKET, configs: [] }],
  });
  const { port } = (await server.run()) as AddressInfo;
  return {
    endpoint: `http://127.0.0.1:${port}`,
    read: (key: string) => readFile(join(folder, BUCKET, `${key}._S3rver_object`)),
    /** The keys of all objects. */
    async keys(): Promise<readonly string[]> {
      const files = await readdir(join(folder, BUCKET), { recursive: true });
      return files
        .filter((name) => name.endsWith('._S3rver_object'))
        .map((name) => name.replace('._S3rver_object', ''));
    },
    remove: (key: string) => rm(join(folder, BUCKET, `${key}._S3rver_object`)),
    async close() {
      await server.close();
      // It may still write what a connection brought that was cut.
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** A schema of its own on a PostgreSQL server that takes Redshift's SQL, behind a proxy. */
export async function redshiftHarness({ url: address }: RunningEngine) {
  const url = new URL(address);
  const bucket = await startBucket();
  let onRead: (key: string) => Promise<Buffer | undefined> = async () => undefined;
  const read = async (key: string) => (await onRead(key)) ?? bucket.read(key);
  const translation = await startTranslation({ host: url.hostname, port: Number(url.port) }, { read });
  const proxy = await startCommitProxy({ host: '127.0.0.1', port: translation.port }, COMMITTED);
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
    endpoint: bucket.endpoint,
    region: 'eu-central-1',
    bucket: BUCKET,
    prefix: 'loads',
    path_style: true,
    access_key_id: KEY,
    secret_access_key: KEY,
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
    loseNextCommit: () => proxy.loseNextCommit(),
    cutAfter: (bytes) => proxy.cutAfter(bytes),
    fail: async () => proxy.refuse(true),
    mend: async () => proxy.refuse(false),
    async close() {
      await loaders.close();
      await proxy.close();
      await translation.close();
      await sql(`drop schema if exists ${quoted(schema)} cascade`);
      await reader.end();
      await bucket.close();
    },
  } satisfies ServerHarness & Readonly<Record<string, unknown>>;
}
