import { setTimeout as sleep } from 'node:timers/promises';

/**
 * An even pace from now on: the returned function resolves when event number `n` is due, or at once if that
 * time has passed. A late event does not delay later ones.
 */
export function evenPace(perSecond: number): (n: number) => Promise<void> {
  const startedAt = performance.now();
  return (n) => sleep(Math.max(0, startedAt + (n * 1_000) / perSecond - performance.now()));
}
