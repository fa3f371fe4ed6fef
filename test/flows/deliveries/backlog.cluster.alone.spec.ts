// Runs alone: its destinations must respond at once.
import { retryTopic, TOPIC } from '@tributary/core';
import { expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { entriesIn } from '../../helpers/log-of.ts';
import { startTributary } from '../../helpers/tributary.ts';
import { startWebhook } from '../../helpers/webhook.ts';

const EVENTS = 40_000;
const BATCH = 500;
const SUBJECTS = 1_000;

it('a backlog went through the slow queue to destinations that respond at once: only their own time makes them slow', {
  timeout: 240_000,
}, async () => {
  const tributary = await startTributary();
  onTestFinished(() => tributary.remove());
  const { owner, producer } = tributary;
  const webhook = await startWebhook();
  onTestFinished(webhook.close);
  for (const [name, type, settings] of [
    ['files', 'ndjson', { folder: 'backlog' }],
    ['hook', 'webhook', { url: webhook.url }],
  ] as const) {
    const { id } = await owner.post<{ id: string }>('./destinations', { name, type, settings });
    await owner.post('./event-forwarding-rules', { name, destination_id: id });
  }
  for (let sent = 0; sent < EVENTS; sent += BATCH) {
    const batch = Array.from({ length: BATCH }, (_, n) => ({
      type: 'track',
      event: 'Order Placed',
      user_id: `u${(sent + n) % SUBJECTS}`,
    }));
    await producer.post('./events/batch', { batch });
  }
  const delivered = async () => {
    const lines = (await tributary.metrics()).matchAll(
      /^tributary_deliveries_total\{(?=[^}]*connector="(ndjson|webhook)")(?=[^}]*outcome="delivered")[^}]*\} (\d+)/gm,
    );
    return Array.from(lines, ([, , count]) => Number(count)).reduce((sum, count) => sum + count, 0);
  };
  await eventually(delivered, (count) => count >= 2 * EVENTS, 180_000);
  const isAside = (topic: string) => topic === TOPIC.deliveriesSlow || topic.startsWith(retryTopic(''));
  const topics = (await entriesIn(tributary, isAside)).map(({ position }) => position.topic);
  expect(Map.groupBy(topics, (topic) => topic)).toEqual(new Map());
});
