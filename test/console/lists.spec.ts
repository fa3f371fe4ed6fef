import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { chromiumPath } from './helpers/chromium.ts';
import { type ConsoleUnderTest, startConsole } from './helpers/console.ts';

/** More than a page of 50. */
const CONTRACTS = 120;

describe.skipIf(chromiumPath === undefined)('a list', () => {
  let app: ConsoleUnderTest;
  beforeAll(async () => {
    app = await startConsole();
    const client = app.tributary.owner.with({ workspaceId: app.workspaceId });
    for (let n = 0; n < CONTRACTS; n++)
      await client.post('./event-contracts', {
        name: `Contract ${String(n).padStart(3, '0')}`,
        event_type: 'track',
        event_name: `Event ${n}`,
        schema_definition: { properties: { amount: { type: 'number' } } },
      });
  });
  afterAll(() => app?.close());

  it('asked for the next page of another order than the one it had just been put into, and was refused', async () => {
    const { page, failures } = await app.open('/contracts');
    const next = page.getByRole('button', { name: 'Next page' });
    await page.getByRole('link', { name: 'Contract 119' }).waitFor(); // the newest first
    const sorting = await failures.hold(/event-contracts\?.*sort=name/);
    await page.getByRole('button', { name: 'Name' }).click();
    await next.and(page.locator(':disabled')).waitFor();
    await sorting.end();
    await page.getByRole('link', { name: 'Contract 000' }).waitFor();
    await next.click();
    await page.getByRole('link', { name: 'Contract 050' }).waitFor();
    await page.getByRole('button', { name: 'First page' }).click();
    await page.getByRole('link', { name: 'Contract 000' }).waitFor();
    expect(new URL(page.url()).searchParams.get('sort')).toBe('name');
  });
});
