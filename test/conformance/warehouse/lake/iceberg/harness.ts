import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ColumnType, isObject, newId } from '@tributary/core';
import { WORKSPACE_ID } from '../../../connector/suite/harness.ts';
import { type Judge, openJudge } from '../../suite/duckdb.ts';
import { loadersOf, type WarehouseHarness } from '../../suite/harness.ts';
import { startHttpProxy } from '../../suite/http-proxy.ts';
import { avroRecords } from './avro.ts';

/** Looks of a loader for a commit without an answer. */
const LOOKS = 5;
const NAMESPACE = 'events';

/** A catalog that tests may run on. */
export interface TestCatalog {
  readonly url: string;
  /** The metadata of a table as it is now; undefined without it. */
  table(namespace: string, name: string): Promise<Readonly<Record<string, unknown>> | undefined>;
  drop(namespace: string, name: string): Promise<void>;
  /** What stands behind `from` where DuckDB itself finds the files of a table. Absent: they are found by our own reader. */
  relation?(namespace: string, name: string): Promise<string | undefined>;
  prepare?(judge: Judge): Promise<void>;
  close(): Promise<void>;
}

export type IcebergHarness = Awaited<ReturnType<typeof icebergHarness>>;

/** A lake of Iceberg in a folder of its own, whose requests to its catalog go through a proxy. DuckDB reads its tables. */
export async function icebergHarness(catalog: TestCatalog, clock: () => number = Date.now) {
  const dataFolder = await mkdtemp(join(tmpdir(), 'tributary-iceberg-'));
  const namespace = `${NAMESPACE}_${newId().slice(-8)}`;
  const judge = await openJudge();
  await catalog.prepare?.(judge);
  const proxy = await startHttpProxy(catalog.url);
  const settings = {
    format: 'iceberg',
    folder: 'lake',
    namespace,
    catalog_url: proxy.url,
    catalog_client_id: 'loader',
    catalog_client_secret: 'secret-of-the-loader',
  };
  const loaders = loadersOf('lake', settings, { dataFolder, clock });

  /** The metadata of a table, and the manifests and files of its current snapshot. */
  const state = async (table: string) => {
    const metadata = await catalog.table(namespace, table);
    if (metadata === undefined) return undefined;
    const read = async (path: unknown) => avroRecords(await readFile(String(path).replace(/^file:\/*/, '/')));
    const current = JSON.stringify(metadata['current-snapshot-id']);
    const snapshot = objectsIn(metadata.snapshots).find(
      (one) => JSON.stringify(one['snapshot-id']) === current,
    );
    const manifests = snapshot === undefined ? [] : await read(snapshot['manifest-list']);
    const files: string[] = [];
    for (const { manifest_path } of manifests)
      for (const { status, data_file } of await read(manifest_path))
        if (status !== 2) files.push(String((data_file as Document).file_path).replace(/^file:\/*/, '/'));
    const schema = objectsIn(metadata.schemas).find(
      (one) => one['schema-id'] === metadata['current-schema-id'],
    );
    return { metadata, manifests, files, fields: objectsIn(schema?.fields) };
  };
  /** What stands behind `from`; undefined without a row. */
  const relation = async (table: string) => {
    if (catalog.relation !== undefined) return catalog.relation(namespace, table);
    const { fields = [], files = [] } = (await state(table)) ?? {};
    if (files.length === 0) return undefined;
    const columns = fields.map(({ id: field, name, type }) => {
      const known = DUCKDB.get(String(type)) ?? String(type);
      return `${field}: {name: '${String(name).replaceAll("'", "''")}', type: '${known}', default_value: NULL}`;
    });
    const list = files.map((file) => `'${file}'`).join(', ');
    return `read_parquet([${list}], schema = MAP {${columns.join(', ')}}, hive_partitioning = false)`;
  };

  return {
    namespace,
    judge,
    folder: join(dataFolder, 'lake', WORKSPACE_ID, 'lake'),
    open: () => loaders.open(),
    openAnother: () => loaders.open({}, newId()),
    state,
    relation,
    async rows(table: string) {
      const found = await relation(table);
      return found === undefined ? [] : judge.rows(found);
    },
    async type(table: string, column: string) {
      const field = (await state(table))?.fields.find(({ name }) => name === column);
      if (field === undefined) return undefined;
      return field.doc === 'JSON' ? 'json' : PORT.get(String(field.type));
    },
    knowsIdsByTime: true,
    byHand: {
      dropTable: (table: string) => catalog.drop(namespace, table),
      dropLedger: () => catalog.drop(namespace, '_tributary_loads'),
    },
    decide: proxy.decide,
    ...proxy.faults,
    loseNextCommit() {
      let isLost = false;
      let looks = 0;
      proxy.decide((method, path) => {
        if (isLost) return looks++ < LOOKS ? 'refused' : 'answered';
        isLost = method === 'POST' && path.endsWith('/tables/_tributary_loads');
        return isLost ? 'lost' : 'answered';
      });
    },
    async close() {
      await loaders.close();
      await judge.close();
      await proxy.close();
      await catalog.close();
      await rm(dataFolder, { recursive: true, force: true });
    },
  } satisfies WarehouseHarness & Readonly<Record<string, unknown>>;
}

/** The names that DuckDB has for types of Iceberg. */
const DUCKDB: ReadonlyMap<string, string> = new Map([
  ['long', 'BIGINT'],
  ['int', 'INTEGER'],
  ['string', 'VARCHAR'],
  ['timestamptz', 'TIMESTAMP WITH TIME ZONE'],
]);

/** Types of Iceberg as the port names them. */
const PORT: ReadonlyMap<string, ColumnType> = new Map([
  ['boolean', 'boolean'],
  ['long', 'bigint'],
  ['decimal(38, 18)', 'numeric'],
  ['double', 'double'],
  ['timestamptz', 'timestamp'],
  ['string', 'text'],
]);

type Document = Readonly<Record<string, unknown>>;

function objectsIn(value: unknown): readonly Document[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}
