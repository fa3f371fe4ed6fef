import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { AS_SHIPPED } from '../../helpers/embedded.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import { startWebhook, type Webhook } from '../../helpers/webhook.ts';

const RULES = 60;

interface Dead {
  readonly rule_id: string;
  readonly reason: string;
  readonly status: string;
}

/** An event with more output than a process can hold affects only its own workspace. */
describe('An event with too much output', () => {
  let tributary: Tributary;
  let webhook: Webhook;
  beforeAll(async () => {
    // Small enough that the event's output, 180 MB, would end the process.
    tributary = await startTributary({
      env: { ...AS_SHIPPED, TRIBUTARY_STAGES_HEAP: '160MiB', TRIBUTARY_SANDBOX_TIME: '1s' },
    });
    webhook = await startWebhook();
  });
  afterAll(async () => {
    await tributary.remove();
    await webhook.close();
  });

  it('exhausted the heap at every start: the rules of an event share a bound, and other workspaces are delivered', {
    timeout: 240_000,
  }, async () => {
    const { owner, producer } = tributary;
    const destination = await owner.post<{ id: string }>('./destinations', {
      name: 'hook',
      type: 'webhook',
      settings: { url: webhook.url },
    });
    const transformation = await owner.post<{ id: string }>('./event-transformations', {
      name: 'flood',
      source_code: `function transform(event) {
        if (event.properties.flood !== true) return event;
        const pad = 'y'.repeat(30000);
        return Array.from({ length: 100 }, (_, i) => ({ ...event, properties: { i, pad } }));
      }`,
      test_input: { type: 'track', event: 'E', user_id: 'u', properties: {} },
      test_output: { type: 'track', event: 'E', user_id: 'u', properties: {} },
    });
    for (let rule = 0; rule < RULES; rule++) {
      await owner.post('./event-forwarding-rules', {
        name: `flood ${rule}`,
        destination_id: destination.id,
        transformation_id: transformation.id,
        event_names: ['Flood'],
      });
    }
    const plain = await owner.post<{ id: string }>('./event-forwarding-rules', {
      name: 'plain',
      destination_id: destination.id,
    });
    const send = (event: string, properties: object) =>
      producer.post<{ message_id: string }>('./events/track', { event, user_id: 'u', properties });
    const flood = await send('Flood', { flood: true });
    const neighbour = await send('Neighbour', {});
    const got = (message: string) => webhook.deliveries().filter(({ event }) => event.message_id === message);
    await eventually(
      async () => got(neighbour.message_id).length,
      (count) => count === 1,
      120_000,
    );
    await eventually(
      async () => got(flood.message_id).map(({ rule_id }) => rule_id),
      (rules) => rules.includes(plain.id),
    );
    const dead = await eventually(
      () => owner.get<readonly Dead[]>('./deliveries?status=dead&limit=1000'),
      (found) => found.length >= RULES,
    );
    expect(new Set(dead.map(({ rule_id }) => rule_id)).size).toBe(RULES);
    for (const { reason } of dead) expect(reason).toContain('too much of one event');
    expect(tributary.log()).not.toContain('the stages ended');
  });
});
