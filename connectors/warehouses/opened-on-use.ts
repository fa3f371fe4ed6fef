import type { Warehouse, WarehouseLimits } from '@tributary/core';

/** A warehouse whose driver is loaded, and whose settings are read, by `open` at the first call. */
export function openedOnUse(limits: WarehouseLimits, open: () => Promise<Warehouse>): Warehouse {
  let opening: Promise<Warehouse> | undefined;
  const engine = () => {
    opening ??= open();
    return opening;
  };
  return {
    limits,
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
