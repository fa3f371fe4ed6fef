// Runs alone in the long form: it installs all packages and builds the console and the site, with every processor there is.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startEmbedded } from '../helpers/embedded.ts';
import { temporaryFolder } from '../helpers/folder.ts';
import { environmentWith, HAS_RELEASES } from '../helpers/node-release.ts';
import type { Tributary } from '../helpers/running-tributary.ts';

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const INSTALLED_WITHIN_MS = 20 * 60_000;

/** The installation command that the checklist for one machine runs in a clone. */
async function installation(): Promise<string> {
  const checklist = await readFile(join(ROOT, 'docs/operations/one-machine.md'), 'utf8');
  const found = /^ *(npm ci && .*npm prune --omit=dev)$/m.exec(checklist)?.[1];
  if (found === undefined) throw new Error('the checklist installs nothing');
  return found;
}

describe.skipIf(!HAS_RELEASES)('the installation of one machine, without development dependencies', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let clone: string;
  let tributary: Tributary & { readonly consoleLink: string };
  beforeAll(async () => {
    folder = await temporaryFolder();
    // As a home is: where root starts the program, the sandbox runs as the user nobody, which must reach its files.
    await chmod(folder.path, 0o755);
    clone = join(folder.path, 'clone');
    await run('git', ['clone', '--quiet', ROOT, clone]);
    const env = await environmentWith(join(folder.path, 'node'), { node: '20', npm: '10' });
    await run('bash', ['-c', await installation()], { cwd: clone, env, maxBuffer: 2 ** 26 });
    tributary = await startEmbedded(join(folder.path, 'data'), {}, join(clone, 'infra/runtime/main.ts'));
  }, INSTALLED_WITHIN_MS);
  afterAll(async () => {
    await tributary?.stop();
    await folder.remove();
  });

  it('has no tools to build with', () => {
    for (const tool of ['vite', 'turbo', 'typescript', 'vitest', 'playwright-core'])
      expect(existsSync(join(clone, 'node_modules', tool)), tool).toBe(false);
  });

  it.each(['/console/', '/guide/'])('serves the pages below %s and all that they load', async (path) => {
    const html = await (await fetch(`${tributary.url}${path}`)).text();
    const loaded = [...html.matchAll(/<(?:script|link)[^>]* (?:src|href)="(\/[^"]+)"/g)].map(
      ([, url]) => url,
    );
    expect(loaded.length).toBeGreaterThan(1);
    for (const url of loaded) expect((await fetch(`${tributary.url}${url}`)).status, url).toBe(200);
  });

  it('signs in to the console by the printed link, and takes an event', async () => {
    expect(tributary.consoleLink).toMatch(/\/console\/#secret=./);
    const body = await tributary.producer.post<{ readonly status: string }>('./events/track', {
      event: 'Installed',
      user_id: 'u1',
    });
    expect(body.status).toBe('received');
  });
});
