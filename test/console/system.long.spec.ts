import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expectAccessible } from './helpers/axe.ts';
import { chromiumPath } from './helpers/chromium.ts';
import { type ConsoleUnderTest, startConsole } from './helpers/console.ts';
import { takePictures } from './helpers/pictures.ts';

const SYSTEM = '**/api/v1/system';
const AT = '2026-03-01T09:30:00.000Z';

describe.skipIf(chromiumPath === undefined)('the page of the system', () => {
  let app: ConsoleUnderTest;
  beforeAll(async () => {
    app = await startConsole({ flights: 100 });
  });
  afterAll(() => app?.close());

  const rowOf = (page: Page, table: string, text: string) =>
    page.getByRole('table', { name: table, exact: true }).getByRole('row').filter({ hasText: text });

  it('shows stages, processes, engines and versions of the running server', async () => {
    const { page } = await app.open('~/system');
    await page.getByText('Nothing needs attention').waitFor();
    await rowOf(page, 'Processes', 'ready').waitFor();
    await rowOf(page, 'Engines', 'sqlite').waitFor();
    await page.getByRole('button', { name: 'deliver', exact: true }).click();
    await page.getByRole('table', { name: 'Owners of deliveries', exact: true }).waitFor();
    await page.getByRole('button', { name: /^dev / }).click();
    await page.getByText('catalog: caught up').waitFor();
    await expectAccessible(page);
    await takePictures(page, 'system');
    // The URL shows a colleague the same.
    await page.reload();
    await page.getByRole('table', { name: 'Owners of deliveries', exact: true }).waitFor();
    await page.getByText('catalog: caught up').waitFor();
  });

  it('is in the menu of operators alone, and names its audience to others', async () => {
    const { page } = await app.open('/overview');
    await page.getByRole('link', { name: 'System' }).waitFor();
    const { page: other, watch } = await app.open('~/system', { email: 'stranger@example.com' });
    watch.expectStatus(403);
    await other.getByRole('heading', { name: 'For operators of the installation' }).waitFor();
    expect(await other.getByRole('link', { name: 'System' }).count()).toBe(0);
    await expectAccessible(other);
  });

  it('marks what needs an operator', async () => {
    const { page } = await app.open('/overview');
    await page.route(SYSTEM, (route) => route.fulfill({ json: bigSystem(8, 8) }));
    await page.goto(`${app.tributary.url}/console/system`);
    for (const problem of [
      'redis: refuses writes',
      'processor host-1:101 is not ready',
      'deliver is behind by 2 h',
      '1 process without a report',
      'Processes of several releases run together',
    ])
      await page.getByText(problem).waitFor();
    await expectAccessible(page);
    await takePictures(page, 'system-trouble');
    await page.getByLabel('Only stages that are behind').check();
    await rowOf(page, 'Stages', 'route').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'deliver', exact: true }).waitFor();
    expect(page.url()).toContain('show=behind');
  });

  it('stays readable with thousands of partitions, and where one looked while it refreshes', async () => {
    const { page } = await app.open('/overview');
    let reads = 0;
    await page.route(SYSTEM, (route) => {
      reads++;
      return route.fulfill({ json: bigSystem(4_000, 40, reads) });
    });
    await page.goto(`${app.tributary.url}/console/system`);
    await page.getByRole('button', { name: 'deliver', exact: true }).click();
    const partitions = page.getByRole('table', { name: 'Partitions of deliveries', exact: true });
    await partitions.waitFor();
    expect(await partitions.getByRole('row').count()).toBe(26);
    expect(
      await page.getByRole('table', { name: 'Owners of deliveries', exact: true }).getByRole('row').count(),
    ).toBe(41);
    await page.getByRole('button', { name: 'Next page' }).click();
    await page.getByLabel('Filter stages and processes').fill('host-13');
    await rowOf(page, 'Processes', 'host-13:113').waitFor();
    await page.getByLabel('Filter stages and processes').fill('');
    await partitions.waitFor();
    await page.evaluate('scrollTo(0, 500)');
    const before = await page.evaluate<number>('scrollY');
    const read = reads;
    await expect.poll(() => reads).toBeGreaterThan(read + 1);
    await expect.poll(() => page.evaluate<number>('scrollY')).toBe(before);
    await partitions.waitFor();
  });

  it('can be used at 360 pixels', async () => {
    const { page } = await app.open('~/system', { width: 360, colorScheme: 'dark' });
    await page.getByText('Nothing needs attention').waitFor();
    expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360);
  });
});

/** An installation in trouble: one process is silent, one of another release and not ready, `deliver` is behind. */
function bigSystem(partitions: number, processes: number, read = 1) {
  const ids = Array.from(
    { length: processes },
    (_, n) => `0192f0c1-7c7b-7d53-8a55-${String(n).padStart(12, '0')}`,
  );
  const owned = (process: number) =>
    Array.from({ length: partitions }, (_, n) => n).filter((n) => n % processes === process);
  const stage = (name: string, topic: string, lag: number) => ({
    stage: name,
    members: processes,
    lag_records: lag * partitions,
    lag_seconds: lag === 0 ? 0 : 7_200,
    arrival_per_second: 100,
    drain_per_second: 90.5,
    seconds_to_empty: null,
    wanted_processes: processes + 2,
    topics: [
      {
        topic,
        lag_records: lag * partitions,
        oldest_at: lag === 0 ? null : AT,
        partitions: Array.from({ length: partitions }, (_, n) => ({
          partition: n,
          position: read,
          end: read + lag,
          lag,
          oldest_at: lag === 0 ? null : AT,
          process: ids[n % processes],
        })),
      },
    ],
  });
  return {
    at: new Date().toISOString(),
    versions: [
      { version: '0.1.0', commit: '0123456789ab', processes: 1 },
      { version: '0.2.0', commit: null, processes: processes - 2 },
    ],
    stages: [stage('route', 'events.accepted', 0), stage('deliver', 'deliveries', 5)],
    processes: ids.map((process, n) => ({
      process,
      role: 'processor',
      host: `host-${n}`,
      pid: 100 + n,
      version: n === 1 ? '0.1.0' : '0.2.0',
      commit: null,
      node: '24.0.0',
      started_at: AT,
      reported_at: AT,
      state: n === 0 ? 'silent' : n === 1 ? 'not ready' : 'ready',
      checks: { catalog: 'caught up' },
      memory_bytes: 300_000_000,
      stages: [{ stage: 'deliver', topics: [{ topic: 'deliveries', partitions: owned(n) }] }],
    })),
    engines: [
      {
        engine: 'redis',
        version: '7.4.1',
        state: 'refuses writes',
        processes: [{ process: ids[1], state: 'refuses writes' }],
      },
    ],
  };
}
