import { afterAll, beforeAll, expect, it } from 'vitest';
import { type S3Harness, s3Harness } from '../../conformance/connector/s3/harness.ts';
import { eventually } from '../../helpers/client.ts';
import { onCluster, startTributary, type Tributary } from '../../helpers/tributary.ts';

let tributary: Tributary;
let bucket: S3Harness;
beforeAll(async () => {
  // An interval is longer than the shortest retry step.
  tributary = await startTributary({ env: { TRIBUTARY_RETRY_SCHEDULE: '1s,2s,4s' } });
  bucket = await s3Harness();
});
afterAll(async () => {
  await tributary.remove();
  await bucket.close();
});

const INTERVAL_MS = 6_000;

it('a batch was put after ten seconds, however long it was to wait: it is put at the end of its interval, or full', async () => {
  const settings = { ...bucket.settings, batch_size: 20, batch_seconds: INTERVAL_MS / 1_000 };
  const body = { name: 's3', type: 's3', settings: { ...settings, path: 'dt={date}/{event}' } };
  const made = await tributary.owner.post<{ id: string }>('./destinations', body);
  await tributary.owner.post('./event-forwarding-rules', { name: 'r', destination_id: made.id });
  // Early in an interval.
  await new Promise((begun) => setTimeout(begun, INTERVAL_MS - (Date.now() % INTERVAL_MS)));
  const end = Date.now() + INTERVAL_MS;
  for (const user_id of ['a', 'b', 'c'])
    await tributary.producer.post('./events/track', { event: 'Few', user_id, properties: { user_id } });
  await eventually(bucket.received, ({ length }) => length === 3);
  expect(Date.now()).toBeGreaterThanOrEqual(end);
  expect(Date.now()).toBeLessThan(end + 5_000);
  // Each process has objects of its own.
  expect((await bucket.objects()).length).toBeLessThanOrEqual(onCluster ? 2 : 1);
  expect((await bucket.objects())[0]).toMatch(
    /^tributary\/tests\/dt=\d{4}-\d{2}-\d{2}\/Few\/[0-9a-f-]{36}\.ndjson\.gz$/,
  );
}, 60_000);
