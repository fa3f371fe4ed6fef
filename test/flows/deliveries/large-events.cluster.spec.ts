import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import { startWebhook, type Webhook } from '../../helpers/webhook.ts';

const RULES = 4;
const PROPERTIES = { text: 'z'.repeat(20_000) };
const WITHIN_MS = 90_000;

interface Listed {
  readonly id: string;
  readonly message_id: string;
}

interface Detail extends Listed {
  readonly event: { readonly properties: unknown } | null;
  readonly attempts: readonly { readonly status: number }[];
}

describe('Deliveries of a large event', () => {
  let tributary: Tributary;
  let webhook: Webhook;
  beforeAll(async () => {
    webhook = await startWebhook();
    tributary = await startTributary({
      env: { TRIBUTARY_RETRY_SCHEDULE: '400ms,800ms', TRIBUTARY_RETRY_EXPIRY: '10m' },
    });
    const destination = await tributary.owner.post<Listed>('./destinations', {
      name: 'Large',
      type: 'webhook',
      settings: { url: webhook.url },
    });
    for (let n = 0; n < RULES; n++)
      await tributary.owner.post('./event-forwarding-rules', {
        name: `${n}`,
        destination_id: destination.id,
        event_types: [],
        event_names: [],
        transformation_id: null,
        enabled: true,
      });
  });
  afterAll(async () => {
    await tributary.remove();
    await webhook.close();
  });

  const listed = (messageId: string, status: string) =>
    eventually(
      async () => {
        const all = await tributary.owner.get<readonly Listed[]>(`./deliveries?status=${status}&limit=100`);
        return all.filter(({ message_id }) => message_id === messageId);
      },
      (found) => found.length === RULES,
      WITHIN_MS,
    );
  const send = () =>
    tributary.producer.post<Listed>('./events/track', {
      event: 'Large',
      user_id: 'u',
      properties: PROPERTIES,
    });

  it('carry the whole event at each attempt, and are shown with it', async () => {
    let calls = 0;
    webhook.behave((_call, response) => response.writeHead(++calls <= RULES ? 503 : 204).end());
    const { message_id } = await send();
    const delivered = await listed(message_id, 'delivered');
    for (const { event } of webhook.deliveries()) expect(event.properties).toEqual(PROPERTIES);
    const detail = await tributary.owner.get<Detail>(`./deliveries/${delivered[0]?.id}`);
    expect(detail.event?.properties).toEqual(PROPERTIES);
    expect(detail.attempts.map(({ status }) => status)).toEqual(expect.arrayContaining([503, 204]));
  });

  it('are redriven with it', async () => {
    webhook.behave((_call, response) => response.writeHead(404).end());
    const { message_id } = await send();
    await listed(message_id, 'dead');
    webhook.behave(undefined);
    const before = webhook.deliveries().length;
    const redriven = await tributary.owner.call('POST', './deliveries/redrive', { body: { status: 'dead' } });
    expect(redriven).toMatchObject({ status: 202, body: { redriven: RULES } });
    await listed(message_id, 'delivered');
    const again = webhook.deliveries().slice(before);
    expect(again.length).toBeGreaterThanOrEqual(RULES);
    for (const { event } of again) expect(event.properties).toEqual(PROPERTIES);
  });
});
