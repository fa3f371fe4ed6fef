import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

const LOOK_EVERY_MS = 2;
const LOOKS = 2_500;

/**
 * Resolves once all threads of a process have stopped after a SIGSTOP. The signal is still in flight when
 * `kill` returns, and on a busy machine a thread may answer one more client meanwhile. Without `/proc` it
 * resolves at once; after five seconds it rejects.
 */
export async function untilHalted(pid: number): Promise<void> {
  for (let look = 0; look < LOOKS; look++) {
    const states = await threadStates(pid);
    if (states.every((state) => state === 'T')) return;
    await sleep(LOOK_EVERY_MS);
  }
  throw new Error(`process ${pid} was sent a SIGSTOP and did not halt`);
}

/** The letters of `proc(5)`, e.g. `S` (sleeps) or `T` (halted by a signal). */
async function threadStates(pid: number): Promise<readonly string[]> {
  const threads = await readdir(`/proc/${pid}/task`).catch(() => []);
  return Promise.all(
    threads.map(async (thread) => {
      const stat = await readFile(`/proc/${pid}/task/${thread}/stat`, 'utf8').catch(() => '');
      return stateOf(stat) ?? 'T'; // an ended thread counts as stopped
    }),
  );
}

/** The name before the state is in brackets and may contain any character. */
function stateOf(stat: string): string | undefined {
  return stat.slice(stat.lastIndexOf(')') + 1).trimStart()[0];
}
