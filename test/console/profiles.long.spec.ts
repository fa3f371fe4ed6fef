import type { Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ProfileClient, sendTo } from '../helpers/profile-client.ts';
import { expectAccessible } from './helpers/axe.ts';
import { chromiumPath } from './helpers/chromium.ts';
import { type ConsoleUnderTest, startConsole } from './helpers/console.ts';
import { REQUEST_ID } from './helpers/failures.ts';
import { takePictures } from './helpers/pictures.ts';

/** The data that a page keeps beyond its memory. */
const KEPT = 'JSON.stringify([location.href, history.state, { ...localStorage }, { ...sessionStorage }])';
const SEARCH = '**/cdp/v1/users/_search';

describe.skipIf(chromiumPath === undefined)('the page of profiles', () => {
  let app: ConsoleUnderTest;
  let profiles: ProfileClient;
  let person = '';
  let people = 0;
  beforeAll(async () => {
    app = await startConsole({ flights: 300 });
    const { org_id } = await app.tributary.owner
      .with({ workspaceId: app.workspaceId })
      .get<{ org_id: number }>(`/workspaces/${app.workspaceId}`);
    profiles = new ProfileClient(sendTo(app.tributary.url), org_id, {}).withToken(app.tributary.idToken);
  });
  afterAll(() => app?.close());
  beforeEach(() => {
    person = `person-${people++}@example.com`;
  });

  const typeOn = (page: Page) => page.getByRole('combobox', { name: 'Type' });
  const lookUp = async (page: Page, value: string, type = '') => {
    await page.getByLabel('Identity', { exact: true }).fill(value);
    await typeOn(page).fill(type);
    await page.getByRole('button', { name: 'Look up' }).click();
  };
  const profileOn = (page: Page) => page.getByRole('article', { name: 'Profile' });
  const rowOf = (within: Locator, text: string) => within.getByRole('row').filter({ hasText: text });
  const dialogOn = (page: Page) => page.getByRole('dialog');

  it('shows a plane by its tail number: traits, the airline, and where each came from', async () => {
    const { page } = await app.open('/profiles');
    await page.getByRole('heading', { name: 'Look a person up' }).waitFor();
    await expectAccessible(page);
    await takePictures(page, 'profiles-empty');
    const plane = await planeWithTraits();
    await lookUp(page, plane);
    const attributes = profileOn(page).getByRole('table', { name: 'Attributes' });
    await rowOf(attributes, 'manufacturer').waitFor();
    await attributes.getByText('from identify events').waitFor();
    await attributes.getByText('from group events').waitFor();
    await rowOf(profileOn(page).getByRole('table', { name: 'Identities' }), plane).waitFor();
    await expectAccessible(page);
    await takePictures(page, 'profiles');
  });

  it('keeps search values out of the URL, the history and all storage', async () => {
    await profiles.write({ email: person });
    const { page } = await app.open('/profiles');
    await lookUp(page, person);
    await profileOn(page).waitFor();
    const kept = await page.evaluate<string>(KEPT);
    expect(kept).not.toContain('person-');
    // In memory it stays while the person looks at another page.
    await page.getByRole('link', { name: 'Rules' }).click();
    await page.getByRole('heading', { level: 1, name: 'Rules' }).waitFor();
    await page.goBack();
    await profileOn(page).waitFor();
    await page.reload();
    await page.getByRole('heading', { name: 'Look a person up' }).waitFor();
  });

  it('adds, changes and removes an attribute', async () => {
    await profiles.write({ email: person }, { upsert: { profile: { home: { city: 'London' } } } });
    const { page } = await app.open('/profiles');
    await lookUp(page, person);
    const attributes = profileOn(page).getByRole('table', { name: 'Attributes' });
    await profileOn(page).getByRole('button', { name: 'Add attribute' }).click();
    await dialogOn(page).getByLabel('Attribute').fill('seats');
    await dialogOn(page).getByRole('combobox', { name: 'Kind of value' }).click();
    await page.getByRole('option', { name: 'number' }).click();
    await dialogOn(page).getByLabel('Value', { exact: true }).fill('many');
    await dialogOn(page).getByRole('button', { name: 'Write' }).click();
    await dialogOn(page).getByText('Not a number').waitFor();
    await dialogOn(page).getByLabel('Value', { exact: true }).fill('149');
    await dialogOn(page).getByRole('button', { name: 'Write' }).click();
    await rowOf(attributes, '149').waitFor();
    await attributes.getByRole('button', { name: 'Change city' }).click();
    await dialogOn(page).getByLabel('Value', { exact: true }).fill('Paris');
    await dialogOn(page).getByRole('button', { name: 'Write' }).click();
    await rowOf(attributes, 'Paris').waitFor();
    await attributes.getByRole('button', { name: 'Remove seats' }).click();
    await dialogOn(page).getByRole('button', { name: 'Remove' }).click();
    await rowOf(attributes, 'seats').waitFor({ state: 'detached' });
    const [record] = await profiles.search({ email: [person] });
    expect(record?.profile).toMatchObject({ home: { city: 'Paris' } });
    expect(record?.profile).not.toHaveProperty('traits.seats');
  });

  it('writes consents and preferences, with their author', async () => {
    await profiles.write({ email: person });
    const { page } = await app.open('/profiles');
    await lookUp(page, person);
    for (const [kind, name, value] of [
      ['consent', 'ads', 'no'],
      ['preference', 'newsletter', 'weekly'],
    ] as const) {
      await profileOn(page)
        .getByRole('button', { name: `Add ${kind}` })
        .click();
      await dialogOn(page).getByLabel('Name').fill(name);
      await dialogOn(page).getByLabel('Value').fill(value);
      await dialogOn(page).getByRole('button', { name: 'Write' }).click();
      await rowOf(profileOn(page), name).getByText(value, { exact: true }).waitFor();
    }
    await rowOf(profileOn(page).getByRole('table', { name: 'Marketing preferences' }), 'you').waitFor();
    await profileOn(page).getByRole('button', { name: 'Change ads' }).click();
    await dialogOn(page).getByLabel('Value').fill('yes');
    await dialogOn(page).getByRole('button', { name: 'Write' }).click();
    await rowOf(profileOn(page).getByRole('table', { name: 'Consent' }), 'yes').waitFor();
  });

  it('asks before it makes two people one, and splits them again', async () => {
    const cookie = `cookie-${person}`;
    await profiles.write({ email: person }, { upsert: { profile: { traits: { plan: 'pro' } } } });
    const { ucid } = await profiles.write({ AdId: cookie }, { upsert: { profile: { traits: { age: 36 } } } });
    const { page, watch } = await app.open('/profiles');
    await lookUp(page, person);
    await profileOn(page).getByRole('button', { name: 'Add identity' }).click();
    await dialogOn(page).getByRole('combobox', { name: 'Type' }).fill('AdId');
    await dialogOn(page).getByLabel('Identity').fill(cookie);
    await dialogOn(page).getByRole('button', { name: 'Write' }).click();
    await dialogOn(page).getByText('Another profile has this identity').waitFor();
    expect(await profiles.search({ email: [person], AdId: [cookie] })).toHaveLength(2);
    await dialogOn(page).getByRole('button', { name: 'Make the two one' }).click();
    await profileOn(page).getByRole('heading', { name: 'Linked profiles' }).waitFor();
    expect(await profiles.search({ email: [person], AdId: [cookie] })).toHaveLength(1);
    await profileOn(page)
      .getByRole('button', { name: /^Split off/ })
      .click();
    await dialogOn(page).getByText('what was written about its own identities').waitFor();
    await expectAccessible(page);
    await dialogOn(page).getByRole('button', { name: 'Split off' }).click();
    await profileOn(page).getByRole('button', { name: 'Open it' }).click();
    await rowOf(profileOn(page), 'age').getByText('36').waitFor();
    expect(await profiles.search({ ucid: [ucid] })).toMatchObject([
      { ucid, ids: { AdId: [{ AdId: cookie }] } },
    ]);
    watch.expectStatus(409);
  });

  it('unlinks an identity, and still shows the profile', async () => {
    await profiles.write({ email: person, user_id: `user ${person}` });
    const { page } = await app.open('/profiles');
    await lookUp(page, person, 'email');
    const identities = profileOn(page).getByRole('table', { name: 'Identities' });
    const row = identities
      .getByRole('row')
      .filter({ has: page.getByRole('cell', { name: person, exact: true }) });
    await row.getByRole('button', { name: /^Unlink/ }).click();
    await dialogOn(page).getByText('belongs to no profile').waitFor();
    await dialogOn(page).getByRole('button', { name: 'Unlink' }).click();
    await row.waitFor({ state: 'detached' });
    await rowOf(identities, `user ${person}`).waitFor();
    expect(await profiles.search({ email: [person] })).toEqual([]);
  });

  it('deletes after listing the effects, once the identity was typed again', async () => {
    await profiles.write(
      { email: person },
      { upsert: { profile: { traits: { plan: 'pro' } }, consent: { ads: 'no' } } },
    );
    const { page } = await app.open('/profiles');
    await lookUp(page, person);
    await profileOn(page).getByRole('button', { name: 'Delete profile' }).click();
    const dialog = dialogOn(page);
    for (const part of ['1 attribute', '1 identity (1 email)', '1 consent', '0 marketing preferences'])
      await dialog.getByText(part, { exact: true }).waitFor();
    await expectAccessible(page);
    await takePictures(page, 'profiles-delete');
    const button = dialog.getByRole('button', { name: 'Delete profile' });
    expect(await button.isDisabled()).toBe(true);
    await dialog.getByLabel('Type the identity again').fill('somebody@example.com');
    expect(await button.isDisabled()).toBe(true);
    await dialog.getByLabel('Type the identity again').fill(person);
    await button.click();
    await page.getByRole('heading', { name: 'No profile has this identity' }).waitFor();
    expect(await profiles.search({ email: [person] })).toEqual([]);
  });

  it('creates a profile of an unknown identity', async () => {
    const { page } = await app.open('/profiles');
    await lookUp(page, person, 'email');
    await page.getByRole('heading', { name: 'No profile has this identity' }).waitFor();
    await expectAccessible(page);
    await page.getByRole('button', { name: 'Create a profile with it' }).click();
    await dialogOn(page).getByRole('button', { name: 'Write' }).click();
    await profileOn(page).waitFor();
    expect(await profiles.search({ email: [person] })).toHaveLength(1);
  });

  it('lists the profiles that have the same value under several types', async () => {
    await profiles.write({ user_id: person });
    await profiles.write({ email: person });
    const { page } = await app.open('/profiles');
    await lookUp(page, person);
    await page.getByText('2 profiles have this value').waitFor();
    await expectAccessible(page);
    await page.getByRole('button', { name: /1 user_id/ }).click();
    await profileOn(page).waitFor();
  });

  it('shows to each role its permitted actions', async () => {
    await profiles.write({ email: person });
    const owner = app.tributary.owner.with({ workspaceId: app.workspaceId });
    for (const [role, buttons] of [
      ['viewer', []],
      ['editor', ['Add attribute', 'Unlink']],
      ['admin', ['Add attribute', 'Unlink', 'Delete profile']],
    ] as const) {
      const email = `${role}-of-profiles@example.com`;
      await owner.post('./members', { email, role });
      const { page } = await app.open('/profiles', { email });
      await lookUp(page, person);
      await profileOn(page).waitFor();
      for (const name of ['Add attribute', 'Unlink', 'Delete profile'])
        await expect
          .poll(
            () =>
              profileOn(page)
                .getByRole('button', { name: new RegExp(`^${name}`) })
                .count(),
            { message: `${role}: ${name}` },
          )
          .toBe((buttons as readonly string[]).includes(name) ? 1 : 0);
    }
  });

  it('finds nobody by a placeholder, and names the reason when the API refuses', async () => {
    const { page, failures } = await app.open('/profiles');
    await lookUp(page, 'null', 'user_id');
    await page.getByRole('heading', { name: 'No profile has this identity' }).waitFor();
    for (const status of [403, 429, 503] as const) {
      const refused = await failures.answer(SEARCH, status);
      await lookUp(page, `${person} ${status}`);
      await page.getByText(REQUEST_ID).waitFor();
      await expectAccessible(page);
      if (status === 503) await takePictures(page, 'profiles-error');
      await refused.end();
    }
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('heading', { name: 'No profile has this identity' }).waitFor();
  });

  it('keeps the input when a write fails', async () => {
    await profiles.write({ email: person });
    const { page, failures } = await app.open('/profiles');
    await lookUp(page, person);
    await profileOn(page).getByRole('button', { name: 'Add attribute' }).click();
    await dialogOn(page).getByLabel('Attribute').fill('seats');
    await dialogOn(page).getByLabel('Value', { exact: true }).fill('149');
    for (const status of [409, 503] as const) {
      const refused = await failures.answer('**/cdp/v1/users', status);
      await dialogOn(page).getByRole('button', { name: 'Write' }).click();
      await dialogOn(page).getByText(REQUEST_ID).waitFor();
      await refused.end();
    }
    expect(await dialogOn(page).getByLabel('Value', { exact: true }).inputValue()).toBe('149');
    await dialogOn(page).getByRole('button', { name: 'Write' }).click();
    await rowOf(profileOn(page), 'seats').waitFor();
  });

  /** A plane of the flights about which the data says something. */
  async function planeWithTraits(): Promise<string> {
    const planes = [...new Set(app.flights.departures.map(({ user_id }) => user_id))];
    const known = planes.filter((plane) => plane !== undefined);
    const records = await profiles.search({ user_id: known.slice(0, 50) });
    const plane = records.find(({ profile }) => 'traits' in profile)?.ids.user_id;
    const [first] = plane as readonly { readonly user_id: string }[];
    if (first === undefined) throw new Error('no plane of the flights has traits');
    return first.user_id;
  }
});
