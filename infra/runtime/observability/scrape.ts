import { setTimeout as sleep } from 'node:timers/promises';
import { type Logger, messageOf } from '@tributary/core';
import { createMetrics, exposition, type MetricsSnapshot } from './metrics.ts';

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
        'metrics are not reported: the last known ones are served',
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

async function settledWithin(promises: readonly Promise<unknown>[], ms: number): Promise<void> {
  const over = new AbortController();
  const timeout = sleep(ms, undefined, { signal: over.signal }).catch(() => {});
  await Promise.race([Promise.all(promises), timeout]);
  over.abort();
}
