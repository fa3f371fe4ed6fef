import type { ConnectorDestination, Warehouse } from '@tributary/core';
import { WarehouseRefused } from '@tributary/core';
import { NOT_VALID } from '../../failures.ts';
import type { ConnectorContext, WarehouseKind } from '../../kind.ts';
import { openedOnUse } from '../opened-on-use.ts';
import { description, LIMITS, readSettings, schemaOf } from './settings.ts';

export const postgresqlWarehouse: WarehouseKind = { description, open };

function open({ egress, timeoutMs }: ConnectorContext, destination: ConnectorDestination): Warehouse {
  return openedOnUse(LIMITS, async () => {
    const settings = readSettings(destination.settings);
    if (settings === undefined) throw new WarehouseRefused(NOT_VALID);
    const { PostgresqlWarehouse } = await import('./engine.ts');
    const { id, workspaceId } = destination;
    const schema = schemaOf(destination, settings);
    return new PostgresqlWarehouse(egress, settings, { destinationId: id, workspaceId, schema, timeoutMs });
  });
}
