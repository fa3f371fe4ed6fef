import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { pidOf } from '../helpers/child.ts';

/** kafkajs sets a timer with a negative delay at its start, and Node warns about that. */
const FLAGS = ['--disable-warning=ExperimentalWarning', '--disable-warning=TimeoutNegativeWarning'];

/** A program of the bench in its own process; `hello` is the line of JSON it printed when it was ready. */
export interface BenchProcess<Hello> {
  readonly hello: Hello;
  readonly pid: number;
  stop(): Promise<void>;
}

export async function startProcess<Hello>(
  file: string,
  env: NodeJS.ProcessEnv = {},
  args: readonly string[] = [],
): Promise<BenchProcess<Hello>> {
  const path = fileURLToPath(new URL(file, import.meta.url));
  const child = spawn(process.execPath, [...FLAGS, path, ...args], {
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const first = await Promise.race([
    lines.next(),
    exited.then(() => ({ done: true as const, value: undefined })),
  ]);
  if (first.done) throw new Error(`${file} ended before it was ready`);
  return {
    hello: JSON.parse(first.value) as Hello,
    pid: pidOf(child),
    async stop() {
      child.kill('SIGTERM');
      await exited;
    },
  };
}
