import type { Catalog } from '@tributary/core';

/** Whether a process may be given work; `checks` says why, per part. Only configuration and catalog gate. */
export interface Readiness {
  readonly ready: boolean;
  readonly checks: Readonly<Record<string, string>>;
}

/** As far as the catalog goes. `engines` are reported and gate nothing: an outage takes no process out. */
export function catalogReadiness(
  { ready }: Pick<Catalog, 'ready'>,
  engines: Readonly<Record<string, string>> = {},
): Readiness {
  return { ready, checks: { catalog: ready ? 'caught up' : 'catching up', ...engines } };
}
