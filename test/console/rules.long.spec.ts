import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Client } from '../helpers/client.ts';
import { drained } from '../helpers/running-tributary.ts';
import { expectAccessible } from './helpers/axe.ts';
import { chromiumPath } from './helpers/chromium.ts';
import { type ConsoleUnderTest, startConsole } from './helpers/console.ts';
import { REQUEST_ID } from './helpers/failures.ts';
import { takePictures } from './helpers/pictures.ts';

interface Rule {
  readonly id: string;
  readonly name: string;
  readonly destination_id: string;
  readonly filter: string | null;
}

const HOSTILE = '<script>alert(1)</script>';

describe.skipIf(chromiumPath === undefined)('the pages of rules', () => {
  let app: ConsoleUnderTest;
  let client: Client;
  beforeAll(async () => {
    app = await startConsole({ flights: 120 });
    client = app.tributary.owner.with({ workspaceId: app.workspaceId });
  });
  afterAll(() => app?.close());

  const matrix = (page: Page) => page.getByRole('table', { name: 'Events by destinations' });
  const preview = (page: Page) => page.getByRole('region', { name: 'Recent events that match' });

  it('shows events by destination, and starts a rule at an empty cell with a preview of real events', async () => {
    const accepted = app.flights.departures.map(
      ({ properties }) => properties as Readonly<Record<string, number>>,
    );
    const late = accepted.filter(
      ({ arr_delay, dep_delay = 0 }) => arr_delay !== undefined && dep_delay > 60,
    ).length;
    const { page, watch } = await app.open('/rules');
    await matrix(page)
      .getByRole('link', { name: /^Flight Departed to Demo files: all are delivered/ })
      .waitFor();
    await matrix(page).getByRole('link', { name: 'New rule: identify to Demo webhook' }).waitFor();
    await expectAccessible(page);
    await takePictures(page, 'rules');
    await matrix(page).getByRole('link', { name: 'New rule: identify to Demo webhook' }).click();
    await preview(page)
      .getByText(/of [\d,]+ events? match/)
      .waitFor();
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill(`Late ${HOSTILE}`);
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('button', { name: 'Leave' }).click();
    await page.goto(`${page.url()}/new?type=track&name=Flight%20Departed`);
    await page.getByLabel('Filter').fill('event.properties.dep_delay >');
    watch.expectStatus(400);
    await preview(page).getByText('Not a rule yet').waitFor();
    await page.getByLabel('Filter').fill('event.properties.dep_delay > 60.0');
    await preview(page)
      .getByText(new RegExp(`^${late} of `))
      .waitFor();
    await expectAccessible(page);
    await takePictures(page, 'rule-new');
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill(`Late ${HOSTILE}`);
    await page.getByRole('button', { name: 'Create rule' }).click();
    await page.getByText('is required').waitFor();
    await page
      .getByRole('combobox', { name: 'Destination' })
      .or(page.getByLabel('Destination').first())
      .first()
      .click();
    await page.getByRole('option', { name: 'Demo files' }).click();
    await page.getByRole('button', { name: 'Create rule' }).click();
    await page.getByRole('heading', { level: 1, name: `Late ${HOSTILE}` }).waitFor();
    await page.getByRole('link', { name: 'All rules' }).click();
    await matrix(page)
      .getByRole('button', { name: /×2: Flight Departed to Demo files/ })
      .click();
    await page.getByRole('menuitem', { name: `Late ${HOSTILE}` }).waitFor();
  });

  it('lists rules by filters of the URL, and saves one', async () => {
    const { page } = await app.open('/rules?view=list&q=late%20ones');
    await page.getByRole('link', { name: 'Late ones to the webhook' }).click();
    await page.getByRole('heading', { level: 1, name: 'Late ones to the webhook' }).waitFor();
    const [rule] = await client.get<readonly Rule[]>('./event-forwarding-rules?q=late%20ones');
    await page.getByLabel('Filter').fill('event.properties.origin == "JFK"');
    await page.getByRole('button', { name: 'Save' }).click();
    await expect
      .poll(() => client.get<Rule>(`./event-forwarding-rules/${rule?.id}`))
      .toMatchObject({ filter: 'event.properties.origin == "JFK"' });
    await expectAccessible(page);
    await takePictures(page, 'rule');
  });

  it('tries a recent event with every rule', async () => {
    const producer = client.with({ token: app.flights.writeKey });
    const [departure] = app.flights.departures;
    await producer.post('./events/batch', { batch: [{ ...departure, message_id: 'departed-again' }] });
    await drained(app.tributary);
    const { page } = await app.open('/rules?view=try');
    await page.getByLabel('Recent event').first().click();
    await page
      .getByRole('option', { name: /^Flight Departed/ })
      .first()
      .click();
    await page.getByRole('button', { name: 'Try all rules' }).click();
    const verdicts = page.getByRole('table', { name: 'Verdicts' });
    await verdicts.getByRole('row').filter({ hasText: 'All to files' }).getByText('Forwards it').waitFor();
    await expectAccessible(page);
    await takePictures(page, 'rules-try');
  });

  it('deletes one', async () => {
    const [{ destination_id } = { destination_id: '' }] =
      await client.get<readonly Rule[]>('./event-forwarding-rules');
    const { id } = await client.post<Rule>('./event-forwarding-rules', {
      name: 'Short-lived',
      destination_id,
    });
    const { page } = await app.open(`/rules/${id}`);
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByText('Deleted "Short-lived".').waitFor();
    await matrix(page).waitFor();
  });

  it('stays a page of cells where there are thousands of events', async () => {
    const { page } = await app.open('/rules');
    const hour_bucket = new Date().toISOString();
    const volume = Array.from({ length: 5_000 }, (_, n) => ({
      event_type: 'track',
      event_name: `Event ${n}`,
      hour_bucket,
      event_count: 5_000 - n,
    }));
    await page.route('**/event-volume*', (route) => route.fulfill({ json: volume }));
    await page.reload();
    await page.getByText(/page 1 of 251|page 1 of 250/).waitFor();
    expect(await matrix(page).getByRole('row').count()).toBe(21);
    await page.getByRole('button', { name: 'Next events' }).click();
    await page.waitForURL(/page=2/);
    await page.getByLabel('Find an event').fill('Event 4321');
    await matrix(page).getByText('Event 4321').waitFor();
  });

  it('leads to a destination where none exists', async () => {
    const empty = await app.tributary.owner.post<{ readonly id: string }>('/workspaces', { name: 'Nothing' });
    const { page } = await app.open(`~/w/${empty.id}/rules`);
    await page.getByRole('heading', { name: 'No destination yet' }).waitFor();
    await expectAccessible(page);
    await takePictures(page, 'rules-empty');
  });

  it.each([401, 403, 429, 503] as const)('shows a %d of the API and keeps the form', async (status) => {
    const { page, failures } = await app.open('/rules/new?type=track');
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('Typed');
    if (status === 401) await failures.answer('**/console/session', 401);
    const dry = await failures.answer('**/dry-run', status);
    await page.getByLabel('Filter').fill('true');
    if (status === 401) await page.getByRole('dialog').waitFor();
    else await preview(page).getByText(REQUEST_ID).waitFor();
    if (status === 503) await expectAccessible(page);
    await dry.end();
    expect(await page.getByRole('textbox', { name: 'Name', exact: true }).inputValue()).toBe('Typed');
  });
});
