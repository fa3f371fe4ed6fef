import { BOARDS } from '@tributary/infra/deploy/grafana';
import type { Prometheus } from '../helpers/prometheus.ts';

/** Every query of every panel. */
export const QUERIES = BOARDS.flatMap(({ name, panels }) =>
  panels.flatMap(({ title, queries }) => queries.map(({ expr }) => ({ board: name, title, expr }))),
);

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
