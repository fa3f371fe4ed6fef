import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Metrics } from '@tributary/core';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));

/** Digits of a commit that are shown. */
const DIGITS = 12;

export type BuildRole = 'dev' | 'serve' | 'gateway' | 'processor';

/** The release, commit and version of Node that this process runs. */
export function buildOf() {
  return {
    version: packageVersion(),
    commit: commitOf(ROOT) ?? null,
    node: process.versions.node,
  };
}

/** Sets the build info metric. */
export function reportBuild(metrics: Metrics, role: BuildRole): void {
  const { version, commit, node } = buildOf();
  metrics.gauge('tributary_build_info', 1, { version, commit: commit ?? 'unknown', node, role });
}

/** The version, with the commit where it is known. */
export function buildVersion(): string {
  const commit = commitOf(ROOT);
  return commit === undefined ? packageVersion() : `${packageVersion()} (${commit})`;
}

/** The commit that an installation is made of: git knows it in a clone, the file `commit` names it in an image. */
export function commitOf(folder: string): string | undefined {
  const named = existsSync(join(folder, '.git')) ? commitOfClone(folder) : commitOfImage(folder);
  return /^[0-9a-f]{7,64}$/.test(named) ? named.slice(0, DIGITS) : undefined;
}

function commitOfClone(folder: string): string {
  const { status, stdout } = spawnSync('git', ['-C', folder, 'rev-parse', 'HEAD'], { encoding: 'utf8' });
  return status === 0 ? stdout.trim() : '';
}

function commitOfImage(folder: string): string {
  const file = join(folder, 'commit');
  return existsSync(file) ? readFileSync(file, 'utf8').trim() : '';
}

function packageVersion(): string {
  const manifest = readFileSync(join(ROOT, 'infra', 'package.json'), 'utf8');
  return (JSON.parse(manifest) as { readonly version: string }).version;
}
