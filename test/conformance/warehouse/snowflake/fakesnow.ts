import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const VERSION = '0.12.1';

/** The folder in which `.ci/fakesnow` installs it; undefined without an installation. */
export function findFakesnow(): string | undefined {
  const cache = process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache');
  const folder = join(cache, 'tributary', `fakesnow-${VERSION}`);
  return existsSync(join(folder, 'fakesnow')) ? folder : undefined;
}

/** Starts the server of `server.py`. */
export async function startFakesnow(
  folder: string,
): Promise<{ readonly port: number; stop(): Promise<void> }> {
  const script = fileURLToPath(new URL('server.py', import.meta.url));
  const child = spawn('python3', ['-W', 'ignore', script], {
    env: { ...process.env, PYTHONPATH: folder, PYTHONDONTWRITEBYTECODE: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const closed = once(child, 'close');
  let errors = '';
  child.stderr.on('data', (text) => {
    errors = (errors + String(text)).slice(-10_000);
  });
  const lines = createInterface({ input: child.stdout });
  const port = Number(await Promise.race([once(lines, 'line'), closed.then(() => undefined)]));
  if (!Number.isInteger(port) || port === 0) throw new Error(`fakesnow did not start: ${errors}`);
  return {
    port,
    async stop() {
      child.kill();
      await closed;
    },
  };
}
