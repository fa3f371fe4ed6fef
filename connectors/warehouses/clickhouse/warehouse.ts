import type { ConnectorDestination, Warehouse } from '@tributary/core';
import { WarehouseRefused } from '@tributary/core';
import { NOT_VALID } from '../../failures.ts';
import type { ConnectorContext, WarehouseKind } from '../../kind.ts';
import { openedOnUse } from '../opened-on-use.ts';
import { databaseOf, description, LIMITS, readSettings } from './settings.ts';

export const clickhouseWarehouse: WarehouseKind = { description, open };

function open({ egress }: ConnectorContext, destination: ConnectorDestination): Warehouse {
  return openedOnUse(LIMITS, async () => {
    const settings = readSettings(destination.settings);
    if (settings === undefined) throw new WarehouseRefused(NOT_VALID);
    const { ClickHouseWarehouse } = await import('./engine.ts');
    const { ClickHouseServer } = await import('./server.ts');
    const server = new ClickHouseServer(egress, settings);
    return new ClickHouseWarehouse(server, destination.id, databaseOf(destination, settings));
  });
}
