import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The release before this one, by its last commit; a clone may lack tags. */
const PREVIOUS = { version: '0.2.0', commit: '55013bb3' } as const;

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

/**
 * The main file of the release before this one, from the history of this clone, with its packages. It is kept in the
 * cache folder from one run to the next. Undefined, with a warning, in a clone without that history.
 */
export function previousRelease(): string | undefined {
  const cache = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'tributary');
  const folder = join(cache, `release-${PREVIOUS.version}-${PREVIOUS.commit}`);
  if (!existsSync(folder)) {
    try {
      execFileSync('git', ['cat-file', '-e', `${PREVIOUS.commit}^{commit}`], { cwd: ROOT, stdio: 'ignore' });
    } catch {
      console.warn(
        `this clone has no commit ${PREVIOUS.commit}: upgrades from ${PREVIOUS.version} are not tested`,
      );
      return undefined;
    }
    const unfinished = `${folder}.new`;
    rmSync(unfinished, { recursive: true, force: true });
    mkdirSync(unfinished, { recursive: true });
    const archive = execFileSync('git', ['archive', PREVIOUS.commit], { cwd: ROOT, maxBuffer: 2 ** 30 });
    execFileSync('tar', ['-x', '-C', unfinished], { input: archive });
    execFileSync('npm', ['ci', '--omit=dev', '--no-audit', '--no-fund'], { cwd: unfinished, stdio: 'pipe' });
    renameSync(unfinished, folder);
  }
  return join(folder, 'infra/runtime/main.ts');
}
