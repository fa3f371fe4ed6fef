import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

const VERSION = '4.32.5';

/** How to start schemathesis. */
export interface Installation {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** The path in which `.ci/schemathesis` installs it; undefined without an installation. */
export function findSchemathesis(
  env: Readonly<Record<string, string | undefined>>,
): Installation | undefined {
  const folder = join(
    env.XDG_CACHE_HOME ?? join(homedir(), '.cache'),
    'tributary',
    `schemathesis-${VERSION}`,
  );
  const script = join(folder, 'bin', 'schemathesis');
  if (!existsSync(script)) return undefined;
  return { command: 'python3', args: [script], env: { PYTHONPATH: folder, PYTHONDONTWRITEBYTECODE: '1' } };
}
