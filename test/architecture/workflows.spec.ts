import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** The version that `.ci/actionlint` installs. */
const VERSION = '1.7.12';
const actionlint = join(
  process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'),
  `tributary/actionlint-${VERSION}/actionlint`,
);
// It is a Go program: a machine without Go cannot build it, and nothing else here needs Go.
const isInstalled = existsSync(actionlint);
if (!isInstalled) console.warn('actionlint is SKIPPED: `bash .ci/actionlint` installs it where there is Go');

it.skipIf(!isInstalled)('actionlint finds nothing in the workflows', () => {
  const { status, stdout, stderr } = spawnSync(actionlint, ['-no-color'], { cwd: root, encoding: 'utf8' });
  expect(stdout + stderr).toBe('');
  expect(status).toBe(0);
});

it('every workflow states its permissions, and none may write by default', () => {
  const folder = join(root, '.github/workflows');
  for (const file of readdirSync(folder)) {
    const text = readFileSync(join(folder, file), 'utf8');
    expect(text, file).toMatch(/^permissions:\n {2}contents: read$/m);
  }
});
