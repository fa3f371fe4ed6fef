import { randomUUID } from 'node:crypto';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Client } from '../helpers/client.ts';
import { expectAccessible } from './helpers/axe.ts';
import { chromiumPath } from './helpers/chromium.ts';
import { type ConsoleUnderTest, startConsole } from './helpers/console.ts';
import { type FailureStatus, tryAgain } from './helpers/failures.ts';
import { takePictures } from './helpers/pictures.ts';

const HOSTILE = '<script>alert(1)</script>';
const FAILURES: readonly (readonly [FailureStatus, string])[] = [
  [403, 'permission denied'],
  [429, 'too many requests'],
  [503, 'unavailable'],
];
const BAD = { arr_delay: 'late', dep_delay: 5, note: HOSTILE };

describe.skipIf(chromiumPath === undefined)('event search', () => {
  let app: ConsoleUnderTest;
  let producer: Client;
  beforeAll(async () => {
    app = await startConsole({ flights: 300 });
    producer = app.tributary.owner.with({ token: app.flights.writeKey, workspaceId: app.workspaceId });
  });
  afterAll(() => app?.close());
  beforeEach(() => app.flights.webhook.behave(undefined));

  /** A flight with a message id of its own. */
  async function send(properties: object, messageId: string = randomUUID()): Promise<string> {
    const event = { message_id: messageId, event: 'Flight Departed', user_id: 'N14228', properties };
    await producer.post('./events/track', event);
    return messageId;
  }

  it('lists recent events by filters of the URL, and leads to each', async () => {
    const { page } = await app.open('/events?type=track&name=Flight%20Departed');
    const table = page.getByRole('table', { name: 'Recent events' });
    await table.waitFor();
    expect(await table.getByRole('row').count()).toBe(51);
    await takePictures(page, 'event-search');
    await expectAccessible(page);
    await page.getByRole('combobox', { name: 'Type' }).click();
    await page.getByRole('option', { name: 'identify' }).click();
    await expect.poll(() => new URL(page.url()).searchParams.get('type')).toBe('identify');
    await page.getByText('No event of the last 24 hours that matches was found.').waitFor();
    await page.getByLabel('Event name').fill('');
    await table.getByRole('link', { name: 'identify' }).first().click();
    await page.getByRole('heading', { level: 1, name: 'identify' }).waitFor();
  });

  it('marks violations in the event, and shows hostile data as text', async () => {
    const messageId = await send(BAD);
    const { page } = await app.open('/events');
    await page.getByLabel('Message id').fill(`  ${messageId} `);
    await page.getByRole('button', { name: 'Find event' }).click();
    await page.getByText('Its contract blocked it.').waitFor();
    const path = page.getByRole('region', { name: 'Path', exact: true });
    await path.getByText('Rejected by its contract').waitFor();
    await path.getByText('A departure knows its delay, version 1, 1 violation').waitFor();
    const json = page.getByRole('textbox', { name: 'Event as received' });
    const marked = json.locator('.cm-marked');
    await expect.poll(() => marked.textContent()).toMatch(/"arr_delay": "late",?must be (a )?number/);
    expect(await json.textContent()).toContain(HOSTILE);
    await takePictures(page, 'event-rejected');
    await expectAccessible(page);
  });

  it('shows why each rule matched or not, and the output of the transformation', async () => {
    const messageId = await send({ arr_delay: 1, dep_delay: 90 });
    const { page } = await app.open(`/events/${messageId}`);
    await page.getByText('Every delivery of it that its destination takes arrived.').waitFor();
    const rules = page.getByRole('table', { name: 'Rules' });
    await rules.getByRole('row', { name: /Late ones to the webhook.*Demo webhook.*Yes/ }).waitFor();
    await page.getByRole('button', { name: /Delivered.*Demo webhook/ }).click();
    await expect.poll(() => new URL(page.url()).searchParams.get('delivery')).toMatch(/^[0-9a-f-]{36}$/);
    await page.getByRole('button', { name: 'Compare with what was sent' }).click();
    const diff = page.getByRole('textbox', { name: /output of the transformation/ });
    await expect
      .poll(() => diff.locator('.cm-changedLine').allTextContents())
      .toContainEqual(expect.stringContaining('"hours_late": 1.5'));
    await takePictures(page, 'event');
    await expectAccessible(page);
  });

  it('shows each attempt of a dead delivery, and sends it again', async () => {
    app.flights.webhook.behave((_, response) => response.writeHead(400).end(`no: ${HOSTILE}`));
    const messageId = await send({ arr_delay: 1, dep_delay: 120 });
    const { page, failures } = await app.open(`/events/${messageId}`);
    await page.getByText('At least one delivery failed for good.').waitFor();
    await page.getByRole('button', { name: /Dead.*Demo webhook/ }).click();
    await page.getByText(/Given up.*HTTP 400/).waitFor();
    await page.getByText(`no: ${HOSTILE}`).first().waitFor();
    await takePictures(page, 'event-dead');
    await expectAccessible(page);

    const refusal = await failures.answer('**/redrive', 409);
    await page.getByRole('button', { name: 'Send again' }).click();
    await page.getByRole('alert').waitFor();
    await refusal.end();
    app.flights.webhook.behave(undefined);
    await page.getByRole('button', { name: 'Send again' }).click();
    await page.getByRole('button', { name: /Delivered.*Demo webhook/ }).waitFor();
    await page.getByText('2 attempts', { exact: true }).waitFor();
  });

  it('does not offer to send again to members with read access', async () => {
    app.flights.webhook.behave((_, response) => response.writeHead(400).end('no'));
    const messageId = await send({ arr_delay: 1, dep_delay: 130 });
    const email = 'viewer@example.com';
    await app.tokenOf(email);
    await app.tributary.owner
      .with({ workspaceId: app.workspaceId })
      .post('./members', { email, role: 'viewer' })
      .catch(() => undefined);
    const { page } = await app.open(`/events/${messageId}`, { email });
    await page.getByRole('button', { name: /Dead.*Demo webhook/ }).click();
    await page.getByText(/Given up.*HTTP 400/).waitFor();
    expect(await page.getByRole('button', { name: 'Send again' }).count()).toBe(0);
  });

  it('states that an event is not there yet, and finds it by itself', async () => {
    const messageId = randomUUID();
    const { page, watch } = await app.open(`/events/${messageId}`);
    watch.expectStatus(404);
    await page.getByText('Not found yet').waitFor();
    await takePictures(page, 'event-not-found');
    await expectAccessible(page);
    await send({ arr_delay: 1, dep_delay: 0 }, messageId);
    await page.getByRole('heading', { level: 1, name: 'Flight Departed' }).waitFor();
    await page.getByText('Every delivery of it that its destination takes arrived.').waitFor();
  });

  it('states why it has no result, and continues', async () => {
    const messageId = app.flights.departures[0]?.message_id ?? '';
    const { page, failures } = await app.open('/events');
    for (const [status, words] of FAILURES) {
      const failure = await failures.answer(`**/events/${messageId}*`, status);
      await openEvent(page, messageId);
      await page.getByRole('alert').getByText(words).first().waitFor();
      if (status === 503) await takePictures(page, 'event-unavailable');
      await tryAgain(page.getByRole('button', { name: 'Try again' }), failure);
      await page.getByRole('heading', { level: 1, name: 'Flight Departed' }).waitFor();
      await page.getByRole('link', { name: 'Event search' }).click();
      await page.reload();
    }
  });

  it('is usable on a phone', async () => {
    const { page } = await app.open(`/events/${app.flights.departures[1]?.message_id}`, { width: 360 });
    await page.getByRole('region', { name: 'Path', exact: true }).waitFor();
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(360);
    await expectAccessible(page);
  });
});

async function openEvent(page: Page, messageId: string): Promise<void> {
  await page.getByLabel('Message id').fill(messageId);
  await page.getByRole('button', { name: 'Find event' }).click();
}
