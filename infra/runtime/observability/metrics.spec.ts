import { METRICS } from '@tributary/core';
import { expect, it } from 'vitest';
import { createMetrics, exposition } from './metrics.ts';

it('says of each figure what it is, and adds up those of several threads', async () => {
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
