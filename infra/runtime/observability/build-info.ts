import { readFileSync } from 'node:fs';
import type { Metrics } from '@tributary/core';

const PACKAGE = new URL('../../package.json', import.meta.url);

/** Says at `/metrics` what runs. */
export function reportBuild(metrics: Metrics, role: 'dev' | 'gateway' | 'processor'): void {
  const { version } = JSON.parse(readFileSync(PACKAGE, 'utf8')) as { readonly version: string };
  metrics.gauge('tributary_build_info', 1, { version, node: process.versions.node, role });
}
