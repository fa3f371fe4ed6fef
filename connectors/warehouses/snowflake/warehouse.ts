import { WarehouseRefused } from '@tributary/core';
import { NOT_VALID } from '../../failures.ts';
import type { WarehouseKind } from '../../kind.ts';
import { openedOnUse } from '../opened-on-use.ts';
import { description, LIMITS, readSettings, schemaOf } from './settings.ts';

export const snowflakeWarehouse: WarehouseKind = {
  description,
  open: (context, destination) =>
    openedOnUse(LIMITS, async () => {
      const settings = readSettings(destination.settings);
      if (settings === undefined) throw new WarehouseRefused(NOT_VALID);
      const [{ SnowflakeEngine }, { MergingWarehouse }] = await Promise.all([
        import('./engine.ts'),
        import('../merging/warehouse.ts'),
      ]);
      const schema = schemaOf(destination, settings);
      return new MergingWarehouse(
        new SnowflakeEngine(context, settings, destination.id, schema),
        destination.id,
      );
    }),
};
