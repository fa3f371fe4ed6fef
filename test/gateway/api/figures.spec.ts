import { type Labels, type Metrics, NO_LOGGER, NO_METRICS, Unavailable } from '@tributary/core';
import { expect, it, vi } from 'vitest';
import { suiteGateway } from '../suite-gateway.ts';

const answers: Labels[] = [];
const warned: object[] = [];
const timed: (readonly [seconds: number, labels: Labels | undefined])[] = [];
const metrics: Metrics = {
  ...NO_METRICS,
  count(name, labels) {
    if (name === 'tributary_http_requests_total') answers.push(labels ?? {});
  },
  observe(name, seconds, labels) {
    if (name === 'tributary_http_request_duration_seconds') timed.push([seconds, labels]);
  },
};

const test = await suiteGateway({
  dependencies: { metrics, logger: { ...NO_LOGGER, warn: (fields) => warned.push(fields) } },
});

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

it('answers of 503 were in no log: what did not answer is there, and which call met it', async () => {
  const owner = await test.openWorkspace();
  const key = await owner.writeKey();
  const append = vi.spyOn(test.dependencies.log, 'append');
  append.mockRejectedValue(new Unavailable('Kafka: appending: NOT_ENOUGH_REPLICAS'));
  const { status } = await owner
    .with({ token: key })
    .call('POST', './events/track', { event: 'Paid', user_id: 'u' });
  append.mockRestore();
  expect(status).toBe(503);
  expect(warned).toEqual([
    {
      request_id: expect.any(String),
      operation: 'events.ingest',
      error: 'Kafka: appending: NOT_ENOUGH_REPLICAS',
    },
  ]);
});
