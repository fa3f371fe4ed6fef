import { readdirSync, readFileSync } from 'node:fs';
import type { Prometheus } from '../helpers/prometheus.ts';

interface Board {
  readonly title: string;
  readonly panels: readonly {
    readonly title: string;
    readonly targets: readonly { readonly expr: string }[];
  }[];
}

const FOLDER = new URL('../../infra/deploy/grafana/', import.meta.url);

/** Every query of every panel. */
export const QUERIES = readdirSync(FOLDER).flatMap((file) => {
  const { title: board, panels }: Board = JSON.parse(readFileSync(new URL(file, FOLDER), 'utf8'));
  return panels.flatMap(({ title, targets }) => targets.map(({ expr }) => ({ board, title, expr })));
});

/** The queries without any value, but for those of the expected metrics. Grafana's times are shortened. */
export async function emptyPanels(prometheus: Prometheus, expected: RegExp): Promise<readonly string[]> {
  const empty: string[] = [];
  for (const { board, title, expr } of QUERIES) {
    if (expected.test(expr)) continue;
    const asked = expr.replaceAll('$__rate_interval', '10s').replaceAll('[1h]', '[30s]');
    const found = await prometheus.query(asked);
    if (found.every(({ value }) => Number.isNaN(value))) empty.push(`${board}, ${title}: ${expr}`);
  }
  return empty;
}
