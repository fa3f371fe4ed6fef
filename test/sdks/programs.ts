import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';

/** The folder of the SDKs of other languages, shared by all runs. */
const CACHE = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'tributary', 'sdks');

const PYTHON_SDKS = ['segment-analytics-python==2.4.0', 'rudder-sdk-python==2.1.9'];

/**
 * The path of the first of these programs on the machine. Without one, the tests that need it are skipped
 * with a warning; in CI the run fails, because `.ci/run` is to install it.
 */
export function findProgram(...names: readonly string[]): string | undefined {
  for (const folder of (process.env.PATH ?? '').split(delimiter))
    for (const name of names) if (existsSync(join(folder, name))) return join(folder, name);
  const missing = `${names.join(' or ')} is not on the PATH`;
  if (process.env.CI !== undefined) throw new Error(missing);
  console.warn(`${missing}: the tests of SDKs that need it are skipped`);
  return undefined;
}

/** A Python environment with the SDKs of PyPI, created if it does not exist. */
export function pythonWithSdks(python: string): string {
  const folder = join(CACHE, `python-${PYTHON_SDKS.join('-').replaceAll(/[^\w.-]/g, '_')}`);
  const own = join(folder, 'bin', 'python');
  const done = join(folder, 'done');
  if (!existsSync(done)) {
    execFileSync(python, ['-m', 'venv', '--clear', folder], { stdio: 'pipe' });
    const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...PYTHON_SDKS];
    execFileSync(own, pip, { stdio: 'pipe' });
    execFileSync(own, ['-c', `open(${JSON.stringify(done)}, "w").close()`]);
  }
  return own;
}

/** The sender in Go, built. */
export function buildGoSender(go: string): string {
  const built = join(CACHE, 'go-sender');
  const cwd = new URL('senders/go', import.meta.url).pathname;
  execFileSync(go, ['build', '-o', built, '.'], { cwd, stdio: 'pipe' });
  return built;
}
