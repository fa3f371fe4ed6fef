// Runs alone in the long form: it checks times beside programs that use all available resources.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { AS_SHIPPED } from '../../helpers/embedded.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import { startWebhook, type Webhook } from '../../helpers/webhook.ts';

const HOSTILE = {
  'an endless loop': 'for (;;) {}',
  'a memory bomb': 'const all = []; for (;;) all.push(new Array(1e5).fill("x".repeat(100)));',
  'a JSON bomb': "return JSON.parse('[' + '1,'.repeat(1e8) + '1]');",
  'a huge array': 'new Array(1e9).fill(0); return event;',
};

/** After five stopped runs in a row the transformation is in error, and later events are not run. */
const HARMFUL = 20;

/**
 * For any behaviour of a transformation, the server answers, others' events flow, and its own are
 * dead-lettered with the reason.
 */
describe('Hostile transformations', () => {
  let tributary: Tributary;
  let webhook: Webhook;
  let destinationId: string;
  beforeAll(async () => {
    tributary = await startTributary({ env: AS_SHIPPED });
    webhook = await startWebhook();
    destinationId = (
      await tributary.owner.post<{ id: string }>('./destinations', {
        name: 'hook',
        type: 'webhook',
        settings: { url: webhook.url },
      })
    ).id;
    await forward('Innocent', null);
  });
  afterAll(async () => {
    await tributary.remove();
    await webhook.close();
  });

  const forward = (eventName: string, transformationId: string | null) =>
    tributary.owner.post<{ id: string }>('./event-forwarding-rules', {
      name: eventName,
      destination_id: destinationId,
      event_types: ['track'],
      event_names: [eventName],
      transformation_id: transformationId,
      enabled: true,
    });

  it.each(Object.entries(HOSTILE))(
    '%s',
    async (name, statement) => {
      const event = { type: 'track', event: name, user_id: 'u', properties: {} };
      const made = await tributary.owner.post<{ id: string; status: string }>('./event-transformations', {
        name,
        source_code: `function transform(event) { if (event.properties.harm) { ${statement} } return event; }`,
        test_input: event,
        test_output: event,
      });
      expect(made.status).toBe('active');
      const rule = await forward(name, made.id);

      const harmful = Array.from({ length: HARMFUL }, () => ({ ...event, properties: { harm: true } }));
      await tributary.producer.post('./events/batch', { batch: harmful });
      const before = webhook.calls.length;
      for (let i = 0; i < 20; i++) {
        const sentAt = performance.now();
        await tributary.producer.post('./events/track', { event: 'Innocent', user_id: `u${i}` });
        expect(performance.now() - sentAt).toBeLessThan(2_000);
      }
      await eventually(
        () => webhook.calls.length - before,
        (arrived) => arrived >= 20,
        20_000,
      );

      const dead = await eventually(
        async () =>
          (
            await tributary.owner.get<readonly { reason: string; rule_id: string }[]>(
              './deliveries?status=dead&limit=1000',
            )
          ).filter(({ rule_id }) => rule_id === rule.id),
        (found) => found.length >= harmful.length,
        60_000,
      );
      expect(dead).toHaveLength(harmful.length);
      expect(dead.every(({ reason }) => reason.length > 0)).toBe(true);
      await eventually(
        () =>
          tributary.owner.get<{ status: string; last_error: string | null }>(
            `./event-transformations/${made.id}`,
          ),
        ({ status, last_error }) => status === 'error' && last_error !== null,
        30_000,
      );
      expect((await fetch(`${tributary.url}/readyz`)).status).toBe(200);
    },
    120_000,
  );
});
