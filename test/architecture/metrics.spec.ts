import { readFile } from 'node:fs/promises';
import { METRICS, type MetricDescription } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { describeMetrics } from './metric-reference.ts';

const DEPLOY = new URL('../../infra/deploy/', import.meta.url);

/** What Prometheus puts behind the name of a histogram. */
const OF_HISTOGRAM = /_(bucket|count|sum)$/;

interface Rules {
  readonly groups: readonly {
    readonly rules: readonly { readonly alert: string; readonly expr: string }[];
  }[];
}

it('docs/metrics.md is what the catalogue says', async () => {
  await expect(describeMetrics()).toMatchFileSnapshot('../../docs/metrics.md');
});

describe('alerts', async () => {
  const { groups } = parse(await readFile(new URL('alerts.yaml', DEPLOY), 'utf8')) as Rules;
  const metrics: Readonly<Record<string, MetricDescription>> = METRICS;

  it.each(groups.flatMap(({ rules }) => rules))(
    '$alert asks for figures and labels that there are',
    ({ expr }) => {
      const names = [...expr.matchAll(/tributary_[a-z_]+/g)].map(([name]) => name);
      expect(names).not.toEqual([]);
      const labels = new Set(['le']);
      for (const name of names) {
        const metric = metrics[name] ?? metrics[name.replace(OF_HISTOGRAM, '')];
        expect(metric, name).toBeDefined();
        expect(OF_HISTOGRAM.test(name), name).toBe(metric?.kind === 'histogram');
        for (const label of Object.keys(metric?.labels ?? {})) labels.add(label);
      }
      const asked = [
        ...[...expr.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list = '']) => list.split(', ')),
        ...[...expr.matchAll(/\{([a-z_]+)[=!~]/g)].map(([, label = '']) => label),
      ];
      for (const label of asked) expect([...labels]).toContain(label);
    },
  );
});
