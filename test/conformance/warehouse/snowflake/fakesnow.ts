import { fileURLToPath } from 'node:url';
import { installedIn, startPrinting } from '../../../helpers/installed.ts';

const VERSION = '0.12.1';

/** The folder in which `.ci/fakesnow` installs it; undefined without an installation. */
export function findFakesnow(): string | undefined {
  return installedIn(`fakesnow-${VERSION}`, 'fakesnow');
}

/** Starts the server of `server.py`. */
export function startFakesnow(folder: string) {
  const script = fileURLToPath(new URL('server.py', import.meta.url));
  const env = { ...process.env, PYTHONPATH: folder, PYTHONDONTWRITEBYTECODE: '1' };
  return startPrinting('python3', ['-W', 'ignore', script], env);
}
