import { backoffMs, Unavailable } from '@tributary/core';

/** Somebody else wrote what this attempt relied on; whatever it did may be done again. */
export const AGAIN = Symbol('again');
export type Again = typeof AGAIN;

export interface Restarting {
  readonly clock: () => number;
  readonly pause: (ms: number) => Promise<void>;
  readonly random: () => number;
}

/** How long others may be faster before a call gives up. */
const PATIENCE_MS = 15_000;
/** The longest of the random pauses. */
const BACKOFF = { firstMs: 2, capMs: 200 };

/** Attempts until one comes through, with growing random pauses. `Unavailable` where others are faster all the time. */
export async function untilDone<T>(
  { clock, pause, random }: Restarting,
  attempt: () => Promise<T | Again>,
): Promise<T> {
  const startedAt = clock();
  for (let attempts = 0; ; attempts++) {
    const outcome = await attempt();
    if (outcome !== AGAIN) return outcome as T;
    if (clock() - startedAt > PATIENCE_MS)
      throw new Unavailable('the profile is written by too many others at once');
    await pause(random() * backoffMs(attempts, BACKOFF));
  }
}
