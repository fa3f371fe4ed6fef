import { setTimeout as sleep } from 'node:timers/promises';

/**
 * An even pace from now on: the function it returns resolves when event number `n` is due, at once where that time has
 * passed. A late event moves none of the later ones.
 */
export function evenPace(perSecond: number): (n: number) => Promise<void> {
  const startedAt = performance.now();
  return (n) => sleep(Math.max(0, startedAt + (n * 1_000) / perSecond - performance.now()));
}
