import { resolve } from 'node:path';
import { type ConnectorDestination, type Warehouse, WarehouseRefused } from '@tributary/core';
import { NOT_VALID } from '../../failures.ts';
import { foldersOf } from '../../folder.ts';
import type { ConnectorContext, WarehouseKind } from '../../kind.ts';
import { openedOnUse } from '../opened-on-use.ts';
import type { TableFormat } from './format.ts';
import { description, type LakeSettings, LIMITS, readSettings } from './settings.ts';
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

async function openFormat(
  context: ConnectorContext,
  { id, workspaceId }: ConnectorDestination,
  settings: LakeSettings,
): Promise<TableFormat> {
  const store = await openStore(context, workspaceId, settings);
  if (settings.format === 'parquet') {
    const { PlainFormat } = await import('./plain/format.ts');
    return new PlainFormat(store, id);
  }
  const [{ IcebergFormat }, { RestCatalog }] = await Promise.all([
    import('./iceberg/format.ts'),
    import('./iceberg/rest-catalog.ts'),
  ]);
  const catalog = new RestCatalog(context, settings);
  return new IcebergFormat({ catalog, store, destinationId: id, clock: context.clock });
}

async function openStore(
  { dataFolder, egress, timeoutMs }: ConnectorContext,
  workspaceId: string,
  settings: LakeSettings,
): Promise<LakeStore> {
  if (settings.folder === undefined) {
    const { BucketStore } = await import('./bucket-store.ts');
    return new BucketStore(egress, settings, timeoutMs);
  }
  const parts = foldersOf('lake', workspaceId, settings.folder);
  if (parts === undefined) throw new WarehouseRefused(NOT_VALID);
  const { FolderStore } = await import('./folder-store.ts');
  return new FolderStore(resolve(dataFolder), parts);
}
