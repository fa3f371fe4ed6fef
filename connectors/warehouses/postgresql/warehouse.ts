import type { ConnectorDestination, Warehouse } from '@tributary/core';
import { WarehouseRefused } from '@tributary/core';
import { NOT_VALID } from '../../failures.ts';
import type { ConnectorContext, WarehouseKind } from '../../kind.ts';
import { description, LIMITS, readSettings, schemaOf } from './settings.ts';

export const postgresqlWarehouse: WarehouseKind = { description, open };

/** Loads the driver at the first call. */
function open({ egress, timeoutMs }: ConnectorContext, destination: ConnectorDestination): Warehouse {
  let opening: Promise<Warehouse> | undefined;
  const engine = () => {
    opening ??= load();
    return opening;
  };
  const load = async () => {
    const settings = readSettings(destination.settings);
    if (settings === undefined) throw new WarehouseRefused(NOT_VALID);
    const { PostgresqlWarehouse } = await import('./engine.ts');
    const { id, workspaceId } = destination;
    const schema = schemaOf(destination, settings);
    return new PostgresqlWarehouse(egress, settings, { destinationId: id, workspaceId, schema, timeoutMs });
  };
  return {
    limits: LIMITS,
    newest: async (...args) => (await engine()).newest(...args),
    describe: async (...args) => (await engine()).describe(...args),
    alter: async (...args) => (await engine()).alter(...args),
    commit: async (...args) => (await engine()).commit(...args),
    delete: async (...args) => (await engine()).delete(...args),
    test: async (...args) => (await engine()).test(...args),
    // One that could not be opened has nothing to close; its calls were told why.
    close: async () => (await opening?.catch(() => undefined))?.close(),
  };
}
