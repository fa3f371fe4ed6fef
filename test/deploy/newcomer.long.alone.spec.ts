// Runs alone in the long form: it installs all packages and builds the console, with every processor there is.
import { execFile } from 'node:child_process';
import { chmodSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { freePort } from '../engines/engine-process.ts';
import { temporaryFolder } from '../helpers/folder.ts';
import { environmentWith, HAS_RELEASES, RELEASES } from '../helpers/node-release.ts';
import { Terminal, whyNoTerminal } from '../helpers/terminal.ts';

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const INSTALLED_WITHIN_MS = 20 * 60_000;

/** Output of npm and Node that calls for attention. */
const COMPLAINT = /npm (warn|error|notice)|EBADENGINE|deprecat|Warning|"level"|^error|✗/im;

const noTerminal = whyNoTerminal();
const skipped = HAS_RELEASES ? noTerminal : 'this is no Linux on x64';
if (skipped !== undefined) console.warn(`SKIPPED, as ${skipped}: the first minutes with Node 20, 22 and 24`);

describe.skipIf(skipped !== undefined)('from a clean clone', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  beforeAll(async () => {
    folder = await temporaryFolder();
    // As a home is: where root starts the program, the sandbox runs as the user nobody, which must reach its files.
    chmodSync(folder.path, 0o755);
  });
  afterAll(() => folder.remove());

  it.each(RELEASES)(
    'the two commands of the README warn of nothing with Node $node and npm $npm',
    async (release) => {
      const { node, npm } = release;
      const clone = join(folder.path, `clone-${node}`);
      await run('git', ['clone', '--quiet', ROOT, clone]);
      onTestFinished(() => rm(clone, { recursive: true, force: true }));
      const env = await environmentWith(join(folder.path, `node-${node}`), release);
      const versions = await run('sh', ['-c', 'node --version; npm --version'], { env });
      expect(versions.stdout).toMatch(new RegExp(`^v${node}\\..*\n${npm}\\.`));

      const server = new Terminal('npm ci && npm start', {
        cwd: clone,
        env: { ...env, PORT: String(await freePort()) },
      });
      onTestFinished(() => server.close());
      await server.shows(/Stop with Ctrl-C/, INSTALLED_WITHIN_MS);
      expect(server.shown).toContain('Building the console, this first time only...');

      const [, curl = ''] = await server.shows(/^ {2}(curl .+)$/m);
      await run('bash', ['-c', `${curl} -sS --fail-with-body`]);
      await server.shows(/^The first event is here: track "Signed Up" from ada, accepted/m);

      const token = new Terminal('npm run --silent token', { cwd: clone, env });
      expect(await token.ended()).toBe(0);
      expect(token.shown).toContain('admin of Quickstart');
      expect(await server.interrupt()).toBe(0);
      expect(server.shown).toContain('Stopped. Everything is kept in');
      for (const { shown } of [server, token]) expect(shown).not.toMatch(COMPLAINT);
    },
    INSTALLED_WITHIN_MS + 5 * 60_000,
  );
});
