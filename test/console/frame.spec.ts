import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expectAccessible } from './helpers/axe.ts';
import { chromiumPath } from './helpers/chromium.ts';
import { type ConsoleUnderTest, startConsole } from './helpers/console.ts';
import { takePictures } from './helpers/pictures.ts';

describe.skipIf(chromiumPath === undefined)('the frame', () => {
  let app: ConsoleUnderTest;
  beforeAll(async () => {
    app = await startConsole({ flights: 100 });
  });
  afterAll(() => app?.close());

  it('is passed by with the keyboard: the first stop leads to the content', async () => {
    const { page } = await app.open('/keys');
    await page.getByRole('heading', { level: 1 }).waitFor();
    await page.keyboard.press('Tab');
    await page.getByRole('link', { name: 'Skip to the content' }).and(page.locator(':focus')).waitFor();
    await page.keyboard.press('Enter');
    await page.locator('main:focus').waitFor();
  });

  it('marks the page that is open, and the page above the one that is open', async () => {
    const { page } = await app.open('/contracts/new');
    const menu = page.getByRole('navigation', { name: 'Pages' });
    await menu.getByRole('link', { name: 'Contracts' }).and(page.locator('[data-active]')).waitFor();
    expect(await menu.locator('a[data-active]').count()).toBe(1);
  });

  it('hands the focus to the heading of the page that a link leads to, and to nothing on the first', async () => {
    const { page } = await app.open('/keys');
    await page.getByRole('heading', { level: 1 }).waitFor();
    expect(await page.locator(':focus').count()).toBe(0);
    const menu = page.getByRole('navigation', { name: 'Pages' });
    for (const name of ['Contracts', 'Profiles']) {
      await menu.getByRole('link', { name }).click();
      await page.getByRole('heading', { level: 1, name }).and(page.locator(':focus')).waitFor();
    }
    await page.keyboard.press('Tab');
    await page.locator('main :focus').waitFor();
  });

  it('finds pages and entities by name, with the keyboard alone', async () => {
    const { page } = await app.open('/keys');
    await page.getByRole('heading', { level: 1 }).waitFor();
    await page.keyboard.press('Control+k');
    const field = page.getByRole('textbox', { name: 'Page, name or message id' });
    await field.fill('late');
    await page.getByRole('button', { name: 'More than an hour late' }).waitFor();
    await page.getByRole('button', { name: 'Late ones to the webhook' }).waitFor();
    await expectAccessible(page);
    await takePictures(page, 'search');
    await field.fill('late ones');
    await page.getByRole('button', { name: 'More than an hour late' }).waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Late ones to the webhook' }).waitFor();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await expect.poll(() => new URL(page.url()).pathname).toMatch(/\/rules\/[\w-]{36}$/);
  });

  it('leads to the documentation, of the same server', async () => {
    const { page } = await app.open('/keys');
    await page.getByRole('button', { name: 'Help' }).click();
    const links = page.getByRole('menuitem');
    await links.first().waitFor();
    const addresses = await links.evaluateAll((found) =>
      found.map((link) => link.getAttribute('href') ?? ''),
    );
    expect(addresses).toEqual(['/guide/', '/docs']);
    for (const address of addresses) expect((await fetch(`${app.tributary.url}${address}`)).status).toBe(200);
  });

  it('leads to an event by its message id', async () => {
    const { page } = await app.open('/keys');
    const [departure] = app.flights.departures;
    await page.getByRole('button', { name: /^Search/ }).click();
    await page.getByRole('textbox', { name: 'Page, name or message id' }).fill(departure?.message_id ?? '');
    await page.getByRole('button', { name: /Where is the event/ }).click();
    await expect.poll(() => page.url()).toContain(`/events/${departure?.message_id}`);
  });

  it('states when the search does not answer, and keeps the pages', async () => {
    const { page, failures } = await app.open('/keys');
    await page.getByRole('heading', { level: 1 }).waitFor();
    await failures.answer(/\/destinations\?/, 403);
    await page.keyboard.press('Control+k');
    await page.getByRole('textbox', { name: 'Page, name or message id' }).fill('zzz');
    await page.getByText('The search does not answer').waitFor();
  });

  it('fits 360 px, with the menu behind a button', async () => {
    const { page } = await app.open('/profiles', { width: 360 });
    await page.getByRole('heading', { level: 1 }).waitFor();
    await expectAccessible(page);
    expect(
      await page.evaluate<number>(
        'document.documentElement.scrollWidth - document.documentElement.clientWidth',
      ),
    ).toBe(0);
    await page.getByRole('button', { name: 'Menu' }).click();
    await expectAccessible(page);
    await page.getByRole('link', { name: 'Rules' }).click();
    await page.getByRole('heading', { level: 1, name: 'Rules' }).waitFor();
  });
});
