import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import { forwardTo, startWebhook, type Webhook } from '../../helpers/webhook.ts';

interface Delivery {
  readonly id: string;
  readonly status: string;
  readonly reason: string | null;
  readonly attempts: readonly { readonly status?: number; readonly outcome: string }[];
}

/** A failed delivery is retried with growing delays, and dead-lettered in the end: visible, never lost. */
describe('Deliveries that fail', () => {
  let tributary: Tributary;
  let webhook: Webhook;
  let destinationId: string;
  beforeAll(async () => {
    // The retry schedule is scaled from hours to seconds.
    tributary = await startTributary({
      env: {
        TRIBUTARY_RETRY_SCHEDULE: '200ms,400ms',
        TRIBUTARY_RETRY_EXPIRY: '2s',
        TRIBUTARY_DELIVERY_TIMEOUT: '500ms',
      },
    });
    webhook = await startWebhook();
    destinationId = await forwardTo(tributary.owner, webhook.url);
  });
  afterAll(async () => {
    await tributary.remove();
    await webhook.close();
  });

  const send = (event: string) =>
    tributary.producer.post<{ message_id: string }>('./events/track', { event, user_id: event });
  const list = (query: string) =>
    tributary.owner.get<readonly (Delivery & { message_id: string })[]>(`./deliveries?${query}`);
  const settled = async (messageId: string, status: string) => {
    const found = await eventually(
      async () => (await list(`status=${status}`)).find(({ message_id }) => message_id === messageId),
      (delivery) => delivery !== undefined,
    );
    return tributary.owner.get<Delivery>(`./deliveries/${found?.id}`);
  };

  it('a passing fault: delivered at a later attempt, with the same id', async () => {
    let calls = 0;
    webhook.behave((_call, response) => response.writeHead(++calls < 3 ? 503 : 204).end());
    const { message_id } = await send('Passing');
    const delivery = await settled(message_id, 'delivered');
    expect(delivery.attempts.map(({ status }) => status)).toEqual([503, 503, 204]);
    expect(new Set(webhook.deliveries().map(({ id }) => id)).size).toBe(1);
    expect(webhook.deliveries().map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
  });

  it('a refusal is dead at once', async () => {
    webhook.behave((_call, response) => response.writeHead(404).end('nothing here'));
    const { message_id } = await send('Refused');
    const delivery = await settled(message_id, 'dead');
    expect(delivery).toMatchObject({ status: 'dead', attempts: [{ status: 404, outcome: 'dead' }] });
  });

  it('a place that stays down: retrying, then dead with every attempt, then delivered when redriven', async () => {
    webhook.behave((_call, response) => response.writeHead(500).end());
    const { message_id } = await send('Down');
    await settled(message_id, 'retrying');
    const dead = await settled(message_id, 'dead');
    expect(dead.attempts.length).toBeGreaterThan(2);
    webhook.behave(undefined);
    expect((await tributary.owner.call('POST', `./deliveries/${dead.id}/redrive`)).status).toBe(202);
    const delivered = await settled(message_id, 'delivered');
    expect(delivered.id).toBe(dead.id);
    expect(delivered.attempts.length).toBe(dead.attempts.length + 1);
  });

  it('a place that never answers is a timeout', async () => {
    webhook.behave(() => {});
    const { message_id } = await send('Silent');
    const delivery = await settled(message_id, 'dead');
    expect(delivery.attempts[0]).toMatchObject({ outcome: 'retry', reason: expect.stringMatching(/time/i) });
    webhook.behave(undefined);
  });

  it('many dead ones are redriven with one call', async () => {
    webhook.behave((_call, response) => response.writeHead(400).end());
    const sent = await Promise.all(['A', 'B', 'C'].map(send));
    for (const { message_id } of sent) await settled(message_id, 'dead');
    webhook.behave(undefined);
    const redriven = await tributary.owner.call('POST', './deliveries/redrive', {
      body: { status: 'dead', destination_id: destinationId },
    });
    expect(redriven.status).toBe(202);
    for (const { message_id } of sent) await settled(message_id, 'delivered');
    await eventually(
      () => list('status=dead'),
      (left) => left.length === 0,
    );
  });

  it('a delivery that succeeded at its first try is not listed', async () => {
    const { message_id } = await send('Smooth');
    await eventually(
      () => webhook.deliveries().some(({ event }) => event.message_id === message_id),
      (arrived) => arrived,
    );
    expect((await list('status=delivered')).map((delivery) => delivery.message_id)).not.toContain(message_id);
  });
});
