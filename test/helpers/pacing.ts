import { setTimeout as sleep } from 'node:timers/promises';

/**
 * An even pace from now on: the returned function resolves when event number `n` is due, or at once if that
 * time has passed. A late event does not delay later ones.
 */
export function evenPace(perSecond: number): (n: number) => Promise<void> {
  const startedAt = performance.now();
  return (n) => sleep(Math.max(0, startedAt + (n * 1_000) / perSecond - performance.now()));
}

/**
 * Waits before so many are sent, so that at most `perSecond` are in a second; unlike `evenPace` it does not catch up after a
 * pause.
 */
export function atMost(perSecond: number): (count: number) => Promise<void> {
  let free = performance.now();
  return async (count) => {
    free = Math.max(free, performance.now()) + (count / perSecond) * 1_000;
    await sleep(Math.max(0, free - performance.now()));
  };
}
