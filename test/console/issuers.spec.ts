import type { BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { freePort } from '../engines/engine-process.ts';
import { temporaryFolder } from '../helpers/folder.ts';
import { type OidcProvider, startOidcProvider } from '../helpers/oidc-provider.ts';
import { type Serving, serveEnvironment, startServing } from '../helpers/serve.ts';
import { expectAccessible } from './helpers/axe.ts';
import { chromiumPath, openBrowser } from './helpers/chromium.ts';
import { WAIT_MS } from './helpers/console.ts';
import { PageWatch } from './helpers/page-watch.ts';
import { takePictures } from './helpers/pictures.ts';

const ADA = { sub: 'ada', email: 'ada@example.com', email_verified: true };
const HOUR_MS = 3_600_000;

describe.skipIf(chromiumPath === undefined)('sign-in with the issuers of TRIBUTARY_ISSUERS', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let issuers: readonly OidcProvider[];
  let server: Serving;
  let context: BrowserContext;
  beforeAll(async () => {
    folder = await temporaryFolder();
    const port = await freePort();
    const consoleAt = `http://127.0.0.1:${port}`;
    issuers = [await startOidcProvider({ consoleAt }), await startOidcProvider({ consoleAt })];
    for (const issuer of issuers) issuer.inBrowser(ADA);
    const settings = JSON.stringify(issuers.map((issuer) => issuer.settings));
    server = await startServing(
      serveEnvironment(folder.path, { PORT: String(port), TRIBUTARY_ISSUERS: settings }),
    );
    context = await (await openBrowser()).newContext({ reducedMotion: 'reduce' });
    context.setDefaultTimeout(WAIT_MS);
  });
  afterAll(async () => {
    await context?.close();
    await server?.server.stop();
    await Promise.all((issuers ?? []).map((issuer) => issuer.close()));
    await folder?.remove();
  });

  const host = (at: number) => new URL(issuers[at]?.issuer ?? '').host;

  async function open(): Promise<Page> {
    await context.clearCookies();
    const page = await context.newPage();
    const watch = new PageWatch(page, server.url, ...issuers.map(({ issuer }) => issuer));
    onTestFinished(async () => {
      await page.close();
      expect(watch.problems).toEqual([]);
    });
    await page.clock.install();
    await page.goto(`${server.url}/console/`);
    return page;
  }

  async function signIn(page: Page, at = 0): Promise<void> {
    const opened = context.waitForEvent('page');
    await page.getByRole('button', { name: `Sign in with ${host(at)}` }).click();
    const window = await opened;
    if (!window.isClosed()) await window.waitForEvent('close');
  }

  it('offers each issuer, and closes its window by itself', async () => {
    const page = await open();
    await page.getByRole('button', { name: `Sign in with ${host(1)}` }).waitFor();
    await expectAccessible(page);
    await takePictures(page, 'sign-in');
    await signIn(page, 1);
    await page.getByText('You are in no workspace yet').waitFor();
    expect(await page.evaluate<string>(`JSON.stringify([localStorage, sessionStorage])`)).not.toContain(
      'eyJ',
    );
    expect(await page.evaluate<string>('document.cookie')).toBe('');
  });

  it('does not require a new sign-in when the page is reloaded', async () => {
    const page = await open();
    await signIn(page);
    await page.getByText('You are in no workspace yet').waitFor();
    await page.reload();
    await page.getByText('You are in no workspace yet').waitFor();
  });

  it('does not require a new sign-in if an issuer without a session answers first', async () => {
    const page = await open();
    await signIn(page);
    await page.getByText('You are in no workspace yet').waitFor();
    const refusal = page.waitForRequest((request) => request.url().includes('error=login_required'));
    await page.route(`${issuers[0]?.issuer}/auth?**`, async (route) => {
      await refusal;
      await route.continue();
    });
    await page.reload();
    await page.getByText('You are in no workspace yet').waitFor();
  });

  it('renews the session before it ends, without interaction', async () => {
    const page = await open();
    await signIn(page);
    await page.getByText('You are in no workspace yet').waitFor();
    await page.clock.fastForward(HOUR_MS - 60_000);
    const renewed = page.waitForRequest(/\/auth\?.*prompt=none/);
    await page.getByRole('link', { name: 'Create a workspace' }).click();
    await renewed;
    await page.getByRole('textbox', { name: 'Name' }).waitFor();
  });

  it('asks for a sign-in over the page once the session has ended, and keeps typed and sent data', async () => {
    const page = await open();
    await signIn(page);
    await page.getByRole('link', { name: 'Create a workspace' }).click();
    await page.getByRole('textbox', { name: 'Name' }).fill('Typed before the session ended');
    await context.clearCookies(); // the session at the issuer
    await page.clock.fastForward(HOUR_MS + 60_000);
    await page.getByRole('button', { name: 'Create workspace' }).click();
    const dialog = page.getByRole('dialog', { name: 'Sign in again' });
    await dialog.waitFor();
    await expectAccessible(page);
    await takePictures(page, 'session-over');
    await signIn(page);
    await dialog.waitFor({ state: 'detached' });
    await expect.poll(() => page.url()).toMatch(/\/w\/[\w-]+\/keys$/);
    await page.getByText('Typed before the session ended').first().waitFor();
  });

  it('signs out here, states where the session continues, and does not sign in by itself', async () => {
    const page = await open();
    await signIn(page);
    await page.getByRole('button', { name: 'Sign out' }).first().click();
    const end = page.getByRole('link', { name: 'End it there as well' });
    expect(await end.getAttribute('href')).toContain(`${issuers[0]?.issuer}/session/end?id_token_hint=`);
    await page.reload();
    await page.getByRole('button', { name: `Sign in with ${host(0)}` }).waitFor();
    await page.getByText('Sign in to the console').waitFor();
  });

  it('states why an issuer cannot be reached, and offers a retry', async () => {
    const page = await open();
    const button = page.getByRole('button', { name: `Sign in with ${host(1)}` });
    await button.waitFor();
    await issuers[1]?.goDown();
    await button.click();
    await page.getByRole('alert').waitFor();
    await issuers[1]?.comeBack();
    await signIn(page, 1);
    await page.getByRole('button', { name: 'Sign out' }).first().waitFor();
  });
});
