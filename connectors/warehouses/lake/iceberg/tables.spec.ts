import { describe, expect, it } from 'vitest';
import type { LakeStore } from '../store.ts';
import type { NewFile } from './manifests.ts';
import { type CatalogCommit, type RestCatalog, type TableMetadata, tableMetadata } from './rest-catalog.ts';
import { IcebergTables } from './tables.ts';

const signal = new AbortController().signal;
const BUCKET = 's3://lake/tests';
const NO_PARTITION = { spec: 0, type: { type: 'record', name: 'r102', fields: [] }, values: new Map() };

const fileOf = (n: number): NewFile => ({
  path: `${BUCKET}/order/data/${n}.parquet`,
  bytes: 1_000,
  rows: 10,
  partition: NO_PARTITION,
  bounds: new Map([[4, [BigInt(n), BigInt(n + 1)] as const]]),
  nulls: new Map([[4, 0]]),
});

/** Tables in memory, of a catalog that takes each commit. */
function opened() {
  const stored = new Map<string, Uint8Array>();
  const unsettled = new Set<string>();
  const store = {
    root: BUCKET,
    read: async (name: string) => stored.get(name),
    put: async (name: string, bytes: Uint8Array) => {
      unsettled.add(name);
      stored.set(name, bytes);
    },
    settle: async () => unsettled.clear(),
    remove: async (name: string) => void stored.delete(name),
  } as Partial<LakeStore> as LakeStore;
  const document: Record<string, unknown> = {
    'format-version': 2,
    'table-uuid': 'u',
    location: `${BUCKET}/order`,
    'last-sequence-number': 0,
    'last-column-id': 4,
    'current-schema-id': 0,
    schemas: [{ 'schema-id': 0, type: 'struct', fields: [] }],
    'default-spec-id': 0,
    'partition-specs': [{ 'spec-id': 0, fields: [] }],
  };
  const commit = async (_name: string, { updates }: Parameters<RestCatalog['commit']>[1]) => {
    // Its files are durable before a commit names them.
    expect([...unsettled]).toEqual([]);
    const { snapshot } = updates.find(({ action }) => action === 'add-snapshot') as {
      snapshot: Record<string, unknown>;
    };
    document['last-sequence-number'] = snapshot['sequence-number'];
    document['current-snapshot-id'] = snapshot['snapshot-id'];
    document.snapshots = [snapshot];
    return { state: 'committed', table: tableMetadata('order', document) } satisfies CatalogCommit;
  };
  const catalog = { commit } as unknown as RestCatalog;
  return { tables: new IcebergTables(catalog, store, Date.now), first: tableMetadata('order', document) };
}

async function committed(
  tables: IcebergTables,
  table: TableMetadata,
  changes: Parameters<IcebergTables['commit']>[2],
): Promise<TableMetadata> {
  const result = await tables.commit('order', table, changes, signal);
  if (typeof result === 'string') throw new Error(result);
  return result;
}

describe('commits of a table of Iceberg', () => {
  it('merge small manifests, and keep the sequence numbers of their files', async () => {
    const { tables, first } = opened();
    let table = first;
    for (let n = 0; n < 250; n++)
      table = await committed(tables, table, { operation: 'append', add: [fileOf(n)] });
    const manifests = await tables.manifests(table.current, signal);
    expect(manifests.length).toBeLessThan(110);
    expect(manifests.reduce((sum, { files }) => sum + files, 0)).toBe(250);
    const files = await tables.files(table.current, signal);
    expect(files.map(({ path }) => path).sort()).toEqual(
      Array.from({ length: 250 }, (_, n) => fileOf(n).path).sort(),
    );
    expect(files.find(({ path }) => path === fileOf(3).path)?.bounds.get(4)).toEqual([3n, 4n]);
    const merged = manifests.filter((manifest) => manifest.files > 1);
    expect(Math.min(...merged.map(({ record }) => Number(record.get(516))))).toBe(1);
  });

  it('replace files, and none where one of them is not there', async () => {
    const { tables, first } = opened();
    const whole = { operation: 'append', add: [0, 1, 2].map(fileOf) } as const;
    const table = await committed(tables, first, whole);
    const remove = new Set([fileOf(0).path, fileOf(2).path]);
    const next = await committed(tables, table, { operation: 'replace', add: [fileOf(9)], remove });
    const paths = (await tables.files(next.current, signal)).map(({ path }) => path);
    expect(paths.sort()).toEqual([fileOf(1).path, fileOf(9).path]);
    const again = { operation: 'replace', add: [fileOf(10)], remove } as const;
    expect(await tables.commit('order', next, again, signal)).toBe('conflict');
  });

  it.each([
    's3://other/tests/order/x',
    's3://lake/tests/../x',
    's3://lake/testsx/x',
    'file:/etc/passwd',
    '/etc/passwd',
  ])('read and write nothing elsewhere: %s', (path) => {
    expect(() => opened().tables.nameOf(path)).toThrow(/is not below/);
    expect(opened().tables.nameOf(`s3a://lake/tests/order/x`)).toBe('order/x');
  });
});
