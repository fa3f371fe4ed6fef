import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Client } from '../helpers/client.ts';
import { expectAccessible } from './helpers/axe.ts';
import { chromiumPath } from './helpers/chromium.ts';
import { type ConsoleUnderTest, startConsole } from './helpers/console.ts';
import { REQUEST_ID, tryAgain } from './helpers/failures.ts';
import { takePictures } from './helpers/pictures.ts';

interface Stored {
  readonly id: string;
  readonly name: string;
  readonly type: string;
  readonly settings: Readonly<Record<string, unknown>>;
}

describe.skipIf(chromiumPath === undefined)('the pages of destinations', () => {
  let app: ConsoleUnderTest;
  let client: Client;
  beforeAll(async () => {
    app = await startConsole({ flights: 300 });
    client = app.tributary.owner.with({ workspaceId: app.workspaceId });
  });
  afterAll(() => app?.close());

  const make = (name: string, settings: object = {}) =>
    client.post<Stored>('./destinations', {
      name,
      type: 'webhook',
      settings: { url: app.flights.webhook.url, ...settings },
    });

  it('lists them with their status and health, by the URL', async () => {
    const { page } = await app.open('/destinations');
    const table = page.getByRole('table', { name: 'Destinations' });
    await table.getByRole('row').filter({ hasText: 'Demo webhook' }).getByText('Healthy').waitFor();
    await table.getByText('NDJSON files').waitFor();
    await expectAccessible(page);
    await takePictures(page, 'destinations');
    await page.getByPlaceholder('Filter by name').fill('files');
    await table.getByText('Demo webhook').waitFor({ state: 'detached' });
    await page.waitForURL(/q=files/);
    await page.reload();
    await table.getByText('Demo files').waitFor();
    expect(await table.getByText('Demo webhook').count()).toBe(0);
  });

  it('explains destinations and how to begin where none exists', async () => {
    const empty = await app.tributary.owner.post<{ readonly id: string }>('/workspaces', { name: 'Nothing' });
    const { page } = await app.open(`~/w/${empty.id}/destinations`);
    await page.getByRole('heading', { name: 'No destination yet' }).waitFor();
    await expectAccessible(page);
    await takePictures(page, 'destinations-empty');
    await page.getByRole('link', { name: 'New destination' }).first().click();
    await page.getByRole('heading', { name: 'New destination' }).waitFor();
  });

  it('makes a webhook by its form, shows its secret once, and tests it with the request and the answer', async () => {
    const { page, watch } = await app.open('/destinations/new');
    await page
      .getByRole('button', { name: /^Webhook/ })
      .first()
      .waitFor();
    await expectAccessible(page);
    await takePictures(page, 'destination-kinds');
    await page.getByLabel('Find a kind').fill('signed webhook');
    await page
      .getByRole('button', { name: /^Webhook/ })
      .first()
      .click();
    await page.waitForURL(/type=webhook/);
    await page.getByRole('button', { name: 'Create destination' }).click();
    await page.getByText('2 marked fields need a change').or(page.getByText('is required').first()).waitFor();
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('Orders <script>alert(1)</script>');
    await page.getByLabel('URL').fill('ftp://example.com');
    await page.getByRole('button', { name: 'Create destination' }).click();
    await page.getByText('must have a form such as https://example.com/events').waitFor();
    await page.getByLabel('URL').fill('http://user:pass@example.com/');
    watch.expectStatus(400);
    await page.getByRole('button', { name: 'Create destination' }).click();
    await page.getByText(/must not hold credentials/).waitFor();
    await page.getByLabel('URL').fill(app.flights.webhook.url);
    await page.getByRole('button', { name: 'Add to request headers' }).click();
    await page.getByLabel('Name 1 of request headers').fill('authorization');
    await page.getByLabel('Value 1 of request headers').fill('Bearer q1w2e3r4');
    await expectAccessible(page);
    await takePictures(page, 'destination-form');
    await page.getByRole('button', { name: 'Create destination' }).click();
    await page.getByText('Copy this secret now').waitFor();
    await page.getByText(/whsec_/).waitFor();
    app.flights.webhook.behave((_, response) => response.writeHead(418, {}).end('short and stout <b>'));
    await page.getByRole('button', { name: 'Test the connection' }).click();
    await page.getByText('It would not take deliveries').waitFor();
    await page.getByRole('region', { name: 'Answer' }).getByText('short and stout <b>').waitFor();
    const request = page.getByRole('region', { name: 'Request' });
    await request.getByText(/"type":"test"/).waitFor();
    expect(await request.textContent()).toMatch(/^POST .*\/hook\n(?:.*\n)*authorization: \*{8}\n/);
    await expectAccessible(page);
    await takePictures(page, 'destination-created');
    app.flights.webhook.behave(undefined);
    await page.getByRole('button', { name: 'Test the connection' }).click();
    await page.getByText('It would take deliveries').waitFor();
    await page.getByRole('link', { name: 'Choose which events go there' }).click();
    await page.getByRole('heading', { name: 'New rule' }).waitFor();
    await expect
      .poll(() => page.getByLabel('Destination', { exact: false }).first().inputValue())
      .toContain('Orders');
  });

  it('has a form for kinds of other shapes', async () => {
    const { page } = await app.open('/destinations/new?type=kafka');
    await page.getByRole('heading', { name: 'New destination: Kafka topic' }).waitFor();
    const brokers = page.getByRole('combobox', { name: 'Brokers' });
    await brokers.fill('kafka-1.example.com:9093');
    await brokers.press('Enter');
    await page.getByText('kafka-1.example.com:9093', { exact: true }).waitFor();
    await expectAccessible(page);
    await page.getByRole('link', { name: 'Choose another kind' }).click();
    await page
      .getByRole('button', { name: /^Amplitude/ })
      .first()
      .click();
    await page.getByRole('region', { name: 'Mappings' }).getByText('Track Calls').waitFor();
    await expectAccessible(page);
    await takePictures(page, 'destination-form-segment');
  });

  it('keeps a secret that is not touched', async () => {
    const { id } = await make('Edited', { headers: { authorization: 'Bearer 1234567' } });
    const { page } = await app.open(`/destinations/${id}?tab=settings`);
    await page.getByText('Stored, and not shown.').waitFor();
    await page.getByLabel('Deliveries a request').fill('5');
    await expectAccessible(page);
    await takePictures(page, 'destination-settings');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Saved "Edited".').waitFor();
    const stored = await client.get<Stored>(`./destinations/${id}`);
    expect(stored.settings).toMatchObject({ batch_size: 5, headers: '********', secret: '********' });
  });

  it('asks for a secret again where the change would send it elsewhere', async () => {
    const { id } = await make('Moved', { headers: { authorization: 'Bearer 1234567' } });
    const { page, watch } = await app.open(`/destinations/${id}?tab=settings`);
    await page.getByLabel('URL').fill('https://elsewhere.example/');
    watch.expectStatus(400);
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText(/must be stated again/).waitFor();
    expect(await page.getByLabel('URL').inputValue()).toBe('https://elsewhere.example/');
  });

  it('pauses and resumes, and names before a deletion the rules that prevent it', async () => {
    const { id } = await make('Held');
    await client.post('./event-forwarding-rules', { name: 'To the paused one', destination_id: id });
    const { page, watch } = await app.open(`/destinations/${id}`);
    await page.getByRole('button', { name: 'Pause', exact: true }).click();
    await page.getByRole('button', { name: 'Resume' }).waitFor();
    await page.getByText('Paused', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByRole('button', { name: 'Pause', exact: true }).waitFor();
    await page.getByRole('button', { name: 'Delete' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('link', { name: 'To the paused one' }).waitFor();
    await expectAccessible(page);
    await takePictures(page, 'destination-delete');
    watch.expectStatus(409);
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await dialog.getByText('It is in use. Change first: rule "To the paused one".').waitFor();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('tab', { name: 'Rules' }).click();
    await page.getByRole('table', { name: 'Rules' }).getByText('To the paused one').waitFor();
  });

  it('draws how deliveries went, in the range of the URL', async () => {
    const [webhook] = await client.get<readonly Stored[]>('./destinations?q=Demo%20webhook');
    const { page } = await app.open(`/destinations/${webhook?.id}?hours=6`);
    await page.route('**/health/history*', (route) =>
      route.fulfill({ json: historyOf(route.request().url()) }),
    );
    await page.reload();
    for (const name of ['Attempts', 'Success', 'Latency', 'Backlog'])
      await page.getByRole('region', { name, exact: true }).locator('svg').first().waitFor();
    await page.getByText(/Circuit open from/).waitFor();
    await expectAccessible(page);
    await takePictures(page, 'destination-health');
    await page.getByText('30 d').click();
    await page.waitForURL(/hours=720/);
  });

  it('shows the error of the API in its place, and continues when it answers again', async () => {
    const { page, failures } = await app.open('/destinations');
    const table = page.getByRole('table', { name: 'Destinations' });
    await table.getByText('Demo webhook').waitFor();
    for (const status of [403, 429, 503] as const) {
      const failure = await failures.answer(/\/destinations\?/, status);
      await page.reload();
      await page.getByRole('alert').getByText(REQUEST_ID).waitFor({ timeout: 30_000 });
      if (status === 503) {
        await expectAccessible(page);
        await takePictures(page, 'destinations-error');
      }
      await tryAgain(page.getByRole('button', { name: 'Try again' }), failure);
      await table.getByText('Demo webhook').waitFor();
    }
    const slow = await failures.hold(/\/destinations\?/);
    await page.reload();
    await page.getByLabel('Loading').first().waitFor();
    await slow.end();
    await table.getByText('Demo webhook').waitFor();
  });

  it('shows viewers no button that they may not use', async () => {
    await client.post('./members', { email: 'viewer@example.com', role: 'viewer' });
    const { page } = await app.open('/destinations', { email: 'viewer@example.com' });
    await page.getByRole('link', { name: 'Demo webhook' }).click();
    await page.getByRole('heading', { level: 1, name: 'Demo webhook' }).waitFor();
    expect(await page.getByRole('button', { name: /Pause|Delete|Test the connection/ }).count()).toBe(0);
    await page.getByRole('tab', { name: 'Settings' }).click();
    await page.getByRole('textbox', { name: 'Settings' }).waitFor();
    expect(await page.getByRole('button', { name: 'Save' }).count()).toBe(0);
  });
});

/** Six hours by the minute, with a time in which the destination was away. */
function historyOf(url: string) {
  const hours = Number(new URL(url).searchParams.get('hours') ?? 24);
  const bucket = hours <= 6 ? 'minute' : 'hour';
  const length = bucket === 'minute' ? 60_000 : 3_600_000;
  const until = Math.floor(Date.now() / length) * length;
  const from = until - hours * 3_600_000;
  const count = (until - from) / length;
  const buckets = Array.from({ length: count }, (_, index) => {
    const isAway = index > count * 0.5 && index < count * 0.6;
    const delivered = isAway ? 0 : Math.round(80 + 40 * Math.sin(index / 20));
    const retried = isAway ? 30 : index % 7 === 0 ? 2 : 0;
    return {
      at: new Date(from + index * length).toISOString(),
      delivered,
      retried,
      dead: index % 50 === 0 ? 1 : 0,
      put_off: isAway ? 40 : 0,
      success_rate: delivered / Math.max(1, delivered + retried),
      p50_ms: isAway ? null : 22 + (index % 5),
      p99_ms: isAway ? null : 80 + (index % 40),
      waiting: isAway ? 400 : 3,
      oldest_waiting_ms: isAway ? 90_000 : 400,
      circuit: isAway ? 'open' : 'closed',
    };
  });
  return {
    id: 'd',
    from: new Date(from).toISOString(),
    until: new Date(until).toISOString(),
    bucket,
    buckets,
  };
}
