import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DEPARTED } from '../demo/flights.ts';
import { expectAccessible } from './helpers/axe.ts';
import { chromiumPath } from './helpers/chromium.ts';
import { type ConsoleUnderTest, startConsole } from './helpers/console.ts';
import { writeInto } from './helpers/editor.ts';
import { takePictures } from './helpers/pictures.ts';

interface StoredContract {
  readonly id: string;
  readonly version: number;
  readonly name: string;
  readonly status: string;
  readonly schema_definition: object;
}

const FLIGHTS = 600;
const HOSTILE = '<script>document.title = "broken"</script>';
/** A schema with what a form has no field for. */
const RICH = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  title: 'A departure',
  'x-labels': { team: 'ops' },
  type: 'object',
  required: ['carrier'],
  properties: {
    carrier: { type: 'string', pattern: '^[A-Z0-9]{2}$', examples: ['UA'] },
    dest: { anyOf: [{ type: 'string' }, { type: 'null' }] },
    anything: true,
  },
};

describe.skipIf(chromiumPath === undefined)('contracts', () => {
  let app: ConsoleUnderTest;
  let contractId = '';
  beforeAll(async () => {
    app = await startConsole({ flights: FLIGHTS });
    const client = app.tributary.owner.with({ workspaceId: app.workspaceId });
    const [contract] = await client.get<readonly StoredContract[]>('./event-contracts');
    contractId = contract?.id ?? '';
  });
  afterAll(() => app?.close());

  const client = () => app.tributary.owner.with({ workspaceId: app.workspaceId });

  it('are listed with their violations per hour, and lead to the events', async () => {
    const { page } = await app.open('/contracts');
    const row = page.getByRole('row', { name: /A departure knows its delay/ });
    await row.getByRole('img', { name: /\d+ violations? in 24 hours/ }).waitFor();
    await expectAccessible(page);
    await takePictures(page, 'contracts');
    await row.getByRole('link', { name: 'A departure knows its delay' }).click();
    await page.getByRole('tab', { name: 'Violations' }).click();
    const violations = page.getByRole('table', { name: 'Violations' });
    await violations.getByText('/arr_delay').first().waitFor();
    await page
      .getByRole('img', { name: /violations in 24 hours, by the hour/ })
      .locator('svg')
      .first()
      .waitFor();
    await expectAccessible(page);
    await takePictures(page, 'contract-violations');
    await violations.getByRole('link').first().click();
    await expect.poll(() => new URL(page.url()).pathname).toMatch(/\/events\/[0-9a-f-]{36}$/);
  });

  it('are inferred from events, shown with what would be rejected, and saved', async () => {
    const { page } = await app.open('/contracts/new');
    await page.getByRole('heading', { level: 1, name: 'New contract' }).waitFor();
    await page.getByLabel('Type', { exact: true }).selectOption('identify');
    await page.getByRole('button', { name: 'Look at recent events' }).click();
    await page.getByRole('table', { name: 'What was seen' }).getByText('/seats').waitFor();
    await page.getByRole('textbox', { name: 'Name of the field seats' }).waitFor();
    await expectAccessible(page);
    await takePictures(page, 'contract-new');
    await page.getByLabel('Name of the contract').fill(HOSTILE);
    await page.getByLabel('An event that breaks it').selectOption('block');
    await page.getByRole('button', { name: 'Add a field to the event' }).click();
    await page.getByRole('textbox', { name: 'Name of the field', exact: true }).fill('reason');
    await page.getByRole('checkbox', { name: 'reason is required' }).check();
    await page.getByRole('button', { name: 'Review and save' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText(/^100 % would be rejected: \d+ of \d+ recent events$/).waitFor();
    await dialog.getByText('/reason').first().waitFor();
    await takePictures(page, 'contract-review');
    await dialog.getByRole('button', { name: 'Create contract' }).click();
    await page.getByRole('heading', { level: 1, name: HOSTILE }).waitFor();
    expect(await page.title()).toContain(HOSTILE);
    const made = await client().get<readonly StoredContract[]>('./event-contracts?event_type=identify');
    expect(made).toMatchObject([
      { name: HOSTILE, schema_definition: { properties: { reason: { type: 'string', required: true } } } },
    ]);
  });

  it('keep keywords that have no field in the form, and accept JSON with faults marked at their place', async () => {
    const { id } = await client().post<StoredContract>('./event-contracts', {
      name: 'Rich',
      event_type: 'page',
      event_name: 'Rich',
      schema_definition: RICH,
    });
    const { page, watch } = await app.open(`/contracts/${id}`);
    await page.getByRole('textbox', { name: 'Other keywords' }).first().waitFor();
    await expectAccessible(page);
    await page.getByRole('checkbox', { name: 'dest is required' }).check();
    await page.getByRole('button', { name: 'Review and save' }).click();
    await page.getByRole('button', { name: 'Save contract' }).click();
    await page.getByText('Saved version 2 of Rich').waitFor();
    const saved = await client().get<StoredContract>(`./event-contracts/${id}`);
    expect(saved.schema_definition).toEqual({ ...RICH, required: ['carrier', 'dest'] });

    await page.getByText('JSON Schema', { exact: true }).click();
    const editor = page.getByRole('textbox', { name: 'Schema of the contract' });
    await writeInto(editor, '{ "properties": { "a": { "type": "strin" } } }');
    watch.expectStatus(400);
    await page.getByRole('button', { name: 'Review and save' }).click();
    await page.getByRole('button', { name: /^Save contract/ }).click();
    await page.locator('.cm-lint-marker-error').waitFor();
    await page.getByText('properties.a.type', { exact: false }).first().waitFor();
    await expectAccessible(page);
    await takePictures(page, 'contract-json');
    // Escape, then Tab leaves the editor.
    await editor.focus();
    await page.keyboard.press('Escape');
    await page.keyboard.press('Tab');
    await expect.poll(() => page.locator('.cm-content:focus').count()).toBe(0);

    await writeInto(editor, '{ "properties": {');
    await page.getByText('Form', { exact: true }).click();
    await page.getByText('The form cannot show this text').waitFor();
  });

  it('show both versions when another person was faster, and lose nothing', async () => {
    const { page, watch } = await app.open(`/contracts/${contractId}`);
    const name = page.getByLabel('Name of the contract');
    await name.fill('Mine');
    await client().ok('PATCH', `./event-contracts/${contractId}`, { description: 'Theirs' });
    watch.expectStatus(412);
    await page.getByRole('button', { name: 'Review and save' }).click();
    await page.getByRole('button', { name: /^Save contract/ }).click();
    await page.getByRole('table', { name: 'Differences' }).getByText('Mine').waitFor();
    await expectAccessible(page);
    await takePictures(page, 'contract-conflict');
    await page.getByRole('button', { name: 'Save my changes on top' }).click();
    await page.getByText(/^Saved version \d+ of Mine$/).waitFor();
    expect(await client().get<object>(`./event-contracts/${contractId}`)).toMatchObject({
      name: 'Mine',
      description: 'Theirs',
    });

    await page.getByRole('tab', { name: 'Versions' }).click();
    await page.getByRole('table', { name: 'Versions' }).waitFor();
    await page.getByLabel(/^Version \d+ compared with version \d+$/).waitFor();
    await expectAccessible(page);
    await takePictures(page, 'contract-versions');
    await page.getByLabel('From').selectOption('1');
    await page.getByRole('button', { name: 'Bring version 1 back' }).click();
    await page
      .getByRole('dialog')
      .getByText(/would be rejected/)
      .first()
      .waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Bring version 1 back' }).click();
    await page.getByText(/^Version 1 is back, as version \d+$/).waitFor();
  });

  it('keep the input while the API refuses or is slow', async () => {
    const { page, failures } = await app.open(`/contracts/${contractId}`);
    const name = page.getByLabel('Name of the contract');
    await name.fill('Typed');
    const slow = await failures.hold(`**/event-contracts/${contractId}?dry_run*`);
    await page.getByRole('button', { name: 'Review and save' }).click();
    await page.getByRole('status').getByText('Trying the contract').waitFor();
    await slow.end();
    await page.getByRole('button', { name: 'Save contract', exact: true }).waitFor();
    const taken = await failures.answer(`**/event-contracts/${contractId}`, 409, 'PUT');
    await page.getByRole('button', { name: 'Save contract', exact: true }).click();
    await page.getByText('Something else has this already.').waitFor();
    await taken.end();
    expect(await name.inputValue()).toBe('Typed');
    const down = await failures.answer(`**/event-contracts/${contractId}?dry_run*`, 503);
    await page.getByRole('button', { name: 'Review and save' }).click();
    await page.getByRole('button', { name: 'Save contract without trying it' }).waitFor();
    await takePictures(page, 'contract-review-fails');
    await down.end();
    await page.getByRole('button', { name: 'Back to the form' }).click();
    await failures.answer('**/console/session', 401);
    await failures.answer(`**/event-contracts/${contractId}?dry_run*`, 401);
    await page.getByRole('button', { name: 'Review and save' }).click();
    await page.getByRole('dialog', { name: 'Sign in again' }).waitFor();
    expect(await name.inputValue()).toBe('Typed');
  });

  it('offer nothing to members with read access', async () => {
    await client().post('./members', { email: 'viewer@example.com', role: 'viewer' });
    const { page } = await app.open(`/contracts/${contractId}`, { email: 'viewer@example.com' });
    await page.getByLabel('Name of the contract').waitFor();
    expect(await page.getByRole('button', { name: 'Review and save' }).count()).toBe(0);
    expect(await page.getByRole('button', { name: 'Archive' }).count()).toBe(0);
    await expectAccessible(page);
  });

  it('are archived once that was asked', async () => {
    const { id } = await client().post<StoredContract>('./event-contracts', {
      name: 'Old',
      event_type: 'group',
      schema_definition: { properties: {} },
    });
    const { page } = await app.open(`/contracts/${id}`, { width: 360 });
    await page.getByRole('button', { name: 'Archive' }).click();
    await page.getByRole('dialog').getByText('cannot be changed or brought').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Archive' }).click();
    await page.getByText('archived', { exact: true }).waitFor();
    expect(await client().get<StoredContract>(`./event-contracts/${id}`)).toMatchObject({
      status: 'archived',
    });
  });

  it(`say in an empty workspace what to do first, for events such as ${DEPARTED}`, async () => {
    const { page } = await app.open(`~/w/${app.tributary.workspaceId}/contracts`);
    await page.getByRole('heading', { name: 'No contract yet: every event passes' }).waitFor();
    await expectAccessible(page);
    await takePictures(page, 'contracts-empty');
    await page.getByRole('link', { name: 'New contract' }).first().click();
    await page.getByRole('heading', { level: 1, name: 'New contract' }).waitFor();
    await page.getByRole('button', { name: 'Look at recent events' }).click();
    await page.getByText('There is no such event').waitFor();
  });
});
