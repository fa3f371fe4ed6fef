import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expectAccessible } from './helpers/axe.ts';
import { chromiumPath } from './helpers/chromium.ts';
import { type ConsoleUnderTest, startConsole } from './helpers/console.ts';
import { REQUEST_ID } from './helpers/failures.ts';
import { takePictures } from './helpers/pictures.ts';

const HOSTILE = '<script>globalThis.broken = true</script><img src=x onerror="globalThis.broken = true">';
const WRITE_KEY = /trb_wk_(?:prod|dev)_\w+/;

interface Key {
  readonly id: string;
  readonly name: string;
  readonly status: string;
  readonly environment: string;
}

describe.skipIf(chromiumPath === undefined)('the page of sources and keys', () => {
  let app: ConsoleUnderTest;
  const client = () => app.tributary.owner.with({ workspaceId: app.workspaceId });
  beforeAll(async () => {
    app = await startConsole({ flights: 100 });
    await client().post('./sources', { name: HOSTILE, type: 'web', description: HOSTILE });
  });
  afterAll(() => app?.close());

  const keys = () => client().get<readonly Key[]>('./event-keys');

  async function createWriteKey(page: Page, name: string, environment: string): Promise<string> {
    await page.getByRole('button', { name: 'Create write key' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox', { name: 'Name', exact: true }).fill(name);
    await dialog.getByRole('radio', { name: environment }).check();
    await dialog.getByRole('button', { name: 'Create write key' }).click();
    await page.getByRole('heading', { level: 1, name }).waitFor();
    const shown = await page.getByRole('alert').filter({ hasText: 'Copy the key now' }).textContent();
    return WRITE_KEY.exec(shown ?? '')?.[0] ?? '';
  }

  it('shows a new key once, waits for its first event, and leads to it', async () => {
    const { page } = await app.open('/keys');
    await page.getByRole('table', { name: 'Write keys' }).waitFor();
    const key = await createWriteKey(page, 'Test suite', 'development');
    expect(key).toMatch(/^trb_wk_dev_/);
    const snippet = page.getByRole('tabpanel');
    await expect.poll(() => snippet.textContent()).toContain(`${app.tributary.url}/v1/track -u '${key}:'`);
    await page.getByText('Rules run for production events by default').waitFor();
    await page.getByRole('status').getByText('Waiting for the first event').waitFor();
    await expectAccessible(page);
    await takePictures(page, 'write-key-waiting');

    const sent = await client()
      .with({ token: key })
      .call('POST', './events/track', { event: 'Test Event', user_id: 'ada' });
    expect(sent.status).toBe(202);
    await page.getByRole('status').getByText('The first event arrived').waitFor();
    await expectAccessible(page);
    await takePictures(page, 'write-key-used');
    await page.getByRole('link', { name: 'See the trace of an event' }).click();
    await page.waitForURL(/\/events\/[^/]+$/);
    const { message_id } = sent.body as { message_id: string };
    expect(page.url()).toContain(message_id);

    await page.goBack();
    await page.getByText('Copy the key now').waitFor(); // this tab still knows it
    await page.reload();
    await page.getByText('Events arrive with this key').waitFor();
    await expect.poll(() => snippet.textContent()).toContain("-u '<write key>:'");
    expect(await page.content()).not.toContain(key);
  });

  it('shows the snippet of the URL, and the permissions of a production key', async () => {
    const [key] = (await keys()).filter(({ environment }) => environment === 'production');
    const { page } = await app.open(`/keys/${key?.id}?sdk=go`);
    await page.getByText('go get github.com/segmentio/analytics-go/v3').waitFor();
    await page.getByText('rules forward what the snippets send').waitFor();
    await page.getByRole('tab', { name: 'Python' }).click();
    await expect.poll(() => page.url()).toContain('sdk=python');
  });

  it('revokes a key after saying what that does', async () => {
    const created = await client().post<Key & { key: string }>('./event-keys', {
      name: 'Old app',
      environment: 'production',
    });
    const { page } = await app.open('/keys');
    const row = page.getByRole('row').filter({ hasText: 'Old app' });
    await row.getByRole('button', { name: 'Revoke' }).click();
    const dialog = page.getByRole('dialog', { name: 'Revoke the write key "Old app"?' });
    await dialog.getByText('Requests with this key are refused from now on').waitFor();
    await expectAccessible(page);
    await dialog.getByRole('button', { name: 'Revoke' }).click();
    await row.waitFor({ state: 'detached' });
    const refused = await client()
      .with({ token: created.key })
      .call('POST', './events/track', { event: 'E', user_id: 'u' });
    expect(refused.status).toBe(401);
    await page.getByText('Revoked', { exact: true }).click();
    await row.getByText('revoked').waitFor();
    expect(new URL(page.url()).searchParams.get('status')).toBe('revoked');
  });

  it('creates an API key with a role and an end, and shows it once', async () => {
    const { page, watch } = await app.open('/keys?tab=api');
    watch.expectStatus(400);
    await page.getByText('No API key yet').waitFor();
    await expectAccessible(page);
    await page.getByRole('button', { name: 'Create API key' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox', { name: 'Name', exact: true }).fill('Nightly export');
    await dialog.getByRole('radio', { name: 'viewer' }).check();
    await dialog.getByRole('combobox', { name: 'Good for' }).click();
    await page.getByRole('option', { name: 'Until a day' }).click();
    const day = dialog.getByLabel('Last day');
    await day.fill('2020-01-01');
    await dialog.getByRole('button', { name: 'Create API key' }).click();
    await dialog.getByText('must be in the future').waitFor();
    expect(await page.locator(':focus').getAttribute('type')).toBe('date'); // the field with the fault
    await day.fill('2099-12-31');
    await expectAccessible(page);
    await dialog.getByRole('button', { name: 'Create API key' }).click();
    await dialog.getByText('Copy the key now').waitFor();
    const raw = (await dialog.locator('code').first().textContent()) ?? '';
    const program = client().with({ token: raw });
    expect(await program.get('./api-keys').catch((error: Error) => error.message)).toContain('403');
    expect(await program.get<readonly Key[]>('./event-keys')).not.toEqual([]);
    await expectAccessible(page);
    await dialog.getByRole('button', { name: 'I have copied it' }).click();
    await page.getByRole('row').filter({ hasText: 'Nightly export' }).getByText('viewer').waitFor();
    expect(await page.content()).not.toContain(raw);
  });

  it('edits a source, and shows both versions if another person was faster', async () => {
    const source = await client().post<{ id: string }>('./sources', { name: 'Shop', type: 'web' });
    const { page, watch } = await app.open('/keys?tab=sources');
    watch.expectStatus(412);
    await page.getByRole('button', { name: 'Edit Shop', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Edit the source' });
    await dialog.getByRole('textbox', { name: 'Name', exact: true }).fill('My shop');
    await client().put(`./sources/${source.id}`, { name: 'Their shop', type: 'ios', description: 'theirs' });
    await dialog.getByRole('button', { name: 'Save' }).click();
    const conflict = page.getByRole('dialog', { name: 'Somebody saved another version' });
    const clash = conflict.getByRole('row').filter({ hasText: 'both changed' });
    expect(await clash.textContent()).toMatch(/Name.*My shop.*Their shop/);
    await expectAccessible(page);
    await takePictures(page, 'both-versions');
    await conflict.getByRole('button', { name: 'Back to the form' }).click();
    expect(await dialog.getByRole('textbox', { name: 'Name', exact: true }).inputValue()).toBe('My shop');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await conflict.getByRole('button', { name: 'Save my changes on top' }).click();
    await page.getByRole('row').filter({ hasText: 'My shop' }).waitFor();
    expect(await client().get(`./sources/${source.id}`)).toMatchObject({
      name: 'My shop',
      type: 'ios',
      description: 'theirs',
    });
  });

  it('does not delete a source that a key names, and states why', async () => {
    const source = await client().post<{ id: string }>('./sources', { name: 'Till', type: 'server' });
    await client().post('./event-keys', { name: 'till', environment: 'production', source_id: source.id });
    const { page, watch } = await app.open('/keys?tab=sources&q=till');
    watch.expectStatus(409);
    await page.getByRole('row').filter({ hasText: 'Till' }).getByRole('button', { name: 'Delete' }).click();
    const dialog = page.getByRole('dialog', { name: 'Delete the source "Till"?' });
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await dialog.getByRole('alert').getByText('It is in use. Change first: write key').waitFor();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('link', { name: 'Show keys of Till' }).click();
    await page.getByRole('table', { name: 'Write keys' }).getByRole('link', { name: 'till' }).waitFor();
  });

  it.each([403, 409, 429, 503] as const)('keeps the input when the API answers %i', async (status) => {
    const { page, failures } = await app.open('/keys');
    await page.getByRole('button', { name: 'Create write key' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox', { name: 'Name', exact: true }).fill(`After ${status}`);
    const failure = await failures.answer('**/event-keys', status, 'POST');
    const create = dialog.getByRole('button', { name: 'Create write key' });
    await create.click();
    await dialog.getByRole('alert').getByText(REQUEST_ID).waitFor();
    await expectAccessible(page);
    await failure.end();
    await create.click();
    await page.getByRole('heading', { level: 1, name: `After ${status}` }).waitFor();
  });

  it('asks before it is left with something typed', async () => {
    const { page } = await app.open('/overview');
    await page.getByRole('link', { name: 'Sources and keys' }).click();
    await page.getByRole('tab', { name: 'Sources' }).click();
    await page.getByRole('button', { name: 'Create source' }).first().click();
    const name = page.getByRole('textbox', { name: 'Name', exact: true });
    await name.fill('Unsaved');
    const dialog = page.getByRole('dialog', { name: 'Leave without saving?' });
    await page.evaluate('history.back()');
    await dialog.getByRole('button', { name: 'Stay' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect(await name.inputValue()).toBe('Unsaved');
    await page.evaluate('history.back()');
    await dialog.getByRole('button', { name: 'Leave' }).click();
    await page.getByRole('tab', { name: 'Write keys', selected: true }).waitFor();
  });

  it('shows a viewer what there is, and no button that they may not use', async () => {
    await client().post('./members', { email: 'viewer@example.com', role: 'viewer' });
    const { page } = await app.open('/keys', { email: 'viewer@example.com' });
    await page.getByRole('table', { name: 'Write keys' }).waitFor();
    expect(await page.getByRole('button', { name: /^(?:Create |Revoke$)/ }).count()).toBe(0);
    expect(await page.getByRole('tab', { name: 'API keys' }).count()).toBe(0);
    await page.getByRole('tab', { name: 'Sources' }).click();
    await page.getByRole('table', { name: 'Sources' }).waitFor();
    expect(await page.getByRole('button', { name: /^(?:Create |Edit|Delete)/ }).count()).toBe(0);
  });

  it('shows names as text, fits a phone, and is accessible', async () => {
    const { page } = await app.open('/keys?tab=sources', { width: 360 });
    await page.getByRole('table', { name: 'Sources' }).getByText(HOSTILE).first().waitFor();
    expect(await page.evaluate('globalThis.broken')).toBeUndefined();
    expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBe(0);
    await expectAccessible(page);
    await takePictures(page, 'sources');
    for (const [tab, table] of [
      ['Write keys', 'Write keys'],
      ['API keys', 'API keys'],
    ] as const) {
      await page.getByRole('tab', { name: tab }).click();
      await page.getByRole('table', { name: table }).waitFor();
      await expectAccessible(page);
      await takePictures(page, table.toLowerCase().replace(' ', '-'));
    }
  });

  it('shows the address for the webhooks of the source of a key', async () => {
    const webhook = { kind: 'github', secrets: ['it-is-a-secret'] };
    const source = { name: 'GitHub', type: 'github', webhook };
    const { id: source_id } = await client().post<{ id: string }>('./sources', source);
    const wanted = { name: 'Hooks', environment: 'production', source_id, webhooks_only: true };
    const { id } = await client().post<{ id: string }>('./event-keys', wanted);
    const { page } = await app.open(`/keys/${id}`);
    await page.getByRole('heading', { name: 'Receive webhooks' }).waitFor();
    await page.getByText(`${app.tributary.url}/webhooks/<write key>/github`).waitFor();
    expect(await page.getByRole('heading', { name: 'Send an event' }).count()).toBe(0);
    await expectAccessible(page);
    await takePictures(page, 'write-key-webhooks');
  });
});
