import type { RunningEngine } from '../../../../engines/index.ts';
import { freshPrefix } from '../../../../helpers/engines.ts';
import { COMMITTED, connectReader, quoted } from '../../postgresql/reader.ts';
import { startCommitProxy } from '../../suite/commit-proxy.ts';
import type { WarehouseHarness } from '../../suite/harness.ts';
import { bucketHarness } from '../bucket-harness.ts';
import { COLUMNS, FILES, relationOf } from './harness.ts';

/** A DuckLake in a bucket, with its catalog in a schema of its own on a server of the spec, behind a proxy. */
export async function postgresqlHarness({ url: address }: RunningEngine) {
  const url = new URL(address);
  const proxy = await startCommitProxy({ host: url.hostname, port: Number(url.port) }, COMMITTED);
  const schema = freshPrefix().replace('.', '_"lake');
  const ofReader = new URL(address);
  ofReader.searchParams.set('options', `-csearch_path=${quoted(schema)}`);
  const reader = connectReader(ofReader.href);
  const sql = async (text: string, values: readonly unknown[] = []) =>
    (await reader.query(text, values)).rows;
  const harness = await bucketHarness({
    format: {
      settings: {
        format: 'ducklake',
        catalog_host: '127.0.0.1',
        catalog_port: proxy.port,
        catalog_tls: false,
        catalog_database: 'postgres',
        catalog_username: url.username,
        catalog_password: url.password,
        catalog_schema: schema,
      },
      async relation(folder, table) {
        const [files, columns] = [
          await sql(FILES.replace('?', '$1'), [table]),
          await sql(COLUMNS.replace('?', '$1'), [table]),
        ];
        return relationOf(folder, table, { files, columns });
      },
    },
  });
  return {
    ...harness,
    sql,
    byHand: {
      async dropTable(table: string) {
        const [row] = await sql('select table_id from ducklake_table where table_name = $1', [table]);
        await sql(`insert into ducklake_snapshot select snapshot_id + 1, now(), schema_version + 1, next_catalog_id, next_file_id
          from ducklake_snapshot order by snapshot_id desc limit 1`);
        for (const kind of ['ducklake_data_file', 'ducklake_column', 'ducklake_table'])
          await sql(
            `update ${kind} set end_snapshot = (select max(snapshot_id) from ducklake_snapshot)
             where end_snapshot is null and table_id = $1`,
            [row?.table_id],
          );
      },
      async dropLedger() {
        await sql('drop table _tributary_loads');
      },
    },
    ...proxy.faults,
    async close() {
      await harness.close();
      await proxy.close();
      await sql(`drop schema if exists ${quoted(schema)} cascade`);
      await reader.end();
    },
  } satisfies WarehouseHarness & Readonly<Record<string, unknown>>;
}
