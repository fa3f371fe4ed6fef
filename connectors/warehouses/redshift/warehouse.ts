import { WarehouseRefused } from '@tributary/core';
import { NOT_VALID } from '../../failures.ts';
import type { WarehouseKind } from '../../kind.ts';
import { openedOnUse } from '../opened-on-use.ts';
import { description, LIMITS, readSettings, schemaOf } from './settings.ts';

export const redshiftWarehouse: WarehouseKind = {
  description,
  open: ({ egress, timeoutMs }, destination) =>
    openedOnUse(LIMITS, async () => {
      const settings = readSettings(destination.settings);
      if (settings === undefined) throw new WarehouseRefused(NOT_VALID);
      const [{ RedshiftEngine }, { MergingWarehouse }] = await Promise.all([
        import('./engine.ts'),
        import('../merging/warehouse.ts'),
      ]);
      const { id, workspaceId } = destination;
      const schema = schemaOf(destination, settings);
      const engine = new RedshiftEngine(egress, settings, {
        destinationId: id,
        workspaceId,
        schema,
        timeoutMs,
      });
      return new MergingWarehouse(engine, id);
    }),
};
