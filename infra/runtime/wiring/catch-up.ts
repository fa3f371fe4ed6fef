import type { Catalog } from '@tributary/core';
import { type Patience, whenAvailable } from '../process/patience.ts';

const SHORTEST_MS = 1_000;

/** Waits until the catalog was read up to where it ends now. */
export function catchUp(catalog: Catalog, patience: Patience): Promise<void> {
  return whenAvailable('reading the catalog', patience, () =>
    catalog.catchUp(Math.max(SHORTEST_MS, patience.deadline - performance.now())),
  );
}
