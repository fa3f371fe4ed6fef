import type { Catalog } from '@tributary/core';

/** Whether a process may be given work; `checks` says why, per part. Only configuration and catalog gate. */
export interface Readiness {
  readonly ready: boolean;
  readonly checks: Readonly<Record<string, string>>;
}

/** As far as the catalog goes. `engines` are reported and gate nothing: an outage takes no process out. */
export function catalogReadiness(
  catalog: Pick<Catalog, 'ready' | 'age' | 'fault'>,
  engines: Readonly<Record<string, string>> = {},
): Readiness {
  return { ready: catalog.ready, checks: { catalog: wordsFor(catalog), ...engines } };
}

/** Below this a process that is not ready is thought to be reading, not to be cut off, ms. */
const SILENCE_MS = 5_000;

function wordsFor({ ready, age, fault }: Pick<Catalog, 'ready' | 'age' | 'fault'>): string {
  if (ready) return 'caught up';
  if (fault !== undefined) return fault;
  return Number.isFinite(age) && age > SILENCE_MS
    ? `nothing heard of the log for ${Math.round(age / 1_000)} s`
    : 'catching up';
}
