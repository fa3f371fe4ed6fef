import { Unavailable, WarehouseRefused, type WarehouseTest } from '@tributary/core';

/** The result of a connection test: what somebody has to change or to wait for is its reason. */
export async function tested(attempt: Promise<void>): Promise<WarehouseTest> {
  try {
    await attempt;
    return { ok: true };
  } catch (error) {
    if (error instanceof Unavailable || error instanceof WarehouseRefused)
      return { ok: false, reason: error.message };
    throw error;
  }
}
