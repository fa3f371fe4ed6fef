import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../helpers/client.ts';
import { type OAuthService, startOAuthService } from '../helpers/oauth-service.ts';
import { expectAccessible } from './helpers/axe.ts';
import { chromiumPath } from './helpers/chromium.ts';
import { type ConsoleUnderTest, startConsole } from './helpers/console.ts';
import { takePictures } from './helpers/pictures.ts';

/** The page of the service, in the window of the sign-in. */
const CONSENT = 'https://accounts.snapchat.com/**';

describe.skipIf(chromiumPath === undefined)('connecting a destination with a service', () => {
  let app: ConsoleUnderTest;
  let service: OAuthService;
  let answer: 'allow' | 'refuse' = 'allow';
  beforeAll(async () => {
    service = await startOAuthService();
    app = await startConsole({ env: { ...service.env, TRIBUTARY_RETRY_SCHEDULE: '1s,2s' } });
    // The person allows the access at once.
    await app.context.route(CONSENT, (route) => {
      const asked = new URL(route.request().url()).searchParams;
      const back = new URL(asked.get('redirect_uri') ?? '');
      back.searchParams.set('state', asked.get('state') ?? '');
      if (answer === 'allow') back.searchParams.set('code', 'code-1');
      else back.searchParams.set('error', 'access_denied');
      return route.fulfill({ status: 302, headers: { location: back.href } });
    });
  });
  afterAll(async () => {
    await app?.close();
    await service?.close();
  });

  const sendOrder = (user_id: string) =>
    app.tributary.producer.post('./events/track', {
      event: 'Order Completed',
      user_id,
      properties: { order_id: user_id, total: 12, currency: 'EUR', email: 'a@example.com' },
      context: { ip: '1.2.3.4', userAgent: 'x', page: { url: 'https://example.com/x' } },
    });
  const delivered = (count: number) =>
    eventually(
      async () => service.accepted.length,
      (seen) => seen === count,
      60_000,
    );

  it('takes a click; expired tokens are refreshed; after a refusal somebody connects it again, and nothing is lost', async () => {
    const { page, watch } = await app.open('/destinations/new?type=segment-snap-conversions-api');
    await page.getByRole('textbox', { name: 'Name' }).fill('Snapchat');
    await page.getByRole('textbox', { name: 'Pixel ID' }).fill('px');
    await page.getByRole('button', { name: 'Create destination' }).click();
    await page.getByText('Not connected with Snapchat').waitFor();
    await expectAccessible(page);

    answer = 'refuse';
    watch.expectStatus(400);
    await page.getByRole('button', { name: 'Connect with Snapchat' }).click();
    await page.getByText(/access_denied/).waitFor();
    await takePictures(page, 'destination-not-connected');
    answer = 'allow';
    await page.getByRole('button', { name: 'Connect with Snapchat' }).click();
    await page.getByText(/^Connected with Snapchat/).waitFor();
    const connectedAt = Date.now();
    await expectAccessible(page);

    const [destination] = await app.tributary.owner.get<{ readonly id: string }[]>('./destinations');
    const { id = '' } = destination ?? {};
    await app.tributary.owner.post('./event-forwarding-rules', { name: 'Orders', destination_id: id });
    await sendOrder('u-1');
    await delivered(1);

    // The first access token expires after seconds.
    await eventually(
      async () => Date.now() - connectedAt,
      (ms) => ms > 3_000,
    );
    await sendOrder('u-2');
    await delivered(2);
    expect(service.refreshes).toBe(1);

    await page.goto(app.addressOf(`/destinations/${id}`));
    await page.getByText(/^Connected with Snapchat/).waitFor();
    service.takeBack();
    for (const user of ['u-3', 'u-4']) await sendOrder(user);
    const health = () => app.tributary.owner.get<{ readonly state: string }>(`./destinations/${id}/health`);
    await eventually(health, ({ state }) => state === 'paused', 60_000);
    await page.reload();
    await page.getByText('Snapchat does not accept the access any more').waitFor();
    await takePictures(page, 'destination-access-refused');
    await expectAccessible(page);
    expect(await health()).toMatchObject({ notice: { because: 'access_refused' } });
    expect(await app.tributary.owner.get('./deliveries?status=dead')).toEqual([]);

    await page.getByRole('button', { name: 'Connect with Snapchat' }).click();
    await page.getByText(/^Connected with Snapchat/).waitFor();
    await delivered(4);
    expect(app.tributary.log()).not.toMatch(/access-\d|refresh-\d|client-secret/);
    await takePictures(page, 'destination-connected');
    await page.getByRole('button', { name: 'Disconnect' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Disconnect' }).click();
    await page.getByText('Not connected with Snapchat').waitFor();
  });
});
