import { METRICS, type MetricDescription } from '@tributary/core';

/** Every figure with its labels, in Markdown: `docs/metrics.md`. */
export function describeMetrics(): string {
  const rows = Object.entries<MetricDescription>(METRICS).map(
    ([name, { kind, help, labels = {} }]) => `| \`${name}\` | ${kind} | ${help} | ${labelsOf(labels)} |`,
  );
  const table = ['| name | kind | what it is | labels |', '|---|---|---|---|', ...rows];
  return `${[...INTRODUCTION, table.join('\n')].join('\n\n')}\n`;
}

function labelsOf(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([name, says]) => `\`${name}\`: ${says}`)
    .join('; ');
}

const INTRODUCTION = [
  '# Figures',
  'Every process tells its own at `/metrics` of its admin port (`TRIBUTARY_ADMIN_PORT`), for Prometheus, computed at most once a second; add up what several say, but for the lag. Made from `core/metrics/catalogue.ts`; `test/architecture/metrics.spec.ts` keeps it up to date, and writes it anew when run with `-u`. A figure is there from its first use on, those of time as histograms in seconds; besides these there are those of the process, `process_…` and `nodejs_…`. [infra/deploy/alerts.yaml](../infra/deploy/alerts.yaml) has rules for what an operator should be woken for.',
];
