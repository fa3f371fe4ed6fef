// Runs alone in the long form: it installs and builds everything three times.
import { execFile, spawn } from 'node:child_process';
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import { freePort } from '../engines/engine-process.ts';
import { pidOf } from '../helpers/child.ts';
import { welcomed } from '../helpers/embedded.ts';
import { temporaryFolder } from '../helpers/folder.ts';
import { environmentWith, HAS_RELEASES, RELEASES } from '../helpers/node-release.ts';
import { findProgram, pythonWithSdks } from '../sdks/programs.ts';
import { guides } from './blocks.ts';
import { Reader, type Started } from './reader.ts';

/*
 * From a clean clone, with the Node and npm of each supported release and otherwise the programs of Debian: the two
 * commands, and then every guide that needs no other engine. Takes the commit that is checked out.
 */

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const WITHIN_MS = 3_600_000;

const python = findProgram('python3');
const chromium = findProgram('chromium', 'google-chrome');
const NEEDS: Readonly<Record<string, unknown>> = { 'server-sdks': python, 'browser-site': chromium };
/** Has a database, which guides.spec.ts starts. */
const WITH_ENGINES = new Set(['a-shop']);

/** `npm start` in a clone. `warnings` are what it wrote to standard error. */
async function start(
  clone: string,
  env: NodeJS.ProcessEnv,
): Promise<Started & { readonly warnings: string }> {
  const child = spawn('npm', ['start'], {
    cwd: clone,
    env: { ...env, PORT: String(await freePort()), TRIBUTARY_ADMIN_PORT: String(await freePort()) },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  let output = '';
  let warnings = '';
  const ready = new Promise<void>((resolve, reject) => {
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString('utf8');
      if (output.includes('Stop with Ctrl-C')) resolve();
    });
    child.stderr.on('data', (chunk: Buffer) => {
      warnings += chunk.toString('utf8');
    });
    void ended.then(() => reject(new Error(`npm start has ended:\n${output}\n${warnings}`)));
  });
  await ready;
  return {
    ...welcomed(output),
    warnings,
    async stop() {
      process.kill(-pidOf(child), 'SIGTERM');
      await ended;
    },
  };
}

describe.skipIf(!HAS_RELEASES).each(RELEASES)('with Node $node and its npm', (release) => {
  it(
    'a clean clone is installed, started and read through without a warning',
    async () => {
      const folder = await temporaryFolder();
      onTestFinished(() => folder.remove());
      // As a home is: where root starts the program, the sandbox runs as the user nobody, which must reach its files.
      chmodSync(folder.path, 0o755);
      const env = await environmentWith(join(folder.path, 'node'), release);
      const clone = join(folder.path, 'clone');
      await run('git', ['clone', '--quiet', ROOT, clone]);
      const { stdout, stderr } = await run('npm', ['ci'], { cwd: clone, env, maxBuffer: 2 ** 26 });
      expect(`${stdout}${stderr}`).not.toMatch(/warn|EBADENGINE|deprecated/i);

      const started = await start(clone, env);
      const interpreter = python === undefined ? undefined : pythonWithSdks(python);
      const programs = { curl: findProgram('curl') ?? '', chromium, python: interpreter };
      const reader = new Reader(clone, started, programs, env.PATH);
      try {
        expect(started.warnings).not.toMatch(/warn/i);
        for (const guide of guides()) {
          if (WITH_ENGINES.has(guide) || (guide in NEEDS && NEEDS[guide] === undefined)) continue;
          for (const { difference, faults } of await reader.follow(guide, {}))
            expect({ difference, faults }, guide).toEqual({ difference: undefined, faults: [] });
        }
      } finally {
        await reader.close();
      }
    },
    WITHIN_MS,
  );
});
