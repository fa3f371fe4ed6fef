import { type Labels, type Metrics, NO_METRICS } from '@tributary/core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openTestGateway, type TestGateway } from '../helpers/gateway.ts';

const answers: Labels[] = [];
const timed: (readonly [seconds: number, labels: Labels | undefined])[] = [];
const metrics: Metrics = {
  ...NO_METRICS,
  count(name, labels) {
    if (name === 'tributary_http_requests_total') answers.push(labels ?? {});
  },
  observe(name, seconds, labels) {
    if (name === 'tributary_http_request_seconds') timed.push([seconds, labels]);
  },
};

let test: TestGateway;
beforeAll(async () => {
  test = await openTestGateway({ dependencies: { metrics } });
});
afterAll(() => test.close());

it('every answer is counted by its operation and status, and timed', async () => {
  const owner = await test.openWorkspace();
  await owner.call('GET', './event-keys');
  await owner.with({ token: 'wrong' }).call('GET', './event-keys');
  await owner.call('POST', './event-keys', { environment: 'moon' });
  await owner.call('POST', './events/track', { event: 'Paid' });
  await owner.call('GET', '/nowhere/near');
  await test.app.inject({ method: 'GET', url: '/wp-login.php' });
  expect(answers).toEqual([
    { operation: 'workspaces.create', status: '201' },
    { operation: 'event-keys.list', status: '200' },
    { operation: 'event-keys.list', status: '401' },
    { operation: 'event-keys.create', status: '400' },
    { operation: 'events.ingest', status: '403' },
    { operation: 'none', status: '404' },
    { operation: 'none', status: '404' },
  ]);
  expect(timed.map(([, labels]) => labels)).toEqual(answers.map(({ operation }) => ({ operation })));
  for (const [seconds] of timed) expect(seconds).toBeGreaterThan(0);
});
