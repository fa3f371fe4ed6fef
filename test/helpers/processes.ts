import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** Whether there is a process of that id. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/**
 * Resolves to true once the process or the path no longer exists, to false if it still does after ten
 * seconds.
 */
export async function isGone(what: number | string): Promise<boolean> {
  const deadline = Date.now() + 10_000;
  const there = () => (typeof what === 'number' ? isAlive(what) : existsSync(what));
  while (there() && Date.now() < deadline) await sleep(20);
  return !there();
}
