import { existsSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { addressOf, readPages } from '../../docs/.vitepress/sidebar.ts';
import { startEmbedded } from '../helpers/embedded.ts';
import type { Tributary } from '../helpers/running-tributary.ts';
import { chromiumPath, openBrowser } from './helpers/chromium.ts';
import { WAIT_MS } from './helpers/console.ts';
import { PageWatch } from './helpers/page-watch.ts';

const docs = fileURLToPath(new URL('../../docs/', import.meta.url));
const dist = join(docs, 'dist');
const read = (file: string) => readFileSync(join(dist, file), 'utf8');

/** The file of a path below the site, as the gateway looks for it; undefined where there is none. */
function built(path: string): string | undefined {
  const [, folder = '', name = ''] = /^(.*\/|)([^/]*)$/.exec(path.replace(/^\/guide\//, '')) ?? [];
  const file = `${folder}${name === '' ? 'index.html' : name.includes('.') ? name : `${name}.html`}`;
  return existsSync(join(dist, file)) ? file : undefined;
}

describe('the built documentation', () => {
  const files = readdirSync(dist, { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.html'),
  );

  it('has a page for every document', () => {
    const documents = readPages(docs);
    expect(documents.length).toBeGreaterThan(80);
    expect(documents.filter(({ path }) => built(addressOf(path).slice(1)) === undefined)).toEqual([]);
  });

  it('has no inline script, style or handler, and loads nothing of other hosts', () => {
    const inline =
      /<script(?![^>]*\ssrc=)[^>]*>|<style|<[^>]+\s(?:style|on\w+)="[^"]*"|<(?:script|link|img)[^>]*(?:src|href)="(?:https?:)?\/\/[^"]*"/g;
    expect(
      files.flatMap((file) => [...read(file).matchAll(inline)].map(([found]) => `${file}: ${found}`)),
    ).toEqual([]);
  });

  it('has no dead link and no dead anchor', () => {
    const ids = new Map<string, ReadonlySet<string>>();
    const idsOf = (file: string) => {
      const known =
        ids.get(file) ?? new Set([...read(file).matchAll(/\sid="([^"]+)"/g)].map(([, id = '']) => id));
      ids.set(file, known);
      return known;
    };
    let count = 0;
    const dead = files.flatMap((file) =>
      [...read(file).matchAll(/<a [^>]*?href="([^"]+)"/g)].flatMap(([, href = '']) => {
        const { host, pathname, hash } = new URL(href, `http://site/guide/${file}`);
        if (host !== 'site' || !pathname.startsWith('/guide/')) return [];
        count++;
        const target = built(pathname);
        const isDead =
          target === undefined ||
          (target.endsWith('.html') && hash !== '' && !idsOf(target).has(decodeURI(hash.slice(1))));
        return isDead ? [`${file}: ${href}`] : [];
      }),
    );
    expect(count).toBeGreaterThan(5_000);
    expect([...new Set(dead)]).toEqual([]);
  });
});

describe.skipIf(chromiumPath === undefined)('the documentation in a browser', () => {
  let tributary: Tributary;
  beforeAll(async () => {
    tributary = await startEmbedded(mkdtempSync(join(tmpdir(), 'tributary-')), {});
  });
  afterAll(() => tributary?.remove());

  /** A page without a credential. After the test it is closed, and nothing that `PageWatch` collects may have happened. */
  async function open(path: string, width: number, colorScheme: 'light' | 'dark'): Promise<Page> {
    const browser = await openBrowser();
    const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme });
    context.setDefaultTimeout(WAIT_MS);
    const page = await context.newPage();
    const watch = new PageWatch(page, tributary.url);
    onTestFinished(async () => {
      await context.close();
      expect(watch.problems).toEqual([]);
    });
    await page.goto(`${tributary.url}/guide${path}`);
    return page;
  }
  const overflow = (page: Page) =>
    page.evaluate<number>('document.documentElement.scrollWidth - document.documentElement.clientWidth');

  it('is read from the start page by the sidebar, and in either scheme', async () => {
    const page = await open('/', 1440, 'light');
    await page.getByRole('heading', { level: 1, name: 'Tributary documentation' }).waitFor();
    await page.getByRole('navigation').getByRole('link', { name: 'Quotas and limits' }).first().click();
    await page.getByRole('heading', { level: 1, name: 'Quotas and limits' }).waitFor();
    expect(new URL(page.url()).pathname).toBe('/guide/reference/limits');
    await page.getByRole('switch').first().click();
    await expect
      .poll(() => page.evaluate<boolean>(`document.documentElement.classList.contains('dark')`))
      .toBe(true);
  });

  it('is searched without a server', async () => {
    const page = await open('/', 1440, 'dark');
    await page.getByRole('button', { name: 'Search' }).first().click();
    await page.getByRole('searchbox').fill('TRIBUTARY_DEDUPE_WINDOW');
    await page
      .getByRole('option', { name: /Settings/ })
      .first()
      .click();
    await page.getByRole('heading', { level: 1, name: 'Settings' }).waitFor();
  });

  it.each(['/', '/guides/contracts', '/reference/settings', '/architecture'])(
    'fits a phone: %s',
    async (path) => {
      const page = await open(path, 360, 'dark');
      await page.getByRole('heading', { level: 1 }).waitFor();
      expect(await overflow(page)).toBe(0);
    },
  );

  it('leads to the description of the API and back', async () => {
    const page = await open('/reference/api', 1440, 'light');
    await page
      .getByRole('link', { name: 'API', exact: true })
      .and(page.locator('[href="/docs"]'))
      .first()
      .click();
    await expect.poll(() => new URL(page.url()).pathname).toMatch(/^\/docs/);
    // Swagger UI opens it in another tab, by its whole address.
    await page.locator(`a[href="${tributary.url}/guide/"]`).waitFor();
  });
});
