// Runs alone: it compares paces.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../helpers/client.ts';
import { startTributary, type Tributary } from '../helpers/tributary.ts';
import { type Behaviour, startWebhook, type Webhook } from '../helpers/webhook.ts';

const EVENTS = 1_500;

/** One slow, broken or dead destination delays nobody else. */
describe('9. Noisy neighbours', () => {
  let tributary: Tributary;
  const webhooks: Webhook[] = [];
  beforeAll(async () => {
    tributary = await startTributary();
  });
  afterAll(async () => {
    await tributary.remove();
    for (const webhook of webhooks) await webhook.close();
  });

  async function forwardTo(eventName: string, url: string): Promise<void> {
    const { id } = await tributary.owner.post<{ id: string }>('./destinations', {
      name: url,
      type: 'webhook',
      settings: { url },
    });
    await tributary.owner.post('./event-forwarding-rules', {
      name: eventName,
      destination_id: id,
      event_types: ['track'],
      event_names: [eventName],
      transformation_id: null,
      enabled: true,
    });
  }

  async function receiver(behaviour?: Behaviour): Promise<Webhook> {
    const webhook = await startWebhook(behaviour);
    webhooks.push(webhook);
    return webhook;
  }

  /** How long it takes until every one of the webhooks has every event, ms. */
  async function deliverTo(eventName: string, good: readonly Webhook[]): Promise<number> {
    const startedAt = performance.now();
    for (let sent = 0; sent < EVENTS; sent += 500) {
      const batch = Array.from({ length: 500 }, (_, i) => ({
        type: 'track',
        event: eventName,
        user_id: `u${sent + i}`,
      }));
      await tributary.producer.post('./events/batch', { batch });
    }
    await eventually(
      () => Math.min(...good.map((webhook) => webhook.calls.length)),
      (fewest) => fewest >= EVENTS,
      90_000,
    );
    return performance.now() - startedAt;
  }

  it('four good destinations keep their pace beside four bad ones', async () => {
    const alone = await Promise.all(Array.from({ length: 4 }, () => receiver()));
    for (const { url } of alone) await forwardTo('Alone', url);
    await deliverTo('Alone', alone); // warms up
    for (const webhook of alone) (webhook.calls as unknown[]).length = 0;
    const quiet = await deliverTo('Alone', alone);

    const beside = await Promise.all(Array.from({ length: 4 }, () => receiver()));
    const hanging = await receiver((_call, response) =>
      setTimeout(() => response.writeHead(204).end(), 10_000).unref(),
    );
    const failing = await receiver((_call, response) => response.writeHead(500).end());
    const resetting = await receiver((_call, response) => response.socket?.destroy());
    const down = await receiver();
    await down.close();
    for (const { url } of [hanging, failing, resetting, down, ...beside]) await forwardTo('Beside', url);
    const noisy = await deliverTo('Beside', beside);

    console.log(
      `good destinations: ${quiet.toFixed(0)} ms alone, ${noisy.toFixed(0)} ms beside bad ones, ${EVENTS} events each`,
    );
    expect(hanging.calls.length).toBeGreaterThan(0);
    expect(failing.calls.length).toBeGreaterThan(0);
    // The bad ones cost work of their own (twice the deliveries, retries); a stall would cost ten seconds a call.
    expect(noisy).toBeLessThan(Math.max(quiet * 4, 8_000));
  }, 240_000);
});
