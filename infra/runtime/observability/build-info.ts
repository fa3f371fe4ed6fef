import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Metrics } from '@tributary/core';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));

/** Sets the build info metric. */
export function reportBuild(metrics: Metrics, role: 'dev' | 'serve' | 'gateway' | 'processor'): void {
  metrics.gauge('tributary_build_info', 1, { version: packageVersion(), node: process.versions.node, role });
}

/** The version, with the commit if this is a clone. */
export function buildVersion(): string {
  const commit = existsSync(join(ROOT, '.git'))
    ? spawnSync('git', ['-C', ROOT, 'rev-parse', '--short=12', 'HEAD'], { encoding: 'utf8' })
    : undefined;
  return commit?.status === 0 ? `${packageVersion()} (${commit.stdout.trim()})` : packageVersion();
}

function packageVersion(): string {
  const manifest = readFileSync(join(ROOT, 'infra', 'package.json'), 'utf8');
  return (JSON.parse(manifest) as { readonly version: string }).version;
}
