import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expectAccessible } from './helpers/axe.ts';
import { chromiumPath } from './helpers/chromium.ts';
import { type ConsoleUnderTest, startConsole } from './helpers/console.ts';
import { takePictures } from './helpers/pictures.ts';

describe.skipIf(chromiumPath === undefined)('a browser that opened the link', () => {
  let app: ConsoleUnderTest;
  beforeAll(async () => {
    app = await startConsole();
  });
  afterAll(() => app?.close());

  it('is signed in, and stays so when the page is loaded again', async () => {
    const { page } = await app.open('~/');
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    await page.reload();
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    expect(new URL(page.url()).pathname).toBe(`/console/w/${app.workspaceId}/overview`);
    await expectAccessible(page);
    await takePictures(page, 'overview');
  });
});
