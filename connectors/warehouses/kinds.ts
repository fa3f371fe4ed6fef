import { WarehouseRefused } from '@tributary/core';
import { NOT_VALID } from '../failures.ts';
import type { WarehouseKind } from '../kind.ts';
import { bigquery } from './bigquery/settings.ts';
import { clickhouse } from './clickhouse/settings.ts';
import type { Open, WarehouseEngine, WarehouseSettings } from './kind.ts';
import { lake } from './lake/settings.ts';
import { postgresql } from './postgresql/settings.ts';
import { redshift } from './redshift/settings.ts';
import { snowflake } from './snowflake/settings.ts';

/** All kinds of warehouses. A new kind is a folder and a line here. */
export const WAREHOUSE_KINDS: readonly WarehouseKind[] = [
  kindOf(lake, () => import('./lake/engine.ts')),
  kindOf(postgresql, () => import('./postgresql/engine.ts')),
  kindOf(redshift, () => import('./redshift/engine.ts')),
  kindOf(snowflake, () => import('./snowflake/engine.ts')),
  kindOf(clickhouse, () => import('./clickhouse/engine.ts')),
  kindOf(bigquery, () => import('./bigquery/engine.ts')),
];

/** A kind whose driver is loaded, and whose settings are read, at the first call of a warehouse. */
function kindOf<Settings>(
  { description, limits, read, placeOf }: WarehouseSettings<Settings>,
  load: () => Promise<{ readonly open: Open<Settings> }>,
): WarehouseKind {
  return {
    description,
    open(context, destination) {
      let opening: Promise<WarehouseEngine> | undefined;
      const open = async () => {
        const settings = read(destination.settings);
        if (settings === undefined) throw new WarehouseRefused(NOT_VALID);
        const { id, workspaceId } = destination;
        return (await load()).open(context, settings, { id, workspaceId, place: placeOf(destination) });
      };
      const engine = () => {
        opening ??= open();
        return opening;
      };
      return {
        limits,
        // A lake in a folder of this machine.
        ...(destination.settings.folder === undefined ? {} : { storesHere: true }),
        newest: async (...args) => (await engine()).newest(...args),
        describe: async (...args) => (await engine()).describe(...args),
        alter: async (...args) => (await engine()).alter(...args),
        commit: async (...args) => (await engine()).commit(...args),
        delete: async (...args) => (await engine()).delete(...args),
        maintain: async (signal) => (await (await engine()).maintain?.(signal)) ?? false,
        test: async (...args) => (await engine()).test(...args),
        // One that could not be opened has nothing to close; its calls were told why.
        close: async () => (await opening?.catch(() => undefined))?.close(),
      };
    },
  };
}
