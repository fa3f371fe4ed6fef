import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { drained } from '../helpers/running-tributary.ts';
import { expectAccessible } from './helpers/axe.ts';
import { chromiumPath } from './helpers/chromium.ts';
import { type ConsoleUnderTest, startConsole } from './helpers/console.ts';
import { takePictures } from './helpers/pictures.ts';

const HOSTILE = '<script>alert(1)</script>';
const BATCHES = 6;
const BATCH = 500;

describe.skipIf(chromiumPath === undefined)('the live page', () => {
  let app: ConsoleUnderTest;
  beforeAll(async () => {
    app = await startConsole({ flights: 120 });
  });
  afterAll(() => app?.close());

  const producer = () =>
    app.tributary.owner.with({ token: app.flights.writeKey, workspaceId: app.workspaceId });
  const send = (event: string, properties: object = {}) =>
    producer().post('./events/track', { event, user_id: 'ada', properties });
  const rowsOf = (page: Page) => page.getByRole('table', { name: 'Live events' }).getByRole('row');

  it('waits for the first event, and shows each as it comes, once', async () => {
    const { page } = await app.open(`~/w/${app.tributary.workspaceId}/live`);
    await page.getByText('Waiting for events').waitFor();
    await takePictures(page, 'live-empty');
    await expectAccessible(page);
    await app.tributary.producer.post('./events/track', { event: 'First', user_id: 'ada' });
    await page.getByRole('button', { name: 'First' }).waitFor();
    await app.tributary.producer.post('./events/track', { event: 'Second', user_id: 'ada' });
    await page.getByRole('button', { name: 'Second' }).waitFor();
    expect(await rowsOf(page).count()).toBe(3);
  });

  it('narrows by type, name, outcome and text in the URL', async () => {
    await send('Flight Departed', { dep_delay: 1, note: HOSTILE });
    const { page } = await app.open('/live');
    await page.getByRole('button', { name: 'Flight Departed' }).first().waitFor();
    await takePictures(page, 'live');
    await expectAccessible(page);
    await page.getByLabel('Text').fill('alert(1)');
    await expect.poll(() => rowsOf(page).count()).toBe(2);
    expect(new URL(page.url()).searchParams.get('q')).toBe('alert(1)');
    await page.getByRole('combobox', { name: 'Outcome' }).click();
    await page.getByRole('option', { name: 'Accepted', exact: true }).click();
    await page.getByText('None of the events that came matches this filter.').waitFor();
    const shared = await app.open('/live?outcome=rejected&q=alert(1)');
    await expect.poll(() => rowsOf(shared.page).count()).toBe(2);
  });

  it('opens an event, with its violations marked, and holds the list meanwhile', async () => {
    const { page } = await app.open('/live?q=dep_delay&outcome=rejected&type=track');
    await send('Flight Departed', { dep_delay: 2, note: HOSTILE });
    await page.getByRole('button', { name: 'Flight Departed' }).first().click();
    const drawer = page.getByRole('dialog', { name: 'Flight Departed' });
    await drawer.getByText('1 violation of its contract').waitFor();
    const json = drawer.getByRole('textbox', { name: 'Event as received' });
    await expect.poll(() => json.locator('.cm-marked').textContent()).toContain('arr_delay is required');
    expect(await json.textContent()).toContain(HOSTILE);
    await takePictures(page, 'live-event');
    await expectAccessible(page);
    await send('Flight Departed', { dep_delay: 3, note: 'while open' });
    await page.getByText('Show 1 new').waitFor();
    await page.keyboard.press('Escape');
    await drawer.waitFor({ state: 'hidden' });
    await page.getByRole('button', { name: 'Show 1 new' }).click();
    await expect.poll(() => page.getByText(/^Show \d+ new$/).count()).toBe(0);
  });

  it('can be paused and resumed', async () => {
    const { page } = await app.open('/live?name=Paused');
    await page.getByRole('status').getByText('Live').waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    await send('Paused 1');
    await page.getByText('Show 1 new').waitFor();
    expect(await page.getByRole('button', { name: 'Paused 1' }).count()).toBe(0);
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByRole('button', { name: 'Paused 1' }).waitFor();
  });

  it('states that it is not connected, and connects by itself', async () => {
    const { page, failures } = await app.open('/events');
    for (const [status, words] of [
      [429, 'too many requests'],
      [503, 'unavailable'],
    ] as const) {
      await page.getByRole('table', { name: 'Recent events' }).waitFor();
      const failure = await failures.answer('**/events/live*', status);
      await page.getByRole('link', { name: 'Live', exact: true }).click();
      await page.getByRole('status').getByText(words).waitFor();
      if (status === 503) await takePictures(page, 'live-unavailable');
      await failure.end();
      await page.getByRole('status').getByText('Live', { exact: true }).waitFor();
      await page.getByRole('link', { name: 'Event search' }).click();
    }
  });

  it('states that it is refused on 403, and tries again when asked', async () => {
    const { page, failures } = await app.open('/events');
    await page.getByRole('table', { name: 'Recent events' }).waitFor();
    const failure = await failures.answer('**/events/live*', 403);
    await page.getByRole('link', { name: 'Live', exact: true }).click();
    await page.getByRole('alert').getByText('permission denied').waitFor();
    await failure.end();
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('status').getByText('Live', { exact: true }).waitFor();
  });

  it('draws and keeps a bounded number of many events, and reports missed ones', async () => {
    const { page } = await app.open('/live');
    await page.getByRole('status').getByText('Live').waitFor();
    for (let batch = 0; batch < BATCHES; batch++)
      await producer().post('./events/batch', {
        batch: Array.from({ length: BATCH }, (_, index) => ({
          type: 'track',
          event: `Load ${batch}`,
          user_id: `u${index}`,
        })),
      });
    // Between partitions there is no order: without this it may come before a thousand of the others.
    await drained(app.tributary);
    await send('Last');
    await page.getByRole('button', { name: 'Last' }).waitFor();
    expect(await page.locator('#live-events tbody tr').count()).toBeLessThan(60);
    const table = page.getByRole('table', { name: 'Live events' });
    const kept = Number(await table.getAttribute('aria-rowcount')) - 1;
    expect(kept).toBeGreaterThan(100);
    expect(kept).toBeLessThanOrEqual(1_000);
    await page.locator('#live-events').evaluate((list) => list.scrollTo({ top: 8_000 }));
    await expect
      .poll(() => rowsOf(page).nth(1).getAttribute('aria-rowindex').then(Number))
      .toBeGreaterThan(100);
  });

  it('is usable on a phone', async () => {
    const { page } = await app.open('/live', { width: 360 });
    await rowsOf(page).nth(1).waitFor();
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(360);
    await expectAccessible(page);
  });
});
