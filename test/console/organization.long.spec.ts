import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expectAccessible } from './helpers/axe.ts';
import { chromiumPath } from './helpers/chromium.ts';
import { type ConsoleUnderTest, startConsole } from './helpers/console.ts';
import { takePictures } from './helpers/pictures.ts';

const HOSTILE = '<script>globalThis.broken = true</script>';

interface Named {
  readonly id: string;
  readonly name: string;
  readonly status: string;
}

describe.skipIf(chromiumPath === undefined)('the pages of an organization and its workspaces', () => {
  let app: ConsoleUnderTest;
  let organizationId: string;
  const client = () => app.tributary.owner.with({ workspaceId: app.workspaceId });
  const organization = (tab: string) => `~/organizations/${organizationId}?tab=${tab}`;
  beforeAll(async () => {
    app = await startConsole();
    const workspace = await client().get<{ organization_id: string }>(`/workspaces/${app.workspaceId}`);
    organizationId = workspace.organization_id;
  });
  afterAll(() => app?.close());

  it('creates a workspace, renames and archives it', async () => {
    const { page } = await app.open(organization('workspaces'));
    await page.getByRole('table', { name: 'Workspaces' }).waitFor();
    await expectAccessible(page);
    await takePictures(page, 'workspaces');
    await page.getByRole('link', { name: 'Create workspace' }).first().click();
    await page.getByRole('heading', { level: 1, name: 'New workspace' }).waitFor();
    await expectAccessible(page);
    await page.getByRole('textbox', { name: 'Name' }).fill('Second shop');
    await page.getByRole('button', { name: 'Create workspace' }).click();
    await page.getByText('No write key yet').waitFor(); // the next step
    await page.getByRole('link', { name: 'Workspace settings' }).click();
    await page.getByRole('heading', { level: 1, name: 'Workspace settings' }).waitFor();
    const name = page.getByRole('textbox', { name: 'Name', exact: true });
    await name.fill('Third shop');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('The workspace is saved.').waitFor();
    await expectAccessible(page);
    await takePictures(page, 'workspace-settings');
    await page.getByRole('button', { name: 'Archive workspace' }).click();
    const dialog = page.getByRole('dialog', { name: 'Archive the workspace "Third shop"?' });
    await dialog.getByText('All its write keys and API keys are refused at once').waitFor();
    await dialog.getByRole('button', { name: 'Archive workspace' }).click();
    await page.waitForURL(/\/organizations\//);
    await page.getByText('Archived', { exact: true }).click();
    await page.getByRole('row').filter({ hasText: 'Third shop' }).getByText('archived').waitFor();
  });

  /** A member who made an API key and a client key. */
  async function memberWithKeys(
    email: string,
  ): Promise<{ readonly apiKey: string; readonly clientKey: string }> {
    await client().post(`/organizations/${organizationId}/members`, { email, role: 'admin' });
    const member = client().with({ token: await app.tokenOf(email) });
    const apiKey = await member.post<{ key: string }>('./api-keys', { name: `of ${email}`, role: 'viewer' });
    const clientKey = await member.post<{ id: string }>(`/organizations/${organizationId}/client-keys`, {
      name: `of ${email}`,
      scopes: ['profile.read'],
    });
    return { apiKey: apiKey.key, clientKey: clientKey.id };
  }

  const isGood = async (apiKey: string) =>
    (await client().with({ token: apiKey }).call('GET', './sources')).status === 200;

  it.each(['revoke', 'keep'] as const)('removes a member, and on demand %ss their keys', async (keys) => {
    const email = `${keys}@example.com`;
    const { apiKey } = await memberWithKeys(email);
    expect(await isGood(apiKey)).toBe(true);
    const { page } = await app.open(`${organization('members')}&q=${email}`);
    const row = page.getByRole('row').filter({ hasText: email });
    await row.getByRole('button', { name: 'Remove' }).click();
    const dialog = page.getByRole('dialog', { name: `Remove ${email}?` });
    await dialog.getByText(`of ${email}`).waitFor(); // the client key that the removal concerns
    if (keys === 'keep') await dialog.getByRole('radio', { name: 'Keep them' }).check();
    await expectAccessible(page);
    await dialog.getByRole('button', { name: 'Remove' }).click();
    await page.getByText(`${email} is removed.`).waitFor();
    await row.waitFor({ state: 'detached' });
    expect(await isGood(apiKey)).toBe(keys === 'keep');
  });

  it('adds a member, changes the role, and keeps the last owner', async () => {
    const { page, watch } = await app.open(organization('members'));
    watch.expectStatus(400, 409);
    await page.getByRole('button', { name: 'Add member' }).first().click();
    const dialog = page.getByRole('dialog', { name: 'Add a member to the organization' });
    const email = dialog.getByRole('textbox', { name: 'E-mail address' });
    await email.fill('no address');
    await dialog.getByRole('button', { name: 'Add member' }).click();
    await expect.poll(() => email.getAttribute('aria-invalid')).toBe('true');
    await email.fill('grace@example.com');
    await expectAccessible(page);
    await dialog.getByRole('button', { name: 'Add member' }).click();
    const row = page.getByRole('row').filter({ hasText: 'grace@example.com' });
    await row.getByText('invited').waitFor();
    await row.getByRole('button', { name: 'Change role' }).click();
    const change = page.getByRole('dialog', { name: 'Change the role of grace@example.com' });
    await change.getByRole('radio', { name: 'admin', exact: true }).check();
    await change.getByRole('button', { name: 'Change role' }).click();
    await row.getByText('admin', { exact: true }).waitFor();
    await page.mouse.move(0, 0); // the pointer may rest on a time, which then shows it in UTC
    await page.getByRole('tooltip').waitFor({ state: 'detached' });
    await expectAccessible(page);
    await takePictures(page, 'members');

    await page.getByRole('row').filter({ hasText: 'you' }).getByRole('button', { name: 'Leave' }).click();
    const leave = page.getByRole('dialog', { name: 'Leave the organization?' });
    await leave.getByRole('button', { name: 'Leave' }).click();
    await leave.getByRole('alert').getByText('An organization needs an owner').waitFor();
  });

  it('adds members of a workspace, and shows them no button beyond their role', async () => {
    const { page } = await app.open('/settings?tab=members');
    await page.getByRole('button', { name: 'Add member' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox', { name: 'E-mail address' }).fill('editor@example.com');
    await dialog.getByRole('radio', { name: 'editor' }).check();
    await dialog.getByRole('button', { name: 'Add member' }).click();
    await page.getByRole('row').filter({ hasText: 'editor@example.com' }).getByText('invited').waitFor();
    await expectAccessible(page);

    const theirs = await app.open('/settings?tab=members', { email: 'editor@example.com' });
    await theirs.page
      .getByRole('row')
      .filter({ hasText: 'you' })
      .getByRole('button', { name: 'Leave' })
      .waitFor();
    expect(await theirs.page.getByRole('button', { name: /Add member|Change role|Remove/ }).count()).toBe(0);
    expect(await theirs.page.getByRole('tab', { name: 'Audit log' }).count()).toBe(0);
    await theirs.page.getByRole('tab', { name: 'General' }).click();
    expect(await theirs.page.getByRole('textbox', { name: 'Name' }).isDisabled()).toBe(true);
    expect(await theirs.page.getByRole('button', { name: 'Archive workspace' }).count()).toBe(0);
  });

  it('creates a client key that is shown once and works, and revokes it', async () => {
    const { page } = await app.open(organization('client-keys'));
    await page.getByRole('button', { name: 'Create client key' }).first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox', { name: 'Name' }).fill('Support desk');
    await expectAccessible(page);
    await dialog.getByRole('button', { name: 'Create client key' }).click();
    await dialog.getByText('Copy the key now').waitFor();
    const call = (await dialog.locator('code, pre').last().textContent()) ?? '';
    const key = /apikey: (\S+)'/.exec(call)?.[1] ?? '';
    const body = /-d '(.+)'/.exec(call)?.[1] ?? '';
    const search = () =>
      fetch(`${app.tributary.url}/cdp/v1/users/_search`, {
        method: 'POST',
        headers: { apikey: key, scopes: 'profile.read', 'content-type': 'application/json' },
        body,
      });
    expect((await search()).status).toBe(200);
    await dialog.getByRole('button', { name: 'I have copied it' }).click();
    const row = page.getByRole('row').filter({ hasText: 'Support desk' });
    await row.getByText('profile.read').waitFor();
    expect(await page.content()).not.toContain(key);
    await expectAccessible(page);
    await takePictures(page, 'client-keys');
    await row.getByRole('button', { name: 'Revoke' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
    await row.waitFor({ state: 'detached' });
    expect((await search()).status).toBe(401);
  });

  it('changes how people are identified, with the faults of the API beside their fields', async () => {
    const { page, watch } = await app.open(organization('profiles'));
    watch.expectStatus(400);
    await page.getByRole('button', { name: 'Add a value or pattern' }).click();
    await page.getByRole('combobox', { name: 'Kind of blocked identity 1' }).click();
    await page.getByRole('option', { name: 'pattern' }).click();
    const pattern = page.getByRole('textbox', { name: 'Blocked identity 1', exact: true });
    await pattern.fill('(a');
    await page.getByRole('button', { name: 'Save' }).click();
    await expect.poll(() => pattern.getAttribute('aria-invalid')).toBe('true');
    await page.getByText('The marked field needs a change.').waitFor();
    await expectAccessible(page);
    await pattern.fill('^kiosk-');
    await page.getByRole('textbox', { name: 'Country of telephone numbers' }).fill('at');
    await page.getByText('Now: Austria.').waitFor();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('The profile settings are saved.').waitFor();
    await takePictures(page, 'profile-settings');
    const path = `/organizations/${organizationId}/profile-settings`;
    expect(await client().get(path)).toMatchObject({
      default_country: 'AT',
      blocked_identities: [{ type: null, value: null, pattern: '^kiosk-' }],
    });
  });

  it('changes the organization', async () => {
    const { page } = await app.open(organization('general'));
    await page.getByRole('textbox', { name: 'E-mail address for notices' }).fill('ops@example.com');
    await page.getByLabel('Regions').first().fill('us');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('The organization is saved.').waitFor();
    await expectAccessible(page);
    await takePictures(page, 'organization');
    expect(await client().get(`/organizations/${organizationId}`)).toMatchObject({
      notification_email: 'ops@example.com',
      regions: ['eu', 'us'],
    });
  });

  it('shows the author of each change, before and after, page by page', async () => {
    const source = await client().post<Named>('./sources', { name: HOSTILE, type: 'web' });
    await client().put(`./sources/${source.id}`, { name: HOSTILE, type: 'ios', description: 'new' });
    for (let at = 0; at < 51; at++)
      await client().put(`./sources/${source.id}`, { name: HOSTILE, type: 'ios', description: `text ${at}` });
    const { page } = await app.open('/settings?tab=audit-log');
    const table = page.getByRole('table', { name: 'Audit log of the workspace' });
    await expect.poll(() => table.getByText('text 50').count()).toBeGreaterThan(0);
    await page.getByRole('button', { name: 'Next page' }).click();
    const updated = table.getByRole('row').filter({ hasText: 'web → ios' });
    await updated.waitFor();
    expect(new URL(page.url()).searchParams.get('cursor')).not.toBeNull();
    expect(await page.evaluate('globalThis.broken')).toBeUndefined();
    await updated.getByRole('button', { name: 'Details' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('table', { name: 'Changed fields' }).getByText('description').waitFor();
    await dialog.getByText('dev@tributary.localhost').waitFor();
    await expectAccessible(page);
    await takePictures(page, 'audit-entry');
    await page.keyboard.press('Escape');
    await page.getByRole('combobox', { name: 'Action' }).click();
    await page.getByRole('option', { name: 'created' }).click();
    await table.getByText('updated').first().waitFor({ state: 'detached' });
    await table.getByRole('button', { name: HOSTILE }).click();
    await expect.poll(() => table.getByRole('row').count()).toBe(2); // the head, and one creation
    await page.getByRole('button', { name: 'Of one entity only: show all' }).click();
    await table.getByText('write key').first().waitFor();
    await takePictures(page, 'audit-log');
  });

  it('fits a phone', async () => {
    const { page } = await app.open(organization('workspaces'), { width: 360 });
    for (const tab of ['Members', 'Client keys', 'Profile settings', 'Audit log', 'General', 'Workspaces']) {
      await page.getByRole('tab', { name: tab }).click();
      await page.getByRole('tab', { name: tab, selected: true }).waitFor();
      await page.getByLabel('Loading').waitFor({ state: 'detached' });
      expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth'), tab).toBe(0);
    }
  });
});
