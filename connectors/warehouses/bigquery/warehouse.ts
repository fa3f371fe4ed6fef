import type { ConnectorDestination, Warehouse } from '@tributary/core';
import { WarehouseRefused } from '@tributary/core';
import { NOT_VALID } from '../../failures.ts';
import type { ConnectorContext, WarehouseKind } from '../../kind.ts';
import { openedOnUse } from '../opened-on-use.ts';
import { datasetOf, description, LIMITS, readSettings, serviceAccountIn } from './settings.ts';

export const bigqueryWarehouse: WarehouseKind = { description, open };

function open({ egress, timeoutMs, clock }: ConnectorContext, destination: ConnectorDestination): Warehouse {
  return openedOnUse(LIMITS, async () => {
    const settings = readSettings(destination.settings);
    const account = settings && serviceAccountIn(settings.service_account_key);
    if (settings === undefined || account === undefined) throw new WarehouseRefused(NOT_VALID);
    const [{ BigqueryClient }, { BigqueryWarehouse }] = await Promise.all([
      import('./client.ts'),
      import('./engine.ts'),
    ]);
    const client = new BigqueryClient(settings, { egress, account, timeoutMs, clock });
    const dataset = datasetOf(destination, settings);
    return new BigqueryWarehouse(client, {
      destinationId: destination.id,
      dataset,
      matchDays: settings.match_days,
      clock,
    });
  });
}
