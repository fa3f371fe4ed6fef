import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { NO_METRICS, newId, type Warehouse } from '@tributary/core';
import { parseRanges } from '../../../../../connectors/egress/address-ranges.ts';
import { createEgressGuard } from '../../../../../connectors/egress/guard.ts';
import { FolderStore } from '../../../../../connectors/warehouses/lake/folder-store.ts';
import { IcebergFormat } from '../../../../../connectors/warehouses/lake/iceberg/format.ts';
import {
  type Manifest,
  readManifest,
  readManifestList,
} from '../../../../../connectors/warehouses/lake/iceberg/manifests.ts';
import { RestCatalog } from '../../../../../connectors/warehouses/lake/iceberg/rest-catalog.ts';
import { tableMetadata } from '../../../../../connectors/warehouses/lake/iceberg/table-metadata.ts';
import { rewritten } from '../../../../../connectors/warehouses/lake/rewriting.ts';
import { createTestConnectors, ENGINE_CONNECTORS, WORKSPACE_ID } from '../../../connector/suite/harness.ts';
import { type Judge, openJudge } from '../../suite/duckdb.ts';
import { signal, type WarehouseHarness } from '../../suite/harness.ts';

/** Requests that stand for so many bytes, in `cutAfter`. */
const BYTES_OF_REQUEST = 300;
/** Looks of a loader for a commit without an answer. */
const LOOKS = 5;
const NAMESPACE = 'events';

/** What becomes of a request to the catalog: it is answered, its answer is lost, or it never arrives. */
export type Fate = 'answered' | 'lost' | '503' | 'refused';

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
  const connectors = createTestConnectors({ ...ENGINE_CONNECTORS, dataFolder, clock });
  const opened: Warehouse[] = [];
  let requestsLeft = Number.POSITIVE_INFINITY;
  let refused = 0;
  let isDown = false;
  let fateOf: (method: string, path: string) => Fate = () => 'answered';

  const proxy = createServer((incoming, outgoing) => {
    const { url = '', method = '', headers } = incoming;
    requestsLeft -= 1;
    const isCut = requestsLeft < 0;
    if (isCut) requestsLeft = Number.POSITIVE_INFINITY;
    // Half of the requests that are cut still arrive.
    const cut = url.length % 2 === 0 ? 'refused' : 'lost';
    const isRefused = isDown || refused > 0;
    if (refused > 0) refused -= 1;
    const fate = isRefused ? 'refused' : isCut ? cut : fateOf(method, url);
    if (fate === 'refused') return void incoming.socket.destroy();
    const passed = request(`${catalog.url}${url}`, { method, headers }, async (response) => {
      if (fate === 'lost') {
        response.resume();
        response.on('end', () => outgoing.destroy());
      } else if (fate === '503') {
        response.resume();
        response.on('end', () => outgoing.writeHead(503).end());
      } else {
        outgoing.writeHead(response.statusCode ?? 500, response.headers);
        await pipeline(response, outgoing).catch(() => undefined);
      }
    });
    passed.on('error', () => outgoing.destroy());
    incoming.pipe(passed);
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const settings = {
    format: 'iceberg',
    folder: 'lake',
    namespace,
    catalog_url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    catalog_client_id: 'loader',
    catalog_client_secret: 'secret-of-the-loader',
  };
  const id = newId();
  const open = (destinationId: string) => {
    const destination = { id: destinationId, workspaceId: WORKSPACE_ID, version: 1, settings };
    const warehouse = connectors.warehouse('lake', destination);
    if (warehouse === undefined) throw new Error('no such kind');
    opened.push(warehouse);
    return warehouse;
  };

  /** The metadata of a table, and the files of its current snapshot. */
  const state = async (table: string) => {
    const found = await catalog.table(namespace, table);
    if (found === undefined) return undefined;
    const metadata = tableMetadata(table, found);
    const read = (path: string) => readFile(path.replace(/^file:\/*/, '/'));
    const manifests: readonly Manifest[] =
      metadata.current === undefined ? [] : readManifestList(await read(metadata.current.manifestList));
    const files: string[] = [];
    for (const manifest of manifests)
      for (const { isLive, file } of readManifest(await read(manifest.path), manifest).entries)
        if (isLive) files.push(file.path.replace(/^file:\/*/, '/'));
    return { metadata, manifests, files };
  };
  /** What stands behind `from`; undefined without a row. */
  const relation = async (table: string) => {
    if (catalog.relation !== undefined) return catalog.relation(namespace, table);
    const { metadata, files = [] } = (await state(table)) ?? {};
    if (metadata === undefined || files.length === 0) return undefined;
    const columns = metadata.fields.map(({ id: field, name, json }) => {
      const type = DUCKDB.get(String(json.type)) ?? String(json.type);
      return `${field}: {name: '${name.replaceAll("'", "''")}', type: '${type}', default_value: NULL}`;
    });
    const list = files.map((file) => `'${file}'`).join(', ');
    return `read_parquet([${list}], schema = MAP {${columns.join(', ')}}, hive_partitioning = false)`;
  };

  const egress = createEgressGuard({
    allowed: parseRanges(['127.0.0.0/8']),
    resolve: () => Promise.reject(new Error('no names')),
    metrics: NO_METRICS,
  });
  const ofCatalog = { ...settings, catalog_url: catalog.url, catalog_scope: 'catalog' };
  const format = new IcebergFormat({
    catalog: new RestCatalog({ egress, dataFolder, timeoutMs: 10_000, clock }, ofCatalog),
    store: new FolderStore(dataFolder, ['lake', WORKSPACE_ID, 'lake']),
    destinationId: 'none',
    clock,
  });

  return {
    namespace,
    judge,
    /** Without a proxy. */
    format,
    folder: join(dataFolder, 'lake', WORKSPACE_ID, 'lake'),
    open: () => open(id),
    openAnother: () => open(newId()),
    state,
    relation,
    /** As another program: writes all files of a table as one. False where another one was faster, or there are too few. */
    async compact(table: string): Promise<boolean> {
      const transaction = await format.begin(signal);
      const [schema, files] = [await transaction.schema(table), await transaction.files(table)];
      if (schema === undefined || files.length < 2) return false;
      const received = { from: files[0]?.received?.from ?? 0, to: files[0]?.received?.to ?? 0 };
      const whole = await rewritten(transaction, table, files, schema);
      await transaction.replace(table, files, { received }, whole);
      return transaction.commit();
    },
    async rows(table: string) {
      const found = await relation(table);
      return found === undefined ? [] : judge.rows(found);
    },
    async type(table: string, column: string) {
      const fields = (await state(table))?.metadata.fields ?? [];
      return fields.find(({ name }) => name === column)?.type;
    },
    knowsIdsByTime: true,
    byHand: {
      dropTable: (table: string) => catalog.drop(namespace, table),
      dropLedger: () => catalog.drop(namespace, '_tributary_loads'),
    },
    /** Decides about the requests to the catalog from then on. */
    decide(next: (method: string, path: string) => Fate) {
      fateOf = next;
    },
    loseNextCommit() {
      fateOf = (method, path) => {
        if (method !== 'POST' || !path.endsWith('/tables/_tributary_loads')) return 'answered';
        fateOf = () => 'answered';
        refused = LOOKS;
        return 'lost';
      };
    },
    cutAfter(bytes: number) {
      requestsLeft = Math.floor(bytes / BYTES_OF_REQUEST);
    },
    async fail() {
      isDown = true;
    },
    async mend() {
      isDown = false;
    },
    async close() {
      await Promise.all(opened.map((warehouse) => warehouse.close()));
      await format.close();
      await connectors.close();
      await judge.close();
      await new Promise<void>((resolve) => {
        proxy.close(() => resolve());
        proxy.closeAllConnections();
      });
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
