import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

/** The folder into which a script of `.ci` installs programs, with this part in it; undefined without an installation. */
export function installedIn(name: string, part = ''): string | undefined {
  const folder = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'tributary', name);
  return existsSync(join(folder, part)) ? folder : undefined;
}

/** Starts a server that prints its port. */
export async function startPrinting(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Promise<{ readonly port: number; stop(): Promise<void> }> {
  const child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const closed = once(child, 'close');
  let errors = '';
  child.stderr.on('data', (text) => {
    errors = `${errors}${String(text)}`.slice(-10_000);
  });
  const lines = createInterface({ input: child.stdout });
  const port = Number(await Promise.race([once(lines, 'line'), closed.then(() => undefined)]));
  if (!Number.isInteger(port) || port === 0) throw new Error(`${command} did not start: ${errors}`);
  return {
    port,
    async stop() {
      child.kill();
      await closed;
    },
  };
}
