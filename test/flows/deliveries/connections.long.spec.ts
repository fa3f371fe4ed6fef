import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { type OAuthService, startOAuthService } from '../../helpers/oauth-service.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';

interface Health {
  readonly state: string;
  readonly notice: { readonly because: string | null };
}

let service: OAuthService;
let tributary: Tributary;
beforeAll(async () => {
  service = await startOAuthService();
  tributary = await startTributary({ env: { ...service.env, TRIBUTARY_RETRY_SCHEDULE: '1s,2s' } });
});
afterAll(async () => {
  await tributary?.remove();
  await service?.close();
});

it('a destination is connected by the API; its tokens are refreshed, refused and granted anew, and no event is lost', async () => {
  const { owner, producer } = tributary;
  const { id } = await owner.post<{ id: string }>('./destinations', {
    name: 'Snapchat',
    type: 'segment-snap-conversions-api',
    settings: { pixel_id: 'px' },
  });
  await owner.post('./event-forwarding-rules', { name: 'Orders', destination_id: id });
  const connect = async () => {
    const begun = await owner.post<{ redirect_uri: string; state: string }>(
      `./destinations/${id}/connection`,
      {},
    );
    const query = new URLSearchParams({ code: 'code-1', state: begun.state });
    const callback_url = `${begun.redirect_uri}?${query}`;
    await owner.post(`./destinations/${id}/connection/completion`, { callback_url });
  };
  const send = (user_id: string) =>
    producer.post('./events/track', {
      event: 'Order Completed',
      user_id,
      properties: { order_id: user_id, total: 12, currency: 'EUR', email: 'a@example.com' },
      context: { ip: '1.2.3.4', userAgent: 'x', page: { url: 'https://example.com/x' } },
    });
  const accepted = (count: number) =>
    eventually(
      async () => service.accepted.length,
      (seen) => seen === count,
      60_000,
    );

  await send('before it is connected');
  await connect();
  await accepted(1);
  const expiredAt = Date.now() + 4_000;
  await eventually(
    async () => Date.now(),
    (now) => now > expiredAt,
    10_000,
  );
  await send('with an expired token');
  await accepted(2);
  expect(service.refreshes).toBe(1);

  service.takeBack();
  for (let n = 0; n < 20; n++) await send(`after the access was taken back ${n}`);
  const health = () => owner.get<Health>(`./destinations/${id}/health`);
  // The notice comes before the pause.
  const { notice } = await eventually(health, ({ state }) => state === 'paused', 60_000);
  expect(notice.because).toBe('access_refused');
  expect(service.accepted).toHaveLength(2);
  expect(await owner.get('./deliveries?status=dead')).toEqual([]);

  await connect();
  await accepted(22);
  expect(await owner.get('./deliveries?status=dead')).toEqual([]);
  expect(tributary.log()).not.toMatch(/access-\d|refresh-\d|client-secret/);
});
