import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { expectAccessible } from './helpers/axe.ts';
import { chromiumPath, openBrowser } from './helpers/chromium.ts';
import { type ConsoleUnderTest, startConsole } from './helpers/console.ts';
import { takePictures } from './helpers/pictures.ts';

describe.skipIf(chromiumPath === undefined)('the link of tributary dev', () => {
  let app: ConsoleUnderTest;
  beforeAll(async () => {
    app = await startConsole();
  });
  afterAll(() => app?.close());

  it('signs in a browser, also when the page is loaded again, and leaves no secret in the address', async () => {
    const { page } = await app.open('~/');
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    await page.reload();
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    expect(new URL(page.url()).pathname).toBe(`/console/w/${app.workspaceId}/overview`);
    expect(page.url()).not.toContain('secret');
    expect(await page.evaluate<string>(`JSON.stringify([localStorage, sessionStorage])`)).not.toContain(
      'eyJ',
    );
  });

  it('signs in no second browser, which shows where to find a link', async () => {
    const other = await (await openBrowser()).newContext();
    onTestFinished(() => other.close());
    const page = await other.newPage();
    await page.goto(app.link);
    await page.getByText('Open the link that npm start printed').waitFor();
    await expectAccessible(page);
    await takePictures(page, 'sign-in-development');
  });

  it('leads back to a page whose session has ended, with the input and the request', async () => {
    const { page, failures, watch } = await app.open('~/workspaces/new');
    await page.getByRole('textbox', { name: 'Name' }).fill('Typed before the session ended');
    const ended = [
      await failures.answer('**/console/session', 401),
      await failures.answer('**/api/v1/workspaces', 401, 'POST'),
    ];
    await page.getByRole('button', { name: 'Create workspace' }).click();
    const dialog = page.getByRole('dialog', { name: 'Sign in again' });
    await dialog.waitFor();
    await expectAccessible(page);
    for (const simulation of ended) await simulation.end();
    await dialog.getByRole('button', { name: 'I have opened it' }).click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByText('Typed before the session ended').first().waitFor();
    expect(watch.problems).toEqual([]);
  });

  it('is of no use after signing out: the browser has no session any more', async () => {
    const { page } = await app.open('~/');
    await page.getByRole('button', { name: 'Sign out' }).first().click();
    await page.getByText('Open the link that npm start printed').waitFor();
    await page.reload();
    await page.getByText('Open the link that npm start printed').waitFor();
    expect(await page.evaluate<string>('document.title')).toBe('Sign in · Tributary');
  });
});
