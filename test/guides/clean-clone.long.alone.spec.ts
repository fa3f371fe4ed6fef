// Runs alone in the long form: it installs and builds everything three times.
import { execFile, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, symlinkSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import { welcomed } from '../helpers/embedded.ts';
import { freePort } from '../helpers/free-port.ts';
import { findProgram, pythonWithSdks } from '../sdks/programs.ts';
import { guides } from './blocks.ts';
import { Reader, type Started } from './reader.ts';

/*
 * From a clean clone, with the Node and npm of each supported release and otherwise the programs of Debian: the two
 * commands, and then every guide that needs no other engine. Takes the commit that is checked out.
 */

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const CACHE = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'tributary', 'readers');
/** The releases of Node, each with the npm that comes with it. */
const RELEASES = [
  { node: '20', npm: '10' },
  { node: '22', npm: '10' },
  { node: '24', npm: '11' },
] as const;
const WITHIN_MS = 3_600_000;

const python = findProgram('python3');
const chromium = findProgram('chromium', 'google-chrome');
const NEEDS: Readonly<Record<string, unknown>> = { 'server-sdks': python, 'browser-site': chromium };
/** Has a database, which guides.spec.ts starts. */
const WITH_ENGINES = new Set(['a-shop']);

/** A folder with `node` and `npm` of a release, from npm's registry. */
async function programsOf({ node, npm }: (typeof RELEASES)[number]): Promise<string> {
  const folder = join(CACHE, `node-${node}`);
  const bin = join(folder, 'bin');
  if (existsSync(bin)) return bin;
  mkdirSync(folder, { recursive: true });
  const packages = [`node-${process.platform}-${process.arch}@${node}`, `npm@${npm}`];
  await run('npm', ['install', '--prefix', folder, '--no-save', '--no-audit', '--no-fund', ...packages]);
  mkdirSync(`${bin}.new`, { recursive: true });
  const modules = join(folder, 'node_modules');
  symlinkSync(
    join(modules, `node-${process.platform}-${process.arch}`, 'bin', 'node'),
    join(`${bin}.new`, 'node'),
  );
  symlinkSync(join(modules, 'npm', 'bin', 'npm-cli.js'), join(`${bin}.new`, 'npm'));
  await run('mv', [`${bin}.new`, bin]);
  return bin;
}

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
      process.kill(-(child.pid ?? 0), 'SIGTERM');
      await ended;
    },
  };
}

describe.each(RELEASES)('with Node $node and its npm', (release) => {
  it(
    'a clean clone is installed, started and read through without a warning',
    async () => {
      const path = [await programsOf(release), '/usr/bin', '/bin'].join(':');
      // A home folder without anybody's settings, and the cache of packages of this machine.
      const HOME = mkdtempSync(join(tmpdir(), 'tributary-home-'));
      const env = { PATH: path, HOME, npm_config_cache: join(homedir(), '.npm') };
      const clone = mkdtempSync(join(tmpdir(), 'tributary-clone-'));
      onTestFinished(async () => {
        for (const folder of [HOME, clone]) await rm(folder, { recursive: true, force: true });
      });
      await run('git', ['clone', '--quiet', ROOT, clone]);
      const { stdout, stderr } = await run('npm', ['ci'], { cwd: clone, env, maxBuffer: 2 ** 26 });
      expect(`${stdout}${stderr}`).not.toMatch(/warn|EBADENGINE|deprecated/i);

      const started = await start(clone, env);
      const interpreter = python === undefined ? undefined : pythonWithSdks(python);
      const programs = { curl: findProgram('curl') ?? '', chromium, python: interpreter };
      const reader = new Reader(clone, started, programs, path);
      try {
        expect(started.warnings).not.toMatch(/warn/i);
        for (const guide of guides()) {
          if (WITH_ENGINES.has(guide) || (guide in NEEDS && NEEDS[guide] === undefined)) continue;
          const asItSays = { difference: undefined, faults: [] };
          expect(await reader.followTwice(guide, {}), guide).toMatchObject([asItSays, asItSays]);
        }
      } finally {
        await reader.close();
      }
    },
    WITHIN_MS,
  );
});
