import type { ChildProcess } from 'node:child_process';

/** Throws if the process was never started. A signal to 0 instead would go to the whole process group of the tests. */
export function pidOf({ pid, spawnfile }: ChildProcess): number {
  if (pid === undefined) throw new Error(`${spawnfile} was not started`);
  return pid;
}
