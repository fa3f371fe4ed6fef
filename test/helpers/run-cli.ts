import { runCli } from '@tributary/infra';

export interface Ran {
  /** Its exit code. */
  readonly code: number;
  /** The standard output. */
  readonly output: string;
  /** The standard error; without the output of its logger, which writes there directly. */
  readonly log: string;
}

/**
 * Runs a command of `tributary` in this process, with the given environment and no other: a separate process
 * takes seconds of processor time, mostly to load modules that are loaded here. For commands that end on
 * their own, one at a time.
 */
export async function ranHere(
  command: readonly string[],
  environment: Readonly<Record<string, string>>,
): Promise<Ran> {
  const told = { stdout: '', stderr: '' };
  const own = { stdout: process.stdout.write, stderr: process.stderr.write };
  const streams = ['stdout', 'stderr'] as const;
  for (const stream of streams)
    process[stream].write = (chunk: string | Uint8Array) => {
      told[stream] += typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8');
      return true;
    };
  try {
    const code = await runCli(command, environment);
    return { code, output: told.stdout, log: told.stderr };
  } finally {
    for (const stream of streams) process[stream].write = own[stream];
  }
}
