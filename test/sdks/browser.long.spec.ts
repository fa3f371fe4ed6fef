import { type Browser, chromium } from 'playwright-core';
import ts from 'typescript';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../helpers/client.ts';
import { ranHere } from '../helpers/run-cli.ts';
import { startTributary } from '../helpers/tributary.ts';
import { type PageServer, servePage } from './page-server.ts';
import { findProgram } from './programs.ts';
import { callsOf, type Task } from './senders/calls.ts';
import { expectAll } from './sent-events.ts';
import { SENT_WITHIN_MS, type Sender, type Sending, sendThroughRestart } from './through-restart.ts';

const ROUNDS = 300;
const program = findProgram('chromium', 'google-chrome');

/** The part of the page script's interface that is used here. */
interface Analytics {
  identify(id: string, traits: object, options: object): Promise<unknown>;
  track(event: string, properties: object, options: object): Promise<unknown>;
  page(category: string, name: string, properties: object, options: object): Promise<unknown>;
  group(id: string, traits: object, options: object): Promise<unknown>;
}
interface Volume {
  readonly event_type: string;
  readonly event_name: string;
  readonly event_count: number;
}
interface Page {
  readonly AnalyticsNext: {
    readonly AnalyticsBrowser: { load(settings: { writeKey: string; cdnURL: string }): Analytics };
  };
}

describe.skipIf(program === undefined)('analytics.js, unmodified, on a page in Chromium', () => {
  let browser: Browser;
  let site: PageServer;
  beforeAll(async () => {
    site = await servePage();
    const args = [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-background-networking',
      '--disable-component-update',
    ];
    browser = await chromium.launch({ executablePath: program ?? '', args });
  });
  afterAll(async () => {
    await browser.close();
    await site.close();
  });

  it(
    'sends every event once, with all its fields, while the server is killed and started again',
    async () => {
      const name = 'analytics-next';
      const sender: Sender = { name, start: (task) => visit(task) };
      const events = (await sendThroughRestart([sender], ROUNDS)).get(name);
      expectAll(events, name, ROUNDS);
      for (const event of events ?? []) {
        expect(event.anonymous_id).toMatch(/^[0-9a-f-]{36}$/);
        expect(event.integrations).toMatchObject({ All: true, Elsewhere: false });
        expect(event.context).toMatchObject({
          userAgent: expect.stringContaining('Chrom'),
          page: { url: site.url, title: 'Shop' },
        });
      }
    },
    SENT_WITHIN_MS,
  );

  it('sends with a client that was generated for browsers', async () => {
    const tributary = await startTributary();
    onTestFinished(() => tributary.remove());
    const contract = {
      event_type: 'track',
      event_name: 'Order Placed',
      schema_definition: { properties: { total: { type: 'number', required: true } } },
      enforcement_mode: 'block',
    };
    await tributary.owner.put('./tracking-plan', { contracts: [contract] });
    const wanted = { name: 'codegen', role: 'viewer', may_manage: [] };
    const { key } = await tributary.owner.post<{ key: string }>('./api-keys', wanted);
    const { output } = await ranHere(
      [
        ...['codegen', '--language', 'typescript', '--sdk', 'browser'],
        ...['--url', tributary.url, '--workspace', tributary.workspaceId],
      ],
      { TRIBUTARY_API_KEY: key },
    );
    const { outputText } = ts.transpileModule(output, {
      compilerOptions: { target: ts.ScriptTarget.ES2022 },
    });
    const page = await browser.newPage();
    await page.goto(site.url);
    const answered = page.waitForResponse((response) => response.url() === `${tributary.url}/v1/t`);
    await page.addScriptTag({
      type: 'module',
      content: `${outputText}
const analytics = window.AnalyticsNext.AnalyticsBrowser.load({ writeKey: '${tributary.writeKey}', cdnURL: '${tributary.url}' });
new TrackingPlan(analytics).trackOrderPlaced({ total: 12.5 });`,
    });
    expect((await answered).status()).toBe(200);
    const orders = async () =>
      (await tributary.owner.get<readonly Volume[]>('./event-volume')).filter(
        ({ event_name }) => event_name === 'Order Placed',
      );
    expect(await eventually(orders, ({ length }) => length > 0)).toMatchObject([{ event_count: 1 }]);
  });

  /** A visitor who makes all calls; done once every event was answered with 200. */
  function visit(task: Task): Sending {
    const { promise: half, resolve: halfWay } = Promise.withResolvers<void>();
    const { promise: ended, resolve: done } = Promise.withResolvers<void>();
    const clicks = async () => {
      const page = await browser.newPage();
      let taken = 0;
      page.on('response', (response) => {
        if (response.request().method() === 'POST' && response.status() === 200) taken += 1;
        if (taken === 4 * task.rounds) done();
      });
      await page.goto(site.url);
      await page.evaluate(({ writeKey, url }) => {
        const { AnalyticsBrowser } = (globalThis as unknown as Page).AnalyticsNext;
        Object.assign(globalThis, { shop: AnalyticsBrowser.load({ writeKey, cdnURL: url }) });
      }, task);
      for (let round = 0; round < task.rounds; round++) {
        if (round === Math.floor(task.rounds / 2)) halfWay();
        await page.evaluate(
          (calls) => {
            const { shop } = globalThis as unknown as { readonly shop: Analytics };
            const { track, identify, page: view, group } = calls;
            const options = {
              timestamp: track.timestamp,
              integrations: track.integrations,
              context: track.context,
            };
            void shop.identify(identify.userId, identify.traits, options);
            void shop.track(track.event, track.properties, options);
            void shop.page(view.category, view.name, view.properties, options);
            void shop.group(group.groupId, group.traits, options);
          },
          callsOf(task, round),
        );
        await page.waitForTimeout(50);
      }
    };
    const failed = clicks().then(() => ended);
    // The spec closes the browser, and the page with it.
    return { half: Promise.race([half, failed]), ended: failed, stop: () => {} };
  }
});
