import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../helpers/client.ts';
import { expectAccessible } from './helpers/axe.ts';
import { chromiumPath } from './helpers/chromium.ts';
import { type ConsoleUnderTest, startConsole } from './helpers/console.ts';
import { type FailureStatus, tryAgain } from './helpers/failures.ts';
import { takePictures } from './helpers/pictures.ts';

const FAILURES: readonly (readonly [FailureStatus, string])[] = [
  [403, 'permission denied'],
  [429, 'too many requests'],
  [503, 'unavailable'],
];

interface Totals {
  readonly totals: Readonly<Record<string, number>>;
}

describe.skipIf(chromiumPath === undefined)('overview', () => {
  let app: ConsoleUnderTest;
  beforeAll(async () => {
    app = await startConsole({ flights: 600 });
    const owner = app.tributary.owner.with({ workspaceId: app.workspaceId });
    await eventually(
      () => owner.get<Totals>('./funnel'),
      ({ totals }) => (totals.delivered_first ?? 0) > 500,
    );
  });
  afterAll(() => app?.close());

  it('leads a new workspace to its first event, and becomes the overview by itself', async () => {
    const { page } = await app.open(`~/w/${app.tributary.workspaceId}/overview`);
    await page.getByText('Waiting for the first event').waitFor();
    await page.getByText(/curl -s http.*v1\/track/).waitFor();
    await takePictures(page, 'overview-empty');
    await expectAccessible(page);
    await app.tributary.producer.post('./events/track', { event: 'Order Completed', user_id: 'ada' });
    const volume = page.getByRole('region', { name: 'Volume' });
    await volume.getByRole('link', { name: 'Order Completed' }).waitFor();
  });

  it('shows the volume by name and by type, for the range in the URL', async () => {
    const { page } = await app.open('/overview?range=7d');
    const volume = page.getByRole('region', { name: 'Volume' });
    await volume.getByRole('link', { name: 'Flight Departed' }).waitFor();
    await volume.locator('.recharts-bar-rectangle').first().waitFor({ state: 'attached' });
    await page.getByText('By type').click();
    await expect.poll(() => new URL(page.url()).searchParams.get('by')).toBe('type');
    await page.getByText('30 days').click();
    await expect.poll(() => new URL(page.url()).searchParams.get('range')).toBe('30d');
    await volume.getByRole('link', { name: 'Flight Departed' }).click();
    await page.getByRole('table', { name: 'Recent events' }).waitFor();
    expect(new URL(page.url()).searchParams.get('name')).toBe('Flight Departed');
  });

  it('leads from what left the funnel to the events and their paths', async () => {
    const owner = app.tributary.owner.with({ workspaceId: app.workspaceId });
    const { totals } = await owner.get<Totals>('./funnel');
    const { page } = await app.open('/overview');
    const funnel = page.getByRole('region', { name: 'From received to delivered' });
    await funnel
      .getByText(`${totals.received?.toLocaleString('en')}`)
      .first()
      .waitFor();
    await page.locator('.recharts-bar-rectangle').first().waitFor({ state: 'attached' });
    await takePictures(page, 'overview');
    await expectAccessible(page);
    await funnel.getByRole('button', { name: /A departure knows its delay: a required field/ }).click();
    const drawer = page.getByRole('dialog', { name: 'Events: rejected' });
    await drawer.getByRole('link').first().waitFor();
    expect(await drawer.getByRole('link').count()).toBe(Math.min(10, totals.rejected ?? 0));
    await takePictures(page, 'overview-events');
    await expectAccessible(page);
    await drawer.getByRole('link').first().click();
    await page.getByText('Its contract blocked it.').waitFor();
  });

  it('lists the things that need attention', async () => {
    const { page } = await app.open('/overview');
    const attention = page.getByRole('region', { name: 'Needs attention' });
    await attention.getByText(/\d+ events?/).waitFor();
    await attention.getByText('violated a contract that blocks').waitFor();
    const destinations = page.getByRole('table', { name: 'Destinations' });
    await destinations.getByRole('link', { name: 'Demo webhook' }).waitFor();
    const violations = page.getByRole('table', { name: 'Top violations' });
    await violations.getByRole('row', { name: /A departure knows its delay block \d+/ }).waitFor();
  });

  it('is usable on a phone', async () => {
    const { page } = await app.open('/overview', { width: 360 });
    await page.getByRole('region', { name: 'Volume' }).getByRole('link').first().waitFor();
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(360);
    await expectAccessible(page);
  });

  it('states why numbers are missing, and shows them after', async () => {
    const { page, failures } = await app.open('/overview');
    await page.getByRole('region', { name: 'Volume' }).waitFor();
    for (const [status, words] of FAILURES) {
      const all = [
        await failures.answer('**/funnel?*', status),
        await failures.answer('**/event-volume?*', status),
        await failures.answer('**/destinations/health?*', status),
      ];
      await page.reload();
      await page.getByRole('alert').getByText(words).first().waitFor();
      if (status === 503) await takePictures(page, 'overview-unavailable');
      await tryAgain(page.getByRole('button', { name: 'Try again' }).first(), ...all);
      await page.getByRole('region', { name: 'Volume' }).getByRole('link').first().waitFor();
    }
  });
});
