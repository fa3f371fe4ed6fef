import { setTimeout as sleep } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { median } from '../bench/table.ts';
import type { Client } from '../helpers/client.ts';
import { drained } from '../helpers/running-tributary.ts';
import { chromiumPath } from './helpers/chromium.ts';
import { type ConsoleUnderTest, startConsole } from './helpers/console.ts';
import { heapMiB, type Interaction, timeInteractions } from './helpers/interactions.ts';

/** From an input to the frame that shows it, ms: the promise of the console. */
const INTERACTION_MS = 100;
const ROUNDS = 5;
const CONTRACTS = 10_000;
const DEAD = 100_000;
const BATCH = 500;
const LIVE_PER_SECOND = 500;
const LIVE_MINUTES = 10;
/** The contracts and the dead deliveries come at some hundred a second at most. */
const WITHIN_MS = 25 * 60_000;
/** The tab may vary by so much, MiB: its content changes by the second. */
const HEAP_VARIES = 8;

interface Made {
  readonly id: string;
}

describe.skipIf(chromiumPath === undefined)('the console with much in it', { timeout: WITHIN_MS }, () => {
  let app: ConsoleUnderTest;
  let owner: Client;
  beforeAll(async () => {
    const quota = String(2 * CONTRACTS);
    app = await startConsole({
      flights: 100,
      env: {
        TRIBUTARY_QUOTA_CONTRACTS: quota,
        TRIBUTARY_QUOTA_CONTRACTS_TOTAL: quota,
        TRIBUTARY_CHANGE_RATE: '100000',
        TRIBUTARY_CHANGE_RATE_PER_ACCOUNT: '100000',
      },
    });
    owner = app.tributary.owner.with({ workspaceId: app.workspaceId });
  });
  afterAll(() => app?.close());

  const producer = () => owner.with({ token: app.flights.writeKey });
  const send = (event: string, count: number) =>
    producer().post('./events/batch', {
      batch: Array.from({ length: count }, (_, n) => ({ type: 'track', event, user_id: `u${n}` })),
    });

  /**
   * Acts as a user on this page, and verifies that no interaction takes the browser longer than promised: by the median,
   * over some rounds, of the slowest one, as other programs share the processors. The first round loads and compiles the
   * code of the pages and does not count.
   */
  async function timed(page: Page, act: () => Promise<void>): Promise<void> {
    await act();
    const rounds: Interaction[][] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const interactions = await timeInteractions(page);
      await act();
      rounds.push([...(await interactions())]);
    }
    const slowest = rounds.map((round) => Math.max(...round.map(({ duration }) => duration)));
    expect(median(slowest), JSON.stringify(rounds)).toBeLessThan(INTERACTION_MS);
  }

  it(`lists ${CONTRACTS} contracts, finds one, and opens it`, async () => {
    for (let n = 0; n < CONTRACTS; n += 20)
      await Promise.all(
        Array.from({ length: 20 }, (_, offset) =>
          owner.post('./event-contracts', {
            name: `Contract ${n + offset}`,
            event_type: 'track',
            event_name: `Event ${n + offset}`,
            schema_definition: { properties: { amount: { type: 'number' } } },
          }),
        ),
      );
    const { page } = await app.open('/contracts');
    const rows = page.getByRole('table', { name: 'Contracts' }).getByRole('row');
    await timed(page, async () => {
      await page.getByRole('link', { name: 'Contracts', exact: true }).click();
      await page.getByText(`of ${CONTRACTS + 1}`).waitFor();
      await page.getByRole('button', { name: 'Name' }).click();
      await page.getByRole('button', { name: 'Next page' }).click();
      await page.getByRole('button', { name: 'First page' }).click();
      await page.getByLabel('Filter by name').pressSequentially('contract 9876');
      await expect.poll(() => rows.count()).toBe(2);
      await page.getByRole('link', { name: 'Contract 9876' }).click();
      await page.getByRole('heading', { level: 1, name: 'Contract 9876' }).waitFor();
      await page.getByRole('tab', { name: 'Violations' }).click();
    });
  });

  it(`groups ${DEAD} dead deliveries, and walks through them`, async () => {
    const { id } = await owner.post<Made>('./destinations', {
      name: 'Refused',
      type: 'webhook',
      settings: { url: 'http://10.0.0.1/' },
    });
    await owner.post('./event-forwarding-rules', {
      name: 'To nowhere',
      destination_id: id,
      event_types: ['track'],
      event_names: ['Lost'],
    });
    for (let n = 0; n < DEAD; n += BATCH) await send('Lost', BATCH);
    await drained(app.tributary, 10 * 60_000);
    const { page } = await app.open('/deliveries');
    await page.getByText(`${DEAD.toLocaleString('en')} dead and 0 retrying`).waitFor();
    await timed(page, async () => {
      await page.getByRole('link', { name: 'Deliveries', exact: true }).click();
      await page.getByRole('table', { name: 'Failures' }).getByRole('link').first().click();
      const list = page.getByRole('table', { name: 'Deliveries' });
      await list.getByRole('link').first().waitFor();
      await page.getByRole('button', { name: 'Next page' }).click();
      await page.getByRole('button', { name: 'First page' }).click();
      await list.getByRole('link').first().click();
      await page.getByRole('table', { name: 'Attempts' }).waitFor();
      await page.goBack();
      await list.getByRole('link').first().waitFor();
      await page.getByRole('tab', { name: 'Failures' }).click();
    });
  });

  /** Events at a steady rate while `work` runs. */
  async function whileLoaded(work: () => Promise<void>): Promise<void> {
    let isOver = false;
    const sending = (async () => {
      for (let next = Date.now(); !isOver; next += 200) {
        await send(`Load ${Math.trunc(next / 1_000) % 10}`, LIVE_PER_SECOND / 5);
        await sleep(Math.max(0, next + 200 - Date.now()));
      }
    })();
    try {
      await work();
    } finally {
      isOver = true;
      await sending;
    }
  }

  async function openLive(): Promise<Page> {
    const { page } = await app.open('/live');
    await page.getByRole('status').getByText('Live').waitFor();
    return page;
  }

  const useLive = async (page: Page) => {
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByLabel('Text').pressSequentially('u42');
    await page.getByLabel('Text').clear();
    await page.getByRole('button', { name: /^Load/ }).first().click();
    await page.getByRole('dialog').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
  };

  it(`shows ${LIVE_PER_SECOND} events a second for ${LIVE_MINUTES} minutes in the same memory`, () =>
    whileLoaded(async () => {
      const page = await openLive();
      await page.getByRole('button', { name: /^Load/ }).first().waitFor();
      const heaps: number[] = [];
      for (const ends = Date.now() + LIVE_MINUTES * 60_000; Date.now() < ends; ) {
        await useLive(page);
        heaps.push(await heapMiB(page));
        await sleep(30_000);
      }
      const [first = 0, ...later] = heaps.slice(1);
      expect(
        Math.max(...later),
        `heap by the half minute: ${heaps.map(Math.round).join(' ')} MiB`,
      ).toBeLessThan(first + HEAP_VARIES);
    }));

  it(`answers at once while ${LIVE_PER_SECOND} events a second come`, () =>
    whileLoaded(async () => {
      const page = await openLive();
      await timed(page, () => useLive(page));
    }));
});
