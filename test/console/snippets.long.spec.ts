import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { inherited } from '../helpers/child.ts';
import { eventually } from '../helpers/client.ts';
import { servePage } from '../sdks/page-server.ts';
import { findProgram, pythonWithSdks } from '../sdks/programs.ts';
import { chromiumPath } from './helpers/chromium.ts';
import { type ConsoleUnderTest, startConsole } from './helpers/console.ts';

const run = promisify(execFile);
const python = findProgram('python3');
const isLong = process.env.TRIBUTARY_TEST_LONG !== undefined;
// Compiling takes half a minute of a core, so this is part of the long run alone.
const go = isLong ? findProgram('go') : undefined;

interface Volume {
  readonly event_type: string;
  readonly event_name: string;
  readonly event_count: number;
}

describe.skipIf(chromiumPath === undefined)(
  'a snippet of the page of a write key, run as it is shown',
  () => {
    let app: ConsoleUnderTest;
    let page: Page;
    beforeAll(async () => {
      app = await startConsole();
      page = await app.context.newPage();
      await page.goto(`${app.tributary.url}/console/w/${app.workspaceId}/keys`);
      await page.getByRole('button', { name: 'Create write key' }).first().click();
      await page.getByRole('textbox', { name: 'Name', exact: true }).fill('Snippets');
      await page.getByRole('dialog').getByRole('button', { name: 'Create write key' }).click();
      await page.getByRole('heading', { level: 1, name: 'Snippets' }).waitFor();
    });
    afterAll(() => app?.close());

    async function snippetOf(title: string): Promise<string> {
      await page.getByRole('tab', { name: title, exact: true }).click();
      const code = page.getByRole('tabpanel').locator('pre, code').last();
      return (await code.textContent()) ?? '';
    }

    const testEvents = async () =>
      (await app.tributary.owner.get<readonly Volume[]>('./event-volume'))
        .filter(({ event_type, event_name }) => event_type === 'track' && event_name === 'Test Event')
        .reduce((sum, { event_count }) => sum + event_count, 0);

    async function expectOneEventMore(act: () => Promise<unknown>): Promise<void> {
      const before = await testEvents();
      await act();
      await eventually(testEvents, (count) => count === before + 1);
    }

    it.each(['curl', 'HTTP batch'])('sends with %s', async (title) => {
      const snippet = await snippetOf(title);
      expect(snippet).toContain(app.tributary.url);
      await expectOneEventMore(async () => {
        const { stdout } = await run('bash', ['-euc', snippet], { env: { ...process.env, ...inherited() } });
        expect(JSON.parse(stdout)).toEqual({ success: true });
      });
    });

    it.each(['Node', 'RudderStack Node'])('sends with %s', async (title) => {
      const snippet = await snippetOf(title);
      const cwd = new URL('..', import.meta.url).pathname; // whose packages have the SDKs
      await expectOneEventMore(() =>
        run(process.execPath, ['--input-type=module', '--eval', snippet], { cwd, env: inherited() }),
      );
    });

    it.skipIf(python === undefined)('sends with Python', async () => {
      const snippet = await snippetOf('Python');
      const command = pythonWithSdks(python ?? '');
      await expectOneEventMore(() => run(command, ['-c', snippet], { env: inherited() }));
    });

    it.skipIf(go === undefined)('sends with Go', async () => {
      const snippet = await snippetOf('Go');
      const senders = new URL('../sdks/senders/go/', import.meta.url).pathname;
      const folder = await mkdtemp(join(tmpdir(), 'tributary-snippet-'));
      onTestFinished(() => rm(folder, { recursive: true, force: true }));
      for (const name of ['go.mod', 'go.sum']) await run('cp', [join(senders, name), folder]);
      await writeFile(join(folder, 'main.go'), snippet);
      await expectOneEventMore(() => run(go ?? '', ['run', '.'], { cwd: folder }));
    });

    it('sends with analytics.js, on a page of another site', async () => {
      const snippet = await snippetOf('Browser');
      expect(createRequire(import.meta.url).resolve('@segment/analytics-next')).toContain('analytics-next');
      const site = await servePage({ '/shop': () => `<!doctype html><title>Shop</title>${snippet}` });
      onTestFinished(() => site.close());
      const shop = await app.context.newPage();
      onTestFinished(() => shop.close());
      await expectOneEventMore(() => shop.goto(`${site.url}shop`));
    });
  },
);
