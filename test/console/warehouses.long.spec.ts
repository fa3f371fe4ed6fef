import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Client } from '../helpers/client.ts';
import { postgresServer, postgresSettings } from '../helpers/postgres.ts';
import { expectAccessible } from './helpers/axe.ts';
import { chromiumPath } from './helpers/chromium.ts';
import { type ConsoleUnderTest, startConsole } from './helpers/console.ts';
import { REQUEST_ID, tryAgain } from './helpers/failures.ts';
import { takePictures } from './helpers/pictures.ts';

const HOSTILE = '<img src=x onerror=alert(1)>';

const server = chromiumPath === undefined ? undefined : await postgresServer();

describe.skipIf(server === undefined)('the pages of a warehouse', () => {
  let app: ConsoleUnderTest;
  let client: Client;
  let database: pg.Client;
  const settings = {
    ...postgresSettings(server),
  };

  beforeAll(async () => {
    database = new pg.Client(server?.url);
    await database.connect();
    app = await startConsole();
    client = app.tributary.owner.with({ workspaceId: app.workspaceId });
  });
  afterAll(async () => {
    await app?.close();
    await database?.end();
    await server?.stop();
  });

  const make = (name: string, fields: object = {}) =>
    client.post<{ readonly id: string }>('./destinations', {
      name,
      type: 'warehouse-postgresql',
      settings: { ...settings, load_every: '24h', ...fields },
    });
  const send = (event: string, properties: object) =>
    app.tributary.producer.post('./events/track', { event, user_id: 'ada', properties });

  it('are reached from its form, which says what follows; loading is watched until it is done', async () => {
    const { page } = await app.open('/destinations/new');
    await page.getByRole('region', { name: /^Warehouses/ }).waitFor();
    await takePictures(page, 'warehouse-kinds');
    await page.getByRole('button', { name: /^PostgreSQL \(warehouse/ }).click();
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('Analytics');
    for (const [label, value] of [
      ['Host', settings.host],
      ['Port', String(settings.port)],
      ['Database', settings.database],
      ['User', settings.username],
      ['Load every', '24h'],
    ] as const)
      await page.getByRole('textbox', { name: label, exact: true }).fill(value);
    if (settings.password !== undefined)
      await page.getByLabel('Password', { exact: true }).fill(settings.password);
    await page.getByRole('switch', { name: /^TLS/ }).press('Space');
    await expectAccessible(page);
    await takePictures(page, 'warehouse-form');
    await page.getByRole('button', { name: 'Create destination' }).click();
    await page.getByText('Events that are accepted from now on are loaded').waitFor();
    await page.getByRole('button', { name: 'Test the connection' }).click();
    await page.getByText('It would take loads').waitFor();
    await takePictures(page, 'warehouse-created');
    await page.getByRole('link', { name: 'Watch its loads' }).click();
    await page.getByRole('heading', { level: 1, name: 'Analytics' }).waitFor();
    await page.getByRole('table', { name: 'Loads' }).waitFor();
    await send('Order Completed', { total: 10, [HOSTILE]: HOSTILE });
    await send('Order Completed', { total: 10.5 });
    await page.getByRole('button', { name: 'Load now' }).click();
    await page.getByText(/^Done: 4 rows in 1 load\./).waitFor();
    await page.getByRole('region', { name: 'Last load' }).getByText('4 rows').waitFor();
    await expectAccessible(page);
    await takePictures(page, 'warehouse');
    await page.getByRole('tab', { name: 'Tables' }).click();
    const tables = page.getByRole('table', { name: 'Tables' });
    await tables
      .getByRole('row')
      .filter({ hasText: 'order_completed' })
      .getByText('2', { exact: true })
      .waitFor();
    await page.getByRole('link', { name: 'order_completed' }).click();
    await page.waitForURL(/table=order_completed/);
    const total = page
      .getByRole('table', { name: 'Columns' })
      .getByRole('row')
      .filter({ hasText: 'properties.total' });
    await total.getByText('numeric').waitFor();
    await total.getByText('the values').waitFor();
    await page.getByText(`properties.${HOSTILE}`).waitFor();
    await expectAccessible(page);
    await takePictures(page, 'warehouse-table');
  });

  it('name the failure, and what waits meanwhile; the load that was asked for says so too', async () => {
    const { id } = await make('Away', { database: 'nowhere' });
    const { page } = await app.open(`/destinations/${id}`);
    await page.getByRole('alert').or(page.getByText('The warehouse refuses the loads')).first().waitFor();
    await page.getByText('Settings or rights have to be corrected.').waitFor();
    await page.getByRole('table', { name: 'Loads' }).getByText('Refused').waitFor();
    await page.getByRole('button', { name: 'Load now' }).click();
    await page.getByText('It failed. The warehouse refuses the loads').waitFor();
    await expectAccessible(page);
    await takePictures(page, 'warehouse-failing');
    await page.getByRole('tab', { name: 'Tables' }).click();
    await page.getByRole('heading', { name: 'No table yet' }).waitFor();
    await page.getByRole('tab', { name: 'Discards' }).click();
    await page.getByRole('heading', { name: 'No discards' }).waitFor();
    await page.getByRole('tab', { name: 'Loads' }).click();
    await page.getByRole('button', { name: 'Pause', exact: true }).click();
    await page.getByText('Nothing is loaded while it is paused.').waitFor();
  });

  it('show the discards of each load with their events', async () => {
    await database.query('create schema odd');
    const { id } = await make('Odd', { schema: 'odd' });
    await send('Seen', { when: 1 });
    await client.post(`./destinations/${id}/load`);
    const { page } = await app.open(`/destinations/${id}`);
    const loads = page.getByRole('table', { name: 'Loads' });
    await loads.getByText('Loaded').first().waitFor();
    await expect
      .poll(async () => (await database.query("select to_regclass('odd.seen') as n")).rows[0]?.n, {
        timeout: 60_000,
      })
      .not.toBeNull();
    await database.query('create view odd.of_seen as select "when" from odd.seen');
    await send('Seen', { when: HOSTILE });
    await page.getByRole('button', { name: 'Load now' }).click();
    await page.getByText(/^Done: /).waitFor();
    await loads
      .getByRole('button', { name: /^Details/ })
      .first()
      .click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('the column is of type bigint').first().waitFor();
    await expectAccessible(page);
    await takePictures(page, 'warehouse-load');
    await page.keyboard.press('Escape');
    await page.getByRole('tab', { name: 'Discards' }).click();
    await page.getByText('seen.when').waitFor();
    await expectAccessible(page);
    await takePictures(page, 'warehouse-discards');
    await page.getByRole('table', { name: 'Samples of discards' }).getByRole('link').first().click();
    await page.getByRole('heading', { level: 1, name: /Seen/ }).waitFor();
  });

  it('stay quick with 300 tables and 1,000 columns of hostile names', async () => {
    const { id } = await make('Large', { schema: 'large' });
    const { page } = await app.open(`/destinations/${id}?tab=tables`);
    const since = '2026-03-01T10:00:00.000Z';
    const column = (n: number) => ({
      name: n % 50 === 0 ? `${HOSTILE}_${n}` : `column_${n}`,
      type: 'text',
      origin: 'value',
      path: `properties.${'a'.repeat(n % 40)}.${HOSTILE}`,
      since,
    });
    const tables = Array.from({ length: 300 }, (_, n) => ({
      name: n === 7 ? `${HOSTILE}${'x'.repeat(63)}` : `table_${n}`,
      columns: Array.from({ length: n === 0 ? 1_000 : 20 }, (_, at) => column(at)),
      rows: n * 1_000,
      created_at: since,
      updated_at: since,
    }));
    await page.route('**/schema', (route) => route.fulfill({ json: { destination_id: id, tables } }));
    await page.reload();
    await page.getByText('300 tables').waitFor();
    await expectAccessible(page);
    await takePictures(page, 'warehouse-tables');
    await page.getByRole('button', { name: 'Page 6' }).click();
    await page.getByRole('link', { name: 'table_299' }).waitFor();
    await page.getByLabel('Filter tables').fill('table_0');
    await page.getByRole('link', { name: 'table_0', exact: true }).click();
    await page.getByText('1,000 columns').waitFor();
    await page.getByLabel('Filter columns').fill('column_999');
    await page.getByText('1 of 1,000 columns').waitFor();
    await expectAccessible(page);
  });

  it('show the error of the API in its place, and viewers no button', async () => {
    const { id } = await make('Seen by all', { schema: 'all' });
    const { page, failures } = await app.open(`/destinations/${id}`);
    await page.getByRole('button', { name: 'Load now' }).waitFor();
    const failure = await failures.answer(/\/warehouse\/[^/]+$/, 503);
    await page.reload();
    await page.getByRole('alert').getByText(REQUEST_ID).waitFor({ timeout: 30_000 });
    await tryAgain(page.getByRole('button', { name: 'Try again' }), failure);
    await page.getByRole('button', { name: 'Load now' }).waitFor();
    await client.post('./members', { email: 'viewer@example.com', role: 'viewer' });
    const { page: seen } = await app.open(`/destinations/${id}`, { email: 'viewer@example.com' });
    await seen.getByRole('region', { name: 'Loaded until' }).waitFor();
    expect(await seen.getByRole('button', { name: 'Load now' }).count()).toBe(0);
  });
});
