import { type Labels, METRICS, type Metrics } from '@tributary/core';
import {
  AggregatorRegistry,
  Counter,
  collectDefaultMetrics,
  Gauge,
  Histogram,
  type MetricObjectWithValues,
  Registry,
} from 'prom-client';

/** The figures of one thread, in a form that passes between threads. */
export type MetricsSnapshot = readonly object[];

export interface PrometheusMetrics extends Metrics {
  snapshot(): Promise<MetricsSnapshot>;
}

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Registers each metric at its first use; the labels of that use are the metric's labels from then on. */
export function createMetrics(options: { readonly processMetrics: boolean }): PrometheusMetrics {
  const registry = new Registry();
  if (options.processMetrics) collectDefaultMetrics({ register: registry });
  const counters = new Map<string, Counter>();
  const gauges = new Map<string, Gauge>();
  const histograms = new Map<string, Histogram>();

  const shape = (name: keyof typeof METRICS, labels: Labels) => ({
    name,
    help: METRICS[name].help,
    labelNames: Object.keys(labels),
    registers: [registry],
  });
  const obtain = <M>(known: Map<string, M>, name: string, make: () => M): M => {
    const found = known.get(name) ?? make();
    known.set(name, found);
    return found;
  };

  return {
    count(name, given, by = 1) {
      const labels: Labels = given ?? {};
      obtain(counters, name, () => new Counter(shape(name, labels))).inc(labels, by);
    },
    gauge(name, value, labels = {}) {
      obtain(gauges, name, () => new Gauge(shape(name, labels))).set(labels, value);
    },
    removeGauge(name, labels) {
      gauges.get(name)?.remove(labels);
    },
    observe(name, seconds, given) {
      const labels: Labels = given ?? {};
      obtain(histograms, name, () => new Histogram({ ...shape(name, labels), buckets: SECONDS })).observe(
        labels,
        seconds,
      );
    },
    snapshot: () => registry.getMetricsAsJSON(),
  };
}

/** The text exposition of several threads' figures together. */
export async function exposition(
  snapshots: readonly MetricsSnapshot[],
): Promise<{ contentType: string; body: string }> {
  const merged = AggregatorRegistry.aggregate(snapshots as MetricObjectWithValues<never>[][]);
  return { contentType: merged.contentType, body: await merged.metrics() };
}
