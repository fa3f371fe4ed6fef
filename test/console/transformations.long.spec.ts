import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RECIPES } from '../../console/src/pages/transformations/recipes.ts';
import { DEPARTED } from '../demo/flights.ts';
import { expectAccessible } from './helpers/axe.ts';
import { chromiumPath } from './helpers/chromium.ts';
import { type ConsoleUnderTest, startConsole } from './helpers/console.ts';
import { writeInto } from './helpers/editor.ts';
import { takePictures } from './helpers/pictures.ts';

interface Stored {
  readonly id: string;
  readonly name: string;
  readonly status: string;
  readonly version: number;
  readonly test_error: string | null;
  readonly source_code: string;
}

const FLIGHTS = 400;
const LATE = 'More than an hour late';
const HOSTILE = '<script>document.title = "broken"</script>';
const BROKEN = 'function transform(event) {\n  console.warn("half way");\n  return event.missing.field;\n}\n';

describe.skipIf(chromiumPath === undefined)('transformations', () => {
  let app: ConsoleUnderTest;
  let lateId = '';
  beforeAll(async () => {
    app = await startConsole({ flights: FLIGHTS });
    const [late] = await client().get<readonly Stored[]>('./event-transformations');
    lateId = late?.id ?? '';
  });
  afterAll(() => app?.close());

  const client = () => app.tributary.owner.with({ workspaceId: app.workspaceId });
  const make = (name: string, recipe = RECIPES[0]) =>
    client().post<Stored>('./event-transformations', {
      name,
      source_code: recipe?.source_code,
      test_input: recipe?.test_input,
      test_output: recipe?.test_output,
    });

  it.each(RECIPES)('come with a recipe whose test passes in the sandbox: $name', async (recipe) => {
    expect(await make(recipe.name, recipe)).toMatchObject({ status: 'active', test_error: null });
  });

  it('are listed with runs and errors', async () => {
    const { page } = await app.open('/transformations');
    const row = page.getByRole('row', { name: new RegExp(LATE) });
    await row.getByRole('img', { name: /runs in 24 h, by the hour/ }).waitFor();
    await expectAccessible(page);
    await takePictures(page, 'transformations');
    await row.getByRole('link', { name: LATE }).click();
    await page.getByRole('tab', { name: 'Runs and errors' }).click();
    await page
      .getByRole('img', { name: /runs, 0 errors in 24 hours/ })
      .locator('svg')
      .first()
      .waitFor();
    await expectAccessible(page);
    await takePictures(page, 'transformation-runs');
    await page.getByRole('tab', { name: 'Used by' }).click();
    await page.getByRole('link', { name: 'Late ones to the webhook' }).waitFor();
    await expectAccessible(page);
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByText('1 enabled rule uses it').waitFor();
  });

  it('are made from a recipe, run on a sample, mended and saved', async () => {
    const { page } = await app.open('/transformations/new');
    await page.getByRole('radio', { name: 'As it is' }).waitFor();
    await expectAccessible(page);
    await takePictures(page, 'transformation-new');
    await page.getByRole('textbox', { name: 'Name' }).fill(HOSTILE);
    await page.getByRole('button', { name: 'Create transformation' }).click();
    await page.getByRole('heading', { level: 1, name: HOSTILE }).waitFor();
    const code = page.getByRole('textbox', { name: 'Code of the transformation' });
    await writeInto(code, BROKEN);
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByText('It failed in line 3, column 24').waitFor();
    await page.getByRole('list', { name: 'Logs' }).getByText('half way').waitFor();
    await page.locator('.cm-lint-marker-error').waitFor();
    await expectAccessible(page);
    await takePictures(page, 'transformation-fails');

    await writeInto(code, 'const transform = (event) => ({ ...event, user_id: "one" });');
    await code.press('Control+Enter');
    await page.getByText('It makes one event.').waitFor();
    await page
      .getByRole('textbox', { name: 'Output' })
      .or(page.getByLabel('Output', { exact: true }))
      .first()
      .waitFor();
    await page.getByRole('button', { name: 'Take event and result as the test' }).click();
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText(/^Saved version 2 of .*: active$/).waitFor();
    await takePictures(page, 'transformation-code');
  });

  it('run on recent events, each of which can be the sample', async () => {
    const { page } = await app.open(`/transformations/${lateId}`);
    await page.getByRole('button', { name: /^Run on 20 recent events$/ }).click();
    await page.getByText(/^20 run: \d+ passed, \d+ dropped, 0 failed$/).waitFor({ timeout: 90_000 });
    const runs = page.getByRole('table', { name: 'Runs on recent events' });
    await expectAccessible(page);
    await takePictures(page, 'transformation-recent');
    await runs
      .getByRole('button', { name: new RegExp(DEPARTED) })
      .first()
      .click();
    await expect
      .poll(() => page.getByRole('textbox', { name: 'Sample event' }).textContent())
      .toContain('"message_id"');
  });

  it('go back to an earlier version', async () => {
    const { id, name } = await make('Rolled back');
    const changed = { name, source_code: 'const transform = () => null;', test_input: {}, test_output: [] };
    await client().put(`./event-transformations/${id}`, changed);
    const { page } = await app.open(`/transformations/${id}?tab=versions`);
    await page.getByLabel(/^Code: From version 1 to version 2, which runs$/).waitFor();
    await page.getByLabel(/^Test: From version 1 to version 2, which runs$/).waitFor();
    await expectAccessible(page);
    await takePictures(page, 'transformation-versions');
    await page.getByRole('button', { name: 'Go back to version 1' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Go back to version 1' }).click();
    await page.getByText('Version 1 is back, as version 3').waitFor();
    const stored = await client().get<Stored>(`./event-transformations/${id}`);
    expect(stored.source_code).toBe(RECIPES[0]?.source_code);
  });

  it('say that they are drafts and why, and are deleted once that was asked', async () => {
    const { id } = await client().post<Stored>('./event-transformations', {
      name: 'Untested',
      source_code: 'const transform = (event) => event;',
    });
    const { page } = await app.open(`/transformations/${id}`, { width: 360 });
    await page.getByText('A draft: no enabled rule can use it yet').waitFor();
    await expectAccessible(page);
    await takePictures(page, 'transformation-draft');
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByText('cannot be brought back').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('heading', { level: 1, name: 'Transformations' }).waitFor();
    expect((await client().call('GET', `./event-transformations/${id}`)).status).toBe(404);
  });

  it('lose nothing by a failure', async () => {
    const { id, name } = await make('Contended');
    const { page, failures } = await app.open(`/transformations/${id}`);
    const description = page.getByLabel('Description');
    await description.fill('Mine');
    const down = await failures.answer(`**/event-transformations/${id}`, 503, 'PUT');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByRole('alert').getByText('Nothing is lost').waitFor();
    await down.end();
    expect(await description.inputValue()).toBe('Mine');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText(`Saved version 2 of ${name}: active`).waitFor();
  });

  it('say why a trial has no result, and wait for a slow one', async () => {
    const { page, failures } = await app.open(`/transformations/${lateId}`);
    const run = page.getByRole('button', { name: 'Run', exact: true });
    await run.waitFor();
    const limited = await failures.answer('**/test', 429);
    await run.click();
    await page.getByRole('alert').getByText('too many requests', { exact: false }).first().waitFor();
    await limited.end();
    const slow = await failures.hold('**/test');
    await run.click();
    await expect.poll(() => run.getAttribute('data-loading')).toBe('true');
    await slow.end();
    await page.getByRole('status').getByText('It makes one event.').waitFor();
  });

  it('are shown to members with read access', async () => {
    await client().post('./members', { email: 'viewer@example.com', role: 'viewer' });
    const { page } = await app.open(`/transformations/${lateId}`, { email: 'viewer@example.com' });
    await page.getByText('An editor of the workspace can run it.').waitFor();
    expect(await page.getByRole('button', { name: 'Delete' }).count()).toBe(0);
    expect(await page.getByRole('button', { name: 'Save', exact: true }).count()).toBe(0);
    await expectAccessible(page);
  });

  it('say in an empty workspace what to do first', async () => {
    const { page } = await app.open(`~/w/${app.tributary.workspaceId}/transformations`);
    await page.getByRole('heading', { name: /^No transformation yet/ }).waitFor();
    await expectAccessible(page);
    await takePictures(page, 'transformations-empty');
    await page.getByRole('link', { name: 'New transformation' }).first().click();
    await page.getByRole('heading', { level: 1, name: 'New transformation' }).waitFor();
  });
});
