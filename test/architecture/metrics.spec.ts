import { readFile } from 'node:fs/promises';
import { METRICS, type MetricDescription } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';

const DEPLOY = new URL('../../infra/deploy/', import.meta.url);

/** The suffixes that Prometheus appends to the name of a histogram. */
const OF_HISTOGRAM = /_(bucket|count|sum)$/;

interface Rules {
  readonly groups: readonly {
    readonly rules: readonly { readonly alert: string; readonly expr: string }[];
  }[];
}

const INTRODUCTION = [
  '# Metrics',
  'Every process reports its own at `/metrics` of its admin port, computed at most once a second; add up those of several processes, but for (max) and (min). `_total` ends the names of counters, `_duration_seconds` those of histograms; the others are gauges. There are also `process_…` and `nodejs_…`. [infra/deploy/alerts.yaml](../../infra/deploy/alerts.yaml) has alert rules. Made from `core/ports/observability.ts` by `test/architecture/metrics.spec.ts` with `-u`.',
];

const ALL = Object.entries<MetricDescription>(METRICS);
const labelled = (label: string, meaning: string) => `\`${label}\`: ${meaning}`;

/** Labels that mean the same in several metrics, which are explained once. */
const COMMON = [
  ...new Set(
    ALL.flatMap(([, { labels = {} }]) =>
      Object.entries(labels).map(([label, text]) => labelled(label, text)),
    ),
  ),
].filter(
  (one, at, every) =>
    every.findIndex((other) => other.split(':')[0] === one.split(':')[0]) === at &&
    ALL.filter(([, { labels = {} }]) =>
      Object.entries(labels).some(([label, text]) => labelled(label, text) === one),
    ).length > 1,
);

/** Every metric with its labels, in Markdown. */
function describeMetrics(): string {
  const rows = ALL.map(([name, { help, labels = {} }]) => {
    const own = Object.entries(labels).filter(([label, text]) => !COMMON.includes(labelled(label, text)));
    const names = Object.keys(labels).join(',');
    const described = own.map(([label, text]) => `${labelled(label, text)}.`);
    return `- \`${name}${names === '' ? '' : `{${names}}`}\`: ${[help, ...described].join(' ')}`;
  });
  return `${[...INTRODUCTION, `Labels that are not explained:\n\n${COMMON.map((one) => `- ${one}`).join('\n')}`, 'The metrics:', rows.join('\n')].join('\n\n')}\n`;
}

it('docs/reference/metrics.md is made of the catalogue', async () => {
  await expect(describeMetrics()).toMatchFileSnapshot('../../docs/reference/metrics.md');
});

it.each(Object.entries<MetricDescription>(METRICS))('%s is named as Prometheus advises', (name, { kind }) => {
  expect(name).toMatch(/^tributary(_[a-z]+)+$/);
  expect(name.endsWith('_total')).toBe(kind === 'counter');
  expect(name.endsWith('_duration_seconds') && kind !== 'gauge').toBe(kind === 'histogram');
  expect(name).not.toMatch(/_(ms|millis|milliseconds|minutes|hours|kb|mb)(_|$)/);
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
