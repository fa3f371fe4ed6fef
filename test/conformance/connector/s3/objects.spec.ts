import { afterAll, beforeAll, expect, it } from 'vitest';
import { createTestConnectors, delivery, destination } from '../suite/harness.ts';
import { type S3Harness, s3Harness } from './harness.ts';

let harness: S3Harness;
beforeAll(async () => {
  harness = await s3Harness();
});
afterAll(() => harness.close());

it('a retried delivery was put into the hour of another: each is in the folder of its own event', async () => {
  const connectors = createTestConnectors(harness.connectors);
  const settings = { ...harness.settings, path: 'dt={date}/hour={hour}/{event}' };
  const at = (n: number, received_at: string, event = 'Order Placed') => {
    const one = delivery(n);
    return { ...one, created_at: '2026-05-05T05:05:05.000Z', event: { ...one.event, event, received_at } };
  };
  const batch = [
    at(1, '2026-03-01T09:59:59.999Z'),
    at(2, '2026-03-01T10:00:00.000Z'),
    at(3, '2026-03-01T09:00:00.000Z'),
    at(4, '2026-03-01T09:00:00.000Z', 'a/b'),
  ];
  const connector = connectors.connector('s3');
  const send = () =>
    connector?.deliver(destination(settings), batch, { signal: new AbortController().signal });
  expect(await send()).toEqual(Array(4).fill({ outcome: 'delivered' }));
  expect(await send()).toEqual(Array(4).fill({ outcome: 'delivered' }));
  const objects = (await harness.objects()).map((name) => name.replace(/\/[0-9a-f-]{36}\.ndjson\.gz$/, ''));
  const day = 'tributary/tests/dt=2026-03-01';
  expect(objects.sort()).toEqual([
    `${day}/hour=09/Order%20Placed`,
    `${day}/hour=09/a%2Fb`,
    `${day}/hour=10/Order%20Placed`,
  ]);
  expect(await harness.received()).toHaveLength(4);
  await connectors.close();
});
