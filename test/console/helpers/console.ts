import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openDevIssuer } from '@tributary/infra';
import type { BrowserContext, Page } from 'playwright-core';
import { expect, onTestFinished } from 'vitest';
import { DEPARTED, type FlightEvent, readFlights } from '../../demo/flights.ts';
import { sendEvents } from '../../demo/send.ts';
import { prepareWorkspace } from '../../demo/workspace.ts';
import { startEmbedded } from '../../helpers/embedded.ts';
import { drained, type Tributary } from '../../helpers/running-tributary.ts';
import { startWebhook, type Webhook } from '../../helpers/webhook.ts';
import { openBrowser } from './chromium.ts';
import { Failures } from './failures.ts';
import { PageWatch } from './page-watch.ts';

/** How long a page may take to come to the state that a test waits for, on a machine that others keep busy. */
export const WAIT_MS = 120_000;

interface StartConsoleOptions {
  /** How many flights are sent to the workspace of the flights, and processed. Default: there is no such workspace. */
  readonly flights?: number;
  readonly env?: Readonly<Record<string, string>>;
}

interface OpenPageOptions {
  readonly width?: number;
  readonly colorScheme?: 'light' | 'dark';
  /** Signs in as this person. Default: as the person of the printed link, who owns all workspaces here. */
  readonly email?: string;
}

/** A page of a test, signed in. After the test it is closed, and nothing that `PageWatch` collects may have happened. */
interface OpenPage {
  readonly page: Page;
  readonly failures: Failures;
  readonly watch: PageWatch;
}

/** A server with the console for one spec, and a browser that signed in by the printed link. */
export interface ConsoleUnderTest {
  readonly tributary: Tributary;
  /** The link that `tributary dev` printed, used up by this browser. */
  readonly link: string;
  readonly context: BrowserContext;
  /** The workspace whose pages the test looks at: that of the flights if there is one, else the empty one of the start. */
  readonly workspaceId: string;
  /** Throws if there are none. */
  readonly flights: FlightsWorkspace;
  /** The address of a page: `/live` is one of the workspace, `~/system` one outside. */
  addressOf(path: string): string;
  /** Opens a page, by its path for `addressOf`. */
  open(path: string, options?: OpenPageOptions): Promise<OpenPage>;
  /** An ID token of this person, who may be in no workspace yet. */
  tokenOf(email: string): Promise<string>;
  close(): Promise<void>;
}

export async function startConsole({
  flights,
  env = {},
}: StartConsoleOptions = {}): Promise<ConsoleUnderTest> {
  const tributary = await startEmbedded(mkdtempSync(join(tmpdir(), 'tributary-')), env);
  const link = tributary.consoleLink;
  const seeded = flights === undefined ? undefined : await prepareFlights(tributary, flights);
  const workspaceId = seeded?.workspaceId ?? tributary.workspaceId;
  const issuer = openDevIssuer({ dataFolder: tributary.folder, devIssuerKey: '' });
  const browser = await openBrowser();
  const context = await browser.newContext({
    viewport: { width: 1440, height: 900 },
    locale: 'en-GB',
    timezoneId: 'Europe/Berlin',
    reducedMotion: 'reduce',
  });
  context.setDefaultTimeout(WAIT_MS);
  await signInByLink(context, link);
  const addressOf = (path: string) =>
    `${tributary.url}/console${path.startsWith('~') ? path.slice(1) : `/w/${workspaceId}${path}`}`;
  return {
    tributary,
    link,
    context,
    workspaceId,
    get flights() {
      if (seeded === undefined) throw new Error('startConsole was not asked for flights');
      return seeded;
    },
    addressOf,
    async open(path, { width = 1440, colorScheme = 'light', email } = {}) {
      const page = await context.newPage();
      const watch = new PageWatch(page, tributary.url);
      onTestFinished(async () => {
        await page.close();
        expect(watch.problems).toEqual([]);
      });
      await page.setViewportSize({ width, height: width < 600 ? 740 : 900 });
      await page.emulateMedia({ colorScheme });
      if (email !== undefined) await signInAs(page, await issuer.mint(email));
      await page.goto(addressOf(path));
      return { page, watch, failures: new Failures(page, watch) };
    },
    tokenOf: (email) => issuer.mint(email),
    async close() {
      await context.close();
      await seeded?.webhook.close();
      await tributary.remove();
    },
  };
}

/** Leaves the cookie of the link in the browser, by which every later page signs in. */
async function signInByLink(context: BrowserContext, link: string): Promise<void> {
  const page = await context.newPage();
  await page.goto(link);
  await page.getByRole('navigation', { name: 'Pages' }).waitFor({ state: 'attached' });
  await page.close();
}

/** Answers the exchange of the link with the token of another person. */
async function signInAs(page: Page, token: string): Promise<void> {
  const expires_at = new Date(Date.now() + 3_600_000).toISOString();
  await page.route('**/console/session', (route) => route.fulfill({ json: { token, expires_at } }));
}

/** The workspace of the flights, its events processed. */
interface FlightsWorkspace {
  readonly workspaceId: string;
  /** Its departures, in the order in which they were sent. */
  readonly departures: readonly FlightEvent[];
  /** The destination of the flights that are more than an hour late. */
  readonly webhook: Webhook;
  /** A write key of it. */
  readonly writeKey: string;
}

/**
 * The workspace `New York departures` of the demo: a contract that some flights break, a transformation, two destinations
 * and two rules. `flights`: how many of January 2013, with the planes and airlines of these.
 */
async function prepareFlights(tributary: Tributary, flights: number): Promise<FlightsWorkspace> {
  const webhook = await startWebhook();
  const { client, workspaceId, writeKey } = await prepareWorkspace(tributary.owner, webhook.url);
  const events = firstFlights(flights);
  await sendEvents(client.with({ token: writeKey.key }), events, () => undefined);
  await drained(tributary);
  const departures = events.filter(({ event }) => event === DEPARTED);
  return { workspaceId, departures, webhook, writeKey: writeKey.key };
}

function firstFlights(count: number): readonly FlightEvent[] {
  const all = readFlights();
  const flights = all.filter(({ type }) => type === 'track').slice(0, count);
  const planes = new Set(flights.map(({ user_id }) => user_id));
  return [...all.filter(({ type, user_id }) => type !== 'track' && planes.has(user_id)), ...flights];
}
