import { join, resolve } from 'node:path';
import { type ConnectorDestination, type Warehouse, WarehouseRefused } from '@tributary/core';
import { NOT_VALID } from '../../failures.ts';
import { foldersOf } from '../../folder.ts';
import type { ConnectorContext, WarehouseKind } from '../../kind.ts';
import { openedOnUse } from '../opened-on-use.ts';
import type { TableFormat } from './format.ts';
import { catalogOf, description, type LakeSettings, LIMITS, readSettings } from './settings.ts';
import type { LakeStore } from './store.ts';

export const lakeWarehouse: WarehouseKind = { description, open };

function open(context: ConnectorContext, destination: ConnectorDestination): Warehouse {
  const lake = openedOnUse(LIMITS, async () => {
    const settings = readSettings(destination.settings);
    if (settings === undefined) throw new WarehouseRefused(NOT_VALID);
    const [{ Lake }, format] = await Promise.all([
      import('./engine.ts'),
      openFormat(context, destination, settings),
    ]);
    return new Lake(format, context.clock);
  });
  return destination.settings.folder === undefined ? lake : { ...lake, storesHere: true };
}

/** Where the files of a lake are. */
interface Place {
  readonly store: LakeStore;
  /** What readers put before the names of the files. */
  readonly path: string;
  /** The nested folders of a lake on this machine, below the data folder. */
  readonly folders?: readonly string[];
}

async function openFormat(
  context: ConnectorContext,
  { id: destinationId, workspaceId }: ConnectorDestination,
  settings: LakeSettings,
): Promise<TableFormat> {
  const { store, path: dataPath, folders } = await openPlace(context, workspaceId, settings);
  if (settings.format === 'parquet') {
    const { PlainFormat } = await import('./plain/format.ts');
    return new PlainFormat(store, destinationId);
  }
  if (settings.format === 'iceberg') {
    const [{ IcebergFormat }, { RestCatalog }] = await Promise.all([
      import('./iceberg/format.ts'),
      import('./iceberg/rest-catalog.ts'),
    ]);
    const catalog = new RestCatalog(context, settings);
    return new IcebergFormat({ catalog, store, destinationId, clock: context.clock });
  }
  const { DuckLakeFormat } = await import('./ducklake/format.ts');
  const server = catalogOf(settings);
  if (server === undefined) {
    if (folders === undefined) throw new WarehouseRefused(NOT_VALID);
    const { SqliteCatalog } = await import('./ducklake/sqlite.ts');
    const catalog = new SqliteCatalog(resolve(context.dataFolder), folders);
    return new DuckLakeFormat(store, catalog, { destinationId, dataPath, isInFolder: true });
  }
  const { PostgresqlCatalog } = await import('./ducklake/postgresql.ts');
  const { egress, timeoutMs } = context;
  const options = { schema: settings.catalog_schema, workspaceId, timeoutMs };
  const catalog = new PostgresqlCatalog(egress, server, options);
  return new DuckLakeFormat(store, catalog, { destinationId, dataPath, isInFolder: false });
}

async function openPlace(
  { dataFolder, egress, timeoutMs }: ConnectorContext,
  workspaceId: string,
  settings: LakeSettings,
): Promise<Place> {
  if (settings.folder === undefined) {
    const { BucketStore } = await import('./bucket-store.ts');
    const store = new BucketStore(egress, settings, timeoutMs);
    return { store, path: `s3://${settings.bucket}/${settings.prefix}/` };
  }
  const folders = foldersOf('lake', workspaceId, settings.folder);
  if (folders === undefined) throw new WarehouseRefused(NOT_VALID);
  const { FolderStore } = await import('./folder-store.ts');
  const root = resolve(dataFolder);
  return { store: new FolderStore(root, folders), path: `${join(root, ...folders)}/`, folders };
}
