import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Client, eventually } from '../helpers/client.ts';
import { startWebhook, type Webhook } from '../helpers/webhook.ts';
import { expectAccessible } from './helpers/axe.ts';
import { chromiumPath } from './helpers/chromium.ts';
import { type ConsoleUnderTest, startConsole } from './helpers/console.ts';
import { takePictures } from './helpers/pictures.ts';

interface Made {
  readonly id: string;
}

interface Groups {
  readonly groups: readonly {
    readonly status: string;
    readonly deliveries: number;
    readonly group: string;
  }[];
}

const HOSTILE = '<script>alert(1)</script>';
const DEAD = 6;

describe.skipIf(chromiumPath === undefined)('the pages of deliveries', () => {
  let app: ConsoleUnderTest;
  let client: Client;
  let receiver: Webhook;
  beforeAll(async () => {
    app = await startConsole({ flights: 40 });
    client = app.tributary.owner.with({ workspaceId: app.workspaceId });
    receiver = await startWebhook(({ body }, response) =>
      body.event?.event === 'Order Lost'
        ? response.writeHead(503).end('busy')
        : response.writeHead(400).end(`no ${HOSTILE}`),
    );
    const { id } = await client.post<Made>('./destinations', {
      name: `Broken ${HOSTILE}`,
      type: 'webhook',
      settings: { url: receiver.url },
    });
    await client.post('./event-forwarding-rules', {
      name: 'Orders to the broken one',
      destination_id: id,
      event_types: ['track'],
      event_names: ['Order Placed', 'Order Lost'],
    });
    const sender = client.with({ token: app.flights.writeKey });
    for (let n = 0; n < DEAD; n++) await sender.post('./events/track', event('Order Placed'));
    await sender.post('./events/track', event('Order Lost'));
    await eventually(
      async () => {
        const { groups } = await client.get<Groups>('./deliveries/groups');
        return groups.map(({ status, deliveries }) => `${deliveries} ${status}`).sort();
      },
      (found) => found.join() === `1 retrying,${DEAD} dead`,
    );
  });
  afterAll(async () => {
    await app?.close();
    await receiver?.close();
  });

  const failures = (page: Page) => page.getByRole('table', { name: 'Failures' });

  it('groups what failed by its reason, leads to each delivery, and shows every attempt', async () => {
    const { page } = await app.open('/deliveries');
    await page.getByText(`${DEAD} dead and 1 retrying, in 2 groups.`).waitFor();
    await failures(page).getByText('answered 400').waitFor();
    await failures(page).getByText(`Broken ${HOSTILE}`).first().waitFor();
    await expectAccessible(page);
    await takePictures(page, 'deliveries');
    await failures(page).getByRole('link', { name: 'answered 400' }).click();
    await page.waitForURL(/group=/);
    const list = page.getByRole('table', { name: 'Deliveries' });
    await expect.poll(() => list.getByRole('row').count()).toBe(DEAD + 1);
    await expectAccessible(page);
    await takePictures(page, 'deliveries-list');
    await list.getByRole('link').first().click();
    const attempts = page.getByRole('table', { name: 'Attempts' });
    await attempts.getByText(`no ${HOSTILE}`).waitFor();
    await attempts.getByText('Failed for good').waitFor();
    await page.getByRole('region', { name: 'Event', exact: true }).getByText('Order Placed').waitFor();
    await expectAccessible(page);
    await takePictures(page, 'delivery');
  });

  it('discards one, then mends the destination and redrives the rest of its group with progress', async () => {
    const { page } = await app.open('/deliveries?tab=list&status=dead');
    const list = page.getByRole('table', { name: 'Deliveries' });
    await list.getByRole('link').first().click();
    await page.getByRole('heading', { level: 1, name: 'Delivery', exact: true }).waitFor();
    await page.getByRole('button', { name: 'Discard' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Discard' }).click();
    await page.getByText('Discarded', { exact: true }).first().waitFor();
    receiver.behave(undefined);
    await page.getByRole('link', { name: 'All failures' }).click();
    const row = failures(page).getByRole('row').filter({ hasText: 'answered 400' });
    await row.getByText(String(DEAD - 1), { exact: true }).waitFor();
    await row.getByRole('button', { name: 'Redrive' }).click();
    const dialog = page.getByRole('dialog', { name: `Redrive ${DEAD - 1} dead deliveries?` });
    await expectAccessible(page);
    await takePictures(page, 'deliveries-redrive');
    await dialog.getByRole('button', { name: 'Redrive' }).click();
    await page.getByText(`${DEAD - 1} of ${DEAD - 1} redriven`).waitFor();
    await row.waitFor({ state: 'detached' });
    const progress = page.getByRole('region', { name: 'Redrives and discards' });
    await progress.getByRole('button', { name: 'Close' }).click();
    await expect.poll(() => receiver.deliveries().length).toBeGreaterThanOrEqual(DEAD);
  });

  it('redrives a hundred thousand call by call, stops and continues from there', async () => {
    const { page } = await app.open('/deliveries');
    const groups = await thousands(page);
    await page.reload();
    await page.getByText('100,000 dead and 0 retrying').waitFor();
    await failures(page).getByRole('button', { name: 'Redrive' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Redrive' }).click();
    const progress = page.getByRole('region', { name: 'Redrives and discards' });
    await progress.getByText(/of 100,000 redriven so far/).waitFor();
    groups.release(3);
    await progress.getByText('15,000 of 100,000 redriven so far').waitFor();
    await takePictures(page, 'deliveries-progress');
    await progress.getByRole('button', { name: 'Stop' }).click();
    await progress.getByText(/^Stopped after/).waitFor();
    await expectAccessible(page);
    groups.release(100);
    await progress.getByRole('button', { name: 'Continue' }).click();
    await progress.getByText('100,000 of 100,000 redriven').waitFor();
    expect(groups.cursors()).toEqual(
      Array.from({ length: 20 }, (_, call) => (call === 0 ? null : `c${call}`)),
    );
  });

  it('starts a replay, states its effect before, and shows its progress', async () => {
    const { page } = await app.open('/deliveries?tab=replays');
    await page.getByRole('heading', { name: 'No replay yet' }).waitFor();
    await page.getByRole('link', { name: 'Replay past events' }).first().click();
    await page.getByText(/Accepted events \(all events\) are delivered once more/).waitFor();
    const names = page.getByRole('combobox', { name: 'Event names' });
    await names.fill('Flight Departed');
    await names.press('Enter');
    await page.getByText(/\("Flight Departed"\)/).waitFor();
    await expectAccessible(page);
    await takePictures(page, 'replay-new');
    await page.getByRole('button', { name: 'Start replay' }).click();
    const replays = page.getByRole('table', { name: 'Replays' });
    await replays.getByText('Finished').waitFor();
    await replays.getByText('100 % read').waitFor();
    await expectAccessible(page);
    await takePictures(page, 'replays');
  });

  it('cancels a replay that is too slow', async () => {
    const since = new Date(Date.now() - 3_600_000).toISOString();
    await client.post('./replays', { since, events_per_second: 1 });
    const { page } = await app.open('/deliveries?tab=replays');
    await page.getByRole('button', { name: 'Cancel' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('No further events are sent on').waitFor();
    await dialog.getByRole('button', { name: 'Cancel' }).last().click();
    await page.getByText('Cancelled').waitFor();
  });

  it('states when nothing failed', async () => {
    const empty = await app.tributary.owner.post<Made>('/workspaces', { name: 'Nothing' });
    const { page } = await app.open(`~/w/${empty.id}/deliveries`);
    await page.getByRole('heading', { name: 'Nothing is dead or retrying' }).waitFor();
    await expectAccessible(page);
    await takePictures(page, 'deliveries-empty');
  });

  it('states why a redrive was refused, and asks to sign in where the session ended', async () => {
    const { page, failures: simulated } = await app.open('/deliveries');
    const groups = await thousands(page);
    await page.reload();
    await simulated.answer('**/deliveries/redrive', 403);
    await failures(page).getByRole('button', { name: 'Redrive' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Redrive' }).click();
    await page.getByText(/^Stopped after 0 of 100,000/).waitFor();
    await page.getByText('permission denied').waitFor();
    groups.release(0);
    await simulated.answer('**/console/session', 401);
    await simulated.answer('**/event-contracts*', 401);
    await page.getByRole('link', { name: 'Contracts' }).click();
    await page.getByRole('dialog').waitFor();
  });
});

function event(name: string) {
  return { event: name, user_id: 'ada', properties: { note: HOSTILE } };
}

/** A group of 100,000, whose redrive takes 20 calls; each is answered when it is released. */
async function thousands(page: Page) {
  const cursors: (string | null)[] = [];
  let released = 0;
  const waiting: (() => void)[] = [];
  const uuid = '0198c5a2-7c1e-7b3a-9f60-2d1c5e8a4b70';
  const at = new Date().toISOString();
  const group = {
    group: 'Zk3v0kq9dT1mJX2bq4uR7w',
    status: 'dead',
    destination_id: uuid,
    rule_id: uuid,
    cause: 'destination',
    response_status: 400,
    failure: 'answered 400',
    deliveries: 100_000,
    oldest_at: at,
    newest_at: at,
    newest_id: uuid,
  };
  await page.route('**/deliveries/groups*', (route) =>
    route.fulfill({ json: { groups: [group], more: false } }),
  );
  await page.route('**/deliveries/redrive', async (route) => {
    const { cursor = null } = route.request().postDataJSON() as { readonly cursor?: string };
    cursors.push(cursor);
    const call = cursors.length;
    if (call > released) await new Promise<void>((resolve) => waiting.push(resolve));
    const more = call < 20;
    await route.fulfill({ status: 202, json: { redriven: 5_000, more, cursor: more ? `c${call}` : null } });
  });
  return {
    cursors: () => cursors,
    release(calls: number) {
      released += calls;
      for (const resolve of waiting.splice(0, calls)) resolve();
    },
  };
}
