import { resolve } from 'node:path';
import { type ConnectorDestination, type Warehouse, WarehouseRefused } from '@tributary/core';
import { NOT_VALID } from '../../failures.ts';
import { foldersOf } from '../../folder.ts';
import type { ConnectorContext, WarehouseKind } from '../../kind.ts';
import { openedOnUse } from '../opened-on-use.ts';
import { description, LIMITS, readSettings } from './settings.ts';
import type { LakeStore } from './store.ts';

export const lakeWarehouse: WarehouseKind = { description, open };

function open(context: ConnectorContext, destination: ConnectorDestination): Warehouse {
  const lake = openedOnUse(LIMITS, async () => {
    const [{ Lake }, { PlainFormat }] = await Promise.all([
      import('./engine.ts'),
      import('./plain/format.ts'),
    ]);
    const store = await openStore(context, destination);
    return new Lake(new PlainFormat(store, destination.id), context.clock);
  });
  return destination.settings.folder === undefined ? lake : { ...lake, storesHere: true };
}

async function openStore(
  { dataFolder, egress, timeoutMs }: ConnectorContext,
  { workspaceId, settings: stated }: ConnectorDestination,
): Promise<LakeStore> {
  const settings = readSettings(stated);
  if (settings === undefined) throw new WarehouseRefused(NOT_VALID);
  if (settings.folder === undefined) {
    const { BucketStore } = await import('./bucket-store.ts');
    return new BucketStore(egress, settings, timeoutMs);
  }
  const parts = foldersOf('lake', workspaceId, settings.folder);
  if (parts === undefined) throw new WarehouseRefused(NOT_VALID);
  const { FolderStore } = await import('./folder-store.ts');
  return new FolderStore(resolve(dataFolder), parts);
}
