import type { Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { drained } from '../helpers/running-tributary.ts';
import { expectAccessible } from './helpers/axe.ts';
import { chromiumPath } from './helpers/chromium.ts';
import { type ConsoleUnderTest, startConsole } from './helpers/console.ts';
import { takePictures } from './helpers/pictures.ts';
import { startVendor, type Vendor } from './helpers/vendor.ts';

/** Clicks and filled fields from the printed link to an event at the service, at most. */
const MAX_STEPS = 25;

/** A person, whose clicks and fields are counted. */
class Person {
  readonly page: Page;
  steps = 0;

  constructor(page: Page) {
    this.page = page;
  }

  async click(target: Locator): Promise<void> {
    this.steps++;
    await target.click();
  }

  async fill(target: Locator, text: string): Promise<void> {
    this.steps++;
    await target.fill(text);
  }

  async choose(target: Locator, option: string): Promise<void> {
    this.steps++;
    await target.selectOption(option);
  }

  button(name: string | RegExp): Promise<void> {
    return this.click(this.page.getByRole('button', { name, exact: true }).first());
  }

  link(name: string): Promise<void> {
    return this.click(this.page.getByRole('link', { name, exact: true }).first());
  }

  text(name: string): Locator {
    return this.page.getByRole('textbox', { name, exact: true });
  }
}

describe.skipIf(chromiumPath === undefined)('the mappings of a service', () => {
  let app: ConsoleUnderTest;
  let vendor: Vendor;
  const order = (fields: object = {}) =>
    app.tributary.producer.post('./events/track', {
      event: 'Order Placed',
      user_id: 'ada',
      properties: { total: 12 },
      ...fields,
    });
  beforeAll(async () => {
    vendor = await startVendor();
    app = await startConsole();
    await order();
    await drained(app.tributary);
  });
  afterAll(async () => {
    await app?.close();
    await vendor?.close();
  });

  it(`are changed, tried and seen to arrive by a newcomer in ${MAX_STEPS} clicks and fields`, async () => {
    const { page } = await app.open('/overview');
    const me = new Person(page);

    // Connects the service.
    await me.click(
      page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Destinations' }),
    );
    await me.link('New destination');
    await me.fill(me.text('Find a kind'), 'klime');
    await me.click(page.getByRole('button', { name: /Klime/ }));
    await me.fill(me.text('Name'), 'Product use');
    await me.fill(me.text('API Endpoint'), vendor.url);
    await me.fill(page.getByLabel('Write Key'), 'key-0123456789');

    // Changes a field of a mapping, and looks at what an event becomes.
    await me.button(/^Track Event/);
    await me.choose(page.getByRole('combobox', { name: 'How Event Name is made' }), 'Template');
    await me.fill(me.text('Template of Event Name'), 'Shop: {{event}}');
    await page.getByText('This event: "Shop: Order Placed"').waitFor();
    const preview = page.getByRole('region', { name: 'Preview' });
    await preview.getByText('1 of 3 mappings takes this event').waitFor();
    await preview.getByText(`POST ${vendor.url}/v1/batch`).waitFor();
    await preview.getByText('Shop: Order Placed').first().waitFor();
    await preview.getByText('1 of the last 1 event (100 %)').waitFor();
    expect(await preview.textContent()).not.toContain('key-0123456789');
    expect(vendor.events).toEqual([]);
    await takePictures(page, 'mapping-preview');

    // Saves it, and sends the event.
    await me.button('Create destination');
    await me.link('Change its mappings and try them');
    await me.button('Send for real');
    await preview.getByText('The service took it').waitFor();
    await preview.getByText('queued').waitFor();
    expect(vendor.events).toMatchObject([{ event: 'Shop: Order Placed', userId: 'ada' }]);
    await expectAccessible(page);
    await takePictures(page, 'mapping-sent');

    // Lets events go there.
    await me.click(page.getByRole('tab', { name: 'Rules' }));
    await me.link('New rule to it');
    await me.fill(me.text('Name'), 'Orders to Klime');
    await me.button('Create rule');
    await page.getByText('Created "Orders to Klime"').waitFor();
    await order({ user_id: 'bob' });
    await expect
      .poll(() => vendor.events.at(-1))
      .toMatchObject({ event: 'Shop: Order Placed', userId: 'bob' });
    console.info(`mappings by a newcomer: ${me.steps} clicks and fields`);
    expect(me.steps).toBeLessThanOrEqual(MAX_STEPS);
  });
});
