import { METRICS, NO_LOGGER } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { createMetrics, createScrape, exposition } from './metrics.ts';

it('every metric has a help text, and the values of several threads are added up', async () => {
  const threads = [0, 1].map(() => createMetrics({ processMetrics: false }));
  for (const metrics of threads) {
    metrics.count('tributary_events_replayed_total', {}, 2);
    metrics.observe('tributary_stage_commit_duration_seconds', 0.003, { stage: 'route' });
  }
  threads[0]?.gauge('tributary_stage_lag_records', 7, {
    stage: 'route',
    topic: 'events.accepted',
    partition: '0',
  });
  const { body } = await exposition(await Promise.all(threads.map((metrics) => metrics.snapshot())));
  expect(body).toContain(
    `# HELP tributary_stage_lag_records ${METRICS.tributary_stage_lag_records.help}\n# TYPE tributary_stage_lag_records gauge\n` +
      'tributary_stage_lag_records{stage="route",topic="events.accepted",partition="0"} 7\n',
  );
  expect(body).toContain('tributary_events_replayed_total 4\n');
  expect(body).toContain('tributary_stage_commit_duration_seconds_bucket{le="0.005",stage="route"} 2\n');
});

it('named gauges of the process as counters, which promtool check metrics complains of', async () => {
  const { body } = await exposition([await createMetrics({ processMetrics: true }).snapshot()]);
  const types = [...body.matchAll(/^# TYPE (\S+) (\S+)$/gm)];
  expect(types.length).toBeGreaterThan(20);
  for (const [, name = '', type] of types)
    expect([name, name.endsWith('_total')]).toEqual([name, type === 'counter']);
});

const collected = (body: string, part: string) =>
  Number(
    new RegExp(`^tributary_metrics_collected_timestamp_seconds\\{part="${part}"\\} (\\S+)$`, 'm').exec(
      body,
    )?.[1],
  );

function counting() {
  const metrics = createMetrics({ processMetrics: false });
  let asked = 0;
  return {
    get asked() {
      return asked;
    },
    report: () => {
      metrics.count('tributary_events_replayed_total', {}, 1);
      asked++;
      return metrics.snapshot();
    },
  };
}

describe('/metrics', () => {
  it('was computed for each of a thousand scrapers: they share one exposition', async () => {
    const main = counting();
    const scrape = createScrape({ main: main.report }, { logger: NO_LOGGER, freshMs: 60_000 });
    const answers = await Promise.all(Array.from({ length: 1_000 }, () => scrape()));
    answers.push(await scrape());
    expect(main.asked).toBe(1);
    expect(new Set(answers.map(({ body }) => body)).size).toBe(1);
    expect(answers[0]?.body).toContain('tributary_events_replayed_total 1\n');
  });

  it('did not answer while the thread of the stages was blocked: the last known values are served in time with their age', async () => {
    const [main, stages] = [counting(), counting()];
    let hangs = false;
    let asked = 0;
    const scrape = createScrape(
      {
        main: main.report,
        stages: () => {
          asked++;
          return hangs ? new Promise(() => {}) : stages.report();
        },
      },
      { logger: NO_LOGGER, freshMs: 0, waitMs: 50 },
    );
    const before = (await scrape()).body;
    hangs = true;
    const from = performance.now();
    const bodies = [(await scrape()).body, (await scrape()).body, (await scrape()).body];
    // A scrape of Prometheus waits 10 s.
    expect(performance.now() - from).toBeLessThan(10_000);
    const last = bodies.at(-1) ?? '';
    // Two parts with one event each at first. The reporting part continues; the silent one keeps its value.
    expect(before).toContain('tributary_events_replayed_total 2\n');
    expect(last).toContain('tributary_events_replayed_total 5\n');
    expect(collected(last, 'stages')).toBe(collected(before, 'stages'));
    expect(collected(last, 'main')).toBeGreaterThan(collected(before, 'main'));
    // One request to the silent thread is pending, however many scrapes there were.
    expect(asked).toBe(2);
  });

  it('failed if one part of the process failed: the others are served, and the log names the part', async () => {
    const warned: unknown[] = [];
    const logger = { ...NO_LOGGER, warn: (fields: object) => warned.push(fields) };
    const broken = async () => Promise.reject(new Error('no room'));
    const { body } = await createScrape({ main: counting().report, stages: broken }, { logger })();
    expect(body).toContain('tributary_events_replayed_total 1\n');
    expect(body).not.toContain('part="stages"');
    expect(warned).toEqual([{ part: 'stages', error: 'no room' }]);
  });
});
