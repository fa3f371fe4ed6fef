import type { RunningEngine } from '../../../engines/index.ts';
import { freshPrefix } from '../../../helpers/engines.ts';
import { startCommitProxy } from '../suite/commit-proxy.ts';
import { loadersOf, type ServerHarness } from '../suite/harness.ts';
import { COMMITTED, connectReader, quoted, tablesOf } from './reader.ts';

export type Quote = (name: string) => string;

/** A schema of its own on a server of the spec, behind a proxy. */
export async function postgresqlHarness({ url: address }: RunningEngine) {
  const url = new URL(address);
  const proxy = await startCommitProxy({ host: url.hostname, port: Number(url.port) }, COMMITTED);
  const schema = freshPrefix().replace('.', '_"warehouse');
  const of = (table: string) => `${quoted(schema)}.${quoted(table)}`;
  const reader = await connectReader(address);
  const sql = async (text: string) => {
    await reader.query(text);
  };
  const tables = tablesOf(reader, schema);
  const type = 'warehouse-postgresql';
  const settings = {
    host: '127.0.0.1',
    port: proxy.port,
    tls: false,
    database: 'postgres',
    username: url.username,
    password: url.password,
    schema,
  };
  const loaders = loadersOf(type, settings);

  const roles: string[] = [];
  return {
    destination: { type, settings },
    /** Runs statements as the owner of the tables; `of` qualifies a name. */
    sql: (text: (of: Quote) => string) => sql(text(of)),
    /** A user that may read and write the tables, and makes none. */
    async role() {
      const username = freshPrefix().replace('.', '_role');
      roles.push(username);
      const password = 'pass-of-a-role';
      await sql(`create role ${username} login password '${password}';
        grant usage on schema ${quoted(schema)} to ${username};
        grant all on all tables in schema ${quoted(schema)} to ${username}`);
      return { username, password };
    },
    open: loaders.open,
    ...tables,
    byHand: {
      ...tables.byHand,
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
      for (const role of roles) await sql(`drop role ${role}`);
      await reader.end();
    },
  } satisfies ServerHarness & Readonly<Record<string, unknown>>;
}
