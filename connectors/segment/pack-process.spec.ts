import { type ChildProcess, spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { afterEach, describe, expect, it } from 'vitest';

const THREAD = fileURLToPath(new URL('./pack-thread.fixture.ts', import.meta.url));
const IN_ANOTHER_PROCESS = `
  const { Worker } = require('node:worker_threads');
  new Worker(process.argv[1]);
`;

const begun: number[] = [];
afterEach(async () => {
  for (const pid of begun.splice(0)) if ((await stateOf(pid)) !== undefined) process.kill(pid, 'SIGKILL');
});

async function pidIn(output: NodeJS.ReadableStream): Promise<number> {
  for await (const line of createInterface({ input: output })) {
    begun.push(Number(line));
    return Number(line);
  }
  throw new Error('no process began');
}

/**
 * The process state from `/proc`; undefined once the process is gone. A process that ended but was never
 * reaped, because its thread is gone, is `Z`.
 */
async function stateOf(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  const state = stat?.slice(stat.lastIndexOf(')') + 2)[0];
  return state === 'Z' ? undefined : state;
}

/** A child sleeps (`S`) once it listens on its channel; loading its modules takes about a second. */
const loaded = (pid: number) => expect.poll(() => stateOf(pid)).toBe('S');
const gone = (pid: number) => expect.poll(() => stateOf(pid)).toBeUndefined();

describe('a process of the pack ends', () => {
  it('with the thread that began it, where that is ended', async () => {
    const worker = new Worker(THREAD, { stdout: true });
    const pid = await pidIn(worker.stdout);
    await loaded(pid);
    await worker.terminate();
    await gone(pid);
  });

  it('with the thread that began it, where that dies, also while it hears nothing', async () => {
    const worker = new Worker(THREAD, { stdout: true });
    const died = new Promise((resolve) => worker.once('error', resolve));
    const pid = await pidIn(worker.stdout);
    process.kill(pid, 'SIGSTOP');
    worker.postMessage('die');
    expect(await died).toMatchObject({ message: 'another connector of this thread failed' });
    await gone(pid);
  });

  it('with the process whose thread started it, also where that is killed', async () => {
    const other: ChildProcess = spawn(process.execPath, ['-e', IN_ANOTHER_PROCESS, THREAD], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    if (other.stdout === null) throw new Error('no output');
    const pid = await pidIn(other.stdout);
    await loaded(pid);
    other.kill('SIGKILL');
    await gone(pid);
  });
});
