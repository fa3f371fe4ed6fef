import type { BrowserContext, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../engines/engine-process.ts';
import { type OidcProvider, startOidcProvider } from '../helpers/oidc-provider.ts';
import { onCluster, startTributary, type Tributary } from '../helpers/tributary.ts';
import { startWebhook, type Webhook } from '../helpers/webhook.ts';
import { chromiumPath, openBrowser } from './helpers/chromium.ts';
import { writeInto } from './helpers/editor.ts';
import { PageWatch } from './helpers/page-watch.ts';

/** Clicks and filled fields of the whole way, at most. */
const MAX_STEPS = 60;

/** How long the person waits for anything, on a machine that others keep busy, ms. */
const WAIT_MS = 90_000;

/** Five minutes of a person, and what the machine lets the person wait. */
const WITHIN_MS = 600_000;

const CODE = `function transform(event) {
  return { ...event, properties: { ...event.properties, seen: true } };
}
`;

/** A person with a browser and no other tool. Counts what the person does. */
class Newcomer {
  readonly page: Page;
  clicks = 0;
  fields = 0;

  constructor(page: Page) {
    this.page = page;
  }

  async click(target: Locator): Promise<void> {
    this.clicks++;
    await target.click();
  }

  async fill(target: Locator, text: string): Promise<void> {
    this.fields++;
    await target.fill(text);
  }

  async write(editor: Locator, text: string): Promise<void> {
    this.fields++;
    await writeInto(editor, text);
  }

  /** A native select is one field. */
  async choose(target: Locator, option: string): Promise<void> {
    this.fields++;
    await target.selectOption(option);
  }

  menu(title: string): Promise<void> {
    const pages = this.page.getByRole('navigation', { name: 'Pages' });
    return this.click(pages.getByRole('link', { name: title, exact: true }));
  }

  button(name: string | RegExp, within: Page | Locator = this.page): Promise<void> {
    return this.click(within.getByRole('button', { name, exact: true }));
  }

  link(name: string | RegExp, within: Page | Locator = this.page): Promise<void> {
    return this.click(within.getByRole('link', { name, exact: true }));
  }

  shows(text: string | RegExp): Promise<void> {
    return this.page.getByText(text).first().waitFor();
  }

  heading(name: string | RegExp): Promise<void> {
    return this.page.getByRole('heading', { level: 1, name }).waitFor();
  }
}

/** The command of the curl snippet, as a call. */
function callOf(snippet: string): {
  readonly url: string;
  readonly headers: Record<string, string>;
  readonly body: object;
} {
  const url = /curl -s (\S+)/.exec(snippet)?.[1] ?? '';
  const user = /-u '([^']+)'/.exec(snippet)?.[1] ?? '';
  const body = /-d '(.+)'/.exec(snippet)?.[1] ?? '{}';
  const authorization = `Basic ${Buffer.from(user).toString('base64')}`;
  return {
    url,
    headers: { authorization, 'content-type': 'application/json' },
    body: JSON.parse(body) as object,
  };
}

describe.skipIf(chromiumPath === undefined)('a newcomer with a browser alone', () => {
  let tributary: Tributary;
  let issuer: OidcProvider;
  let webhook: Webhook;
  let context: BrowserContext;
  beforeAll(async () => {
    const port = String(await freePort());
    issuer = await startOidcProvider({ consoleAt: `http://127.0.0.1:${port}` });
    issuer.inBrowser({ sub: 'newcomer', email: 'newcomer@example.com', email_verified: true });
    const issuers = JSON.stringify([issuer.settings]);
    tributary = await startTributary({ env: onCluster ? { PORT: port, TRIBUTARY_ISSUERS: issuers } : {} });
    webhook = await startWebhook();
    context = await (await openBrowser()).newContext({
      viewport: { width: 1440, height: 900 },
      locale: 'en-GB',
      reducedMotion: 'reduce',
    });
  });
  afterAll(async () => {
    await context?.close();
    await webhook?.close();
    await tributary?.remove();
    await issuer?.close();
  });

  /** By the link that `tributary dev` printed; gateways of a cluster print none, and their issuer asks for nothing more. */
  async function signIn(me: Newcomer, { url, consoleLink }: Tributary): Promise<void> {
    await me.page.goto(consoleLink ?? `${url}/console/`);
    if (consoleLink !== undefined) return await me.heading('Overview');
    await me.button(`Sign in with ${new URL(issuer.issuer).host}`);
    await me.link('Create a workspace');
    await me.fill(me.page.getByRole('textbox', { name: 'Name' }), 'My workspace');
    await me.button('Create workspace');
    await me.page.waitForURL(/\/w\/[\w-]+\/keys$/);
  }

  it(
    `goes from the link to a delivered, broken, mended and redriven event in ${MAX_STEPS} clicks and fields`,
    async () => {
      const page = await context.newPage();
      page.setDefaultTimeout(WAIT_MS);
      const watch = new PageWatch(page, tributary.url, issuer.issuer);
      const me = new Newcomer(page);

      // Signs in, and creates a key.
      await signIn(me, tributary);
      await me.menu('Sources and keys');
      await me.click(page.getByRole('button', { name: 'Create write key' }).first());
      await me.fill(page.getByRole('dialog').getByLabel('Name'), 'My shop');
      await me.button('Create write key', page.getByRole('dialog'));
      await me.heading('My shop');

      // Sends the event of the snippet, and sees it live.
      const snippet = await page.getByText('curl -s').textContent();
      const call = callOf(snippet ?? '');
      const send = async (change: object = {}, path?: string) => {
        const response = await fetch(path === undefined ? call.url : new URL(path, call.url), {
          method: 'POST',
          headers: call.headers,
          body: JSON.stringify({ ...call.body, ...change }),
        });
        expect(response.status).toBe(200);
      };
      await me.shows('Waiting for the first event');
      await send();
      await me.shows('The first event arrived');
      await me.link('Watch events live');
      await me.heading('Live');
      await page.getByRole('status').getByText('Live', { exact: true }).waitFor();
      await send();
      await me.click(
        page.getByRole('table', { name: 'Live events' }).getByRole('button', { name: 'Test Event' }).first(),
      );
      await me.link('See its path and deliveries');
      await me.heading('Test Event');

      // Writes a contract of the events that came, and lets it block.
      await me.link('Write one');
      await me.shows('Filled in below from 2 events');
      await me.choose(page.getByLabel('An event that breaks it'), 'block');
      await me.button('Review and save');
      await me.button('Create contract', page.getByRole('dialog'));
      await page.getByRole('tab', { name: 'Violations' }).waitFor();

      // Breaks it, and sees the violation in the event.
      await send({ properties: { total: 'a lot' } });
      await me.click(page.getByRole('tab', { name: 'Violations' }));
      const violation = page
        .getByRole('table', { name: 'Violations' })
        .getByRole('row')
        .filter({ hasText: '/total' });
      await expect
        .poll(async () => {
          await page.reload();
          await page.getByRole('tab', { name: 'Violations', selected: true }).waitFor();
          await page
            .getByText(/^(No violation is recorded|\d+ violations? in 24 hours)$/)
            .first()
            .waitFor();
          return await violation.count();
        })
        .toBeGreaterThan(0);
      await me.click(violation.first().getByRole('link').first());
      await me.shows('1 violation of its contract');

      // Writes a transformation, and tries it on a recent event.
      await me.menu('Transformations');
      await me.click(page.getByRole('link', { name: 'New transformation' }).first());
      await me.fill(page.getByRole('textbox', { name: 'Name', exact: true }), 'Mark as seen');
      await me.button('Create transformation');
      await me.write(page.getByRole('textbox', { name: 'Code of the transformation' }), CODE);
      await me.button('Run');
      await me.button('Take event and result as the test');
      await me.button('Save');
      await me.shows('Saved version 2 of Mark as seen: active');

      // Connects a webhook, by way of the transformation.
      await me.menu('Destinations');
      await me.click(page.getByRole('link', { name: 'New destination' }).first());
      await me.click(page.getByRole('button', { name: /^Webhook/ }).first());
      await me.fill(page.getByRole('textbox', { name: 'Name', exact: true }), 'My webhook');
      await me.fill(page.getByRole('textbox', { name: 'URL', exact: true }), webhook.url);
      await me.button('Create destination');
      await me.button('Test the connection');
      await me.shows('It would take deliveries');
      await me.link('Choose which events go there');
      await me.fill(page.getByRole('textbox', { name: 'Name', exact: true }), 'Everything to my webhook');
      await me.click(page.getByRole('combobox', { name: 'Transformation' }));
      await me.click(page.getByRole('option', { name: 'Mark as seen' }));
      await me.button('Create rule');
      await me.shows('Created "Everything to my webhook"');
      // The test of the connection is a delivery without an event.
      const seen = () =>
        webhook.deliveries().filter((each) => 'event' in each && each.event.event === 'Test Event');
      await send();
      await expect.poll(() => seen().length).toBe(1);
      expect(seen()[0]?.event.properties).toEqual({ total: 12.5, seen: true });

      // Breaks the webhook, sees the delivery dead, mends it, and sends it again.
      webhook.behave((_, response) => response.writeHead(422).end('closed'));
      await send({ properties: { total: 99 } });
      await me.menu('Deliveries');
      const failure = page
        .getByRole('table', { name: 'Failures' })
        .getByRole('row')
        .filter({ hasText: '422' });
      await failure.waitFor();
      webhook.behave(undefined);
      const before = seen().length;
      await me.button('Redrive', failure);
      await me.button('Redrive', page.getByRole('dialog'));
      await expect.poll(() => seen().length).toBe(before + 1);
      expect(seen().at(-1)?.event.properties).toEqual({ total: 99, seen: true });

      // Finds the whole path of the event.
      await me.menu('Event search');
      await me.click(page.getByRole('link', { name: 'Test Event' }).first());
      const path = page.getByRole('region', { name: 'Path' });
      for (const step of ['Received', 'Keeps its contract', '1 of 1 rule matches', 'Delivered: My webhook'])
        await path.getByText(step).first().waitFor();

      // Looks the profile of its person up, and deletes it.
      await send({ traits: { email: 'ada@example.com', plan: 'pro' } }, '/v1/identify');
      await me.button('ada');
      await expect
        .poll(async () => {
          await page.getByRole('button', { name: 'Look up' }).click();
          return await page.getByText('pro', { exact: true }).count();
        })
        .toBe(1);
      await me.button('Delete profile');
      await me.fill(page.getByLabel('Type the identity again'), 'ada');
      await me.button('Delete profile', page.getByRole('dialog'));
      await page.getByRole('heading', { name: 'No profile has this identity' }).waitFor();

      expect(watch.problems).toEqual([]);
      console.info(`the newcomer's way: ${me.clicks} clicks and ${me.fields} fields`);
      expect(me.clicks + me.fields).toBeLessThanOrEqual(MAX_STEPS);
    },
    WITHIN_MS,
  );
});
