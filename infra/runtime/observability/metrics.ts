import { setTimeout as sleep } from 'node:timers/promises';
import { type Labels, type Logger, METRICS, type Metrics, messageOf } from '@tributary/core';
import {
  AggregatorRegistry,
  Counter,
  collectDefaultMetrics,
  Gauge,
  Histogram,
  type MetricObjectWithValues,
  Registry,
} from 'prom-client';

/** The metrics of one thread, in a form that passes between threads. */
export type MetricsSnapshot = readonly object[];

export interface PrometheusMetrics extends Metrics {
  snapshot(): Promise<MetricsSnapshot>;
}

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Gauges of prom-client with the suffix of counters, which are the sums of others. */
const MISNAMED = ['handles', 'requests', 'resources'].map((what) => `nodejs_active_${what}_total`);

/** Registers each metric on its first use, with the labels of that use. */
export function createMetrics(options: { readonly processMetrics: boolean }): PrometheusMetrics {
  const registry = new Registry();
  if (options.processMetrics) {
    collectDefaultMetrics({ register: registry });
    for (const name of MISNAMED) registry.removeSingleMetric(name);
  }
  const counters = new Map<string, Counter>();
  const gauges = new Map<string, Gauge>();
  const histograms = new Map<string, Histogram>();

  const shape = (name: keyof typeof METRICS, labels: Labels) => ({
    name,
    help: METRICS[name].help,
    labelNames: Object.keys(labels),
    registers: [registry],
  });
  const added = <M>(known: Map<string, M>, name: string, metric: M): M => {
    known.set(name, metric);
    return metric;
  };

  return {
    count(name, given, by = 1) {
      const labels: Labels = given ?? {};
      (counters.get(name) ?? added(counters, name, new Counter(shape(name, labels)))).inc(labels, by);
    },
    gauge(name, value, labels = {}) {
      (gauges.get(name) ?? added(gauges, name, new Gauge(shape(name, labels)))).set(labels, value);
    },
    removeGauge(name, labels) {
      gauges.get(name)?.remove(labels);
    },
    observe(name, seconds, given) {
      const labels: Labels = given ?? {};
      const found =
        histograms.get(name) ??
        added(histograms, name, new Histogram({ ...shape(name, labels), buckets: SECONDS }));
      found.observe(labels, seconds);
    },
    snapshot: () => registry.getMetricsAsJSON(),
  };
}

/** The text exposition of the metrics of several threads. */
export async function exposition(
  snapshots: readonly MetricsSnapshot[],
): Promise<{ contentType: string; body: string }> {
  const merged = AggregatorRegistry.aggregate(snapshots as MetricObjectWithValues<never>[][]);
  return { contentType: merged.contentType, body: await merged.metrics() };
}

/** The parts of a process that report metrics, e.g. `main` and `stages`; each one is a thread. */
export type MetricSources = Readonly<Record<string, () => Promise<MetricsSnapshot>>>;

export type Exposition = Awaited<ReturnType<typeof exposition>>;

/** An exposition is served again for this long, ms: scrapers share it, however many there are. */
const FRESH_MS = 1_000;
/** A scrape waits this long for a thread to report, ms. After that it serves the thread's last known values. */
const WAIT_MS = 500;

interface Known {
  readonly snapshot: MetricsSnapshot;
  /** When the thread was asked (epoch ms): the values are not older. */
  readonly askedAt: number;
}

export interface ScrapeOptions {
  readonly logger: Logger;
  readonly freshMs?: number;
  readonly waitMs?: number;
}

/**
 * Answers scrapes of `/metrics`.
 *
 * - The exposition is computed at most once in `freshMs`, whatever the number of scrapers.
 * - A thread that does not report within `waitMs` is served with its last known values, or left out before its first
 *   report. `tributary_metrics_collected_timestamp_seconds` states the age of each part.
 * - A silent thread has one request pending, never more.
 */
export function createScrape(
  sources: MetricSources,
  { logger, freshMs = FRESH_MS, waitMs = WAIT_MS }: ScrapeOptions,
): () => Promise<Exposition> {
  const known = new Map<string, Known>();
  const pending = new Map<string, Promise<void>>();
  const ages = createMetrics({ processMetrics: false });
  let last: { readonly exposition: Exposition; readonly at: number } | undefined;
  let underWay: Promise<Exposition> | undefined;

  const ask = async (part: string, report: () => Promise<MetricsSnapshot>) => {
    const askedAt = Date.now();
    try {
      known.set(part, { snapshot: await report(), askedAt });
    } catch (error) {
      logger.warn(
        { part, error: messageOf(error) },
        'metrics could not be collected: the last values are served',
      );
    } finally {
      pending.delete(part);
    }
  };
  const compute = async (): Promise<Exposition> => {
    for (const [part, report] of Object.entries(sources))
      if (!pending.has(part)) pending.set(part, ask(part, report));
    await settledWithin([...pending.values()], waitMs);
    for (const [part, { askedAt }] of known)
      ages.gauge('tributary_metrics_collected_timestamp_seconds', askedAt / 1_000, { part });
    const snapshots = [...known.values()].map(({ snapshot }) => snapshot);
    const computed = await exposition([...snapshots, await ages.snapshot()]);
    last = { exposition: computed, at: performance.now() };
    return computed;
  };

  return async () => {
    if (last !== undefined && performance.now() - last.at < freshMs) return last.exposition;
    underWay ??= compute().finally(() => {
      underWay = undefined;
    });
    return underWay;
  };
}

/** Waits for what is under way, and no longer than `ms`. */
export async function settledWithin(
  work: readonly (Promise<unknown> | undefined)[],
  ms: number,
): Promise<void> {
  const over = new AbortController();
  const timeout = sleep(ms, undefined, { signal: over.signal }).catch(() => {});
  await Promise.race([Promise.all(work), timeout]);
  over.abort();
}
