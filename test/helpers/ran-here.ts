import { runCli } from '@tributary/infra';

export interface Ran {
  /** Its exit code. */
  readonly code: number;
  /** The standard output. */
  readonly output: string;
  /** And to standard error; its logger, which writes there by itself, is not heard. */
  readonly log: string;
}

/**
 * Runs a command of `tributary` in this process, with the given environment and no other: a process of its own takes
 * seconds of a processor, most of them to load what is loaded here. For commands that end by themselves, one at a time.
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
