import { join } from 'node:path';
import {
  type CanonicalEvent,
  HEADER,
  NO_LOGGER,
  NO_METRICS,
  NO_PROFILE_SETTINGS,
  type Profile,
  type ProfileSettings,
  TOPIC,
} from '@tributary/core';
import { openSqliteProfileStore } from '@tributary/infra';
import { expect, it, onTestFinished } from 'vitest';
import { temporaryFolder } from '../../helpers/folder.ts';
import { entryOf, event, setUp } from '../harness.ts';
import { type MemoryCatalog, ORGANIZATION } from '../memory-catalog.ts';

function identified(offset: number, fields: Partial<CanonicalEvent>) {
  const { event: _event, properties: _properties, ...about } = event(`m${offset}`, { type: 'identify' });
  const { user_id: _user, ...rest } = about;
  const one = { ...rest, ...fields };
  const key = `w:${one.user_id ?? one.anonymous_id}`;
  const headers = { [HEADER.type]: one.type, [HEADER.environment]: one.environment };
  return { ...entryOf(TOPIC.accepted, offset, one, headers), key };
}

function setProfiles(catalog: MemoryCatalog, profile_settings: ProfileSettings): void {
  const fields = { name: 'o', regions: ['eu'], notification_email: null };
  catalog.add('organization.updated', ORGANIZATION, { ...fields, profile_settings });
}

/** The stage over the embedded store. */
async function setUpStore() {
  const folder = await temporaryFolder();
  onTestFinished(() => folder.remove());
  const profiles = await openSqliteProfileStore({
    folder: join(folder.path, 'profiles'),
    clock: () => Date.parse('2026-01-01T10:01:00.000Z'), // the day of the events: older ones are not written
    retentionMs: 86_400_000,
    publish: async () => {},
    logger: NO_LOGGER,
    metrics: NO_METRICS,
  });
  onTestFinished(() => profiles.close());
  const { run, catalog } = setUp({}, { profiles });
  const of = async (type: string, value: string): Promise<Profile | undefined> =>
    (await profiles.search({ org: 1, regions: ['eu'], identities: [{ type, value }], ucids: [] }))[0];
  const names = async (type: string, value: string) =>
    (await of(type, value))?.identities.map((one) => `${one.type}=${one.value}`).sort();
  return { run, catalog, of, names };
}

it('took an address that an organization blocks for a person: events go on without it', async () => {
  const { run, names, of, catalog } = await setUpStore();
  setProfiles(catalog, {
    ...NO_PROFILE_SETTINGS,
    blocked_identities: [{ type: 'email', value: 'Counter@shop.example', pattern: null }],
  });
  await run('profile', [
    identified(0, { user_id: 'u1', traits: { email: 'counter@Shop.example', a: 1 } }),
    identified(1, { user_id: 'u2', traits: { email: 'counter@shop.example' } }),
    identified(2, { anonymous_id: 'd', traits: { email: 'counter@shop.example' } }),
  ]);
  expect(await names('email', 'counter@shop.example')).toBeUndefined();
  expect(await names('user_id', 'u1')).toEqual(['user_id=u1']);
  expect((await of('user_id', 'u1'))?.attributes).toMatchObject([
    { value: 1 },
    { value: 'counter@Shop.example' },
  ]);
  expect(await names('anonymous_id', 'd')).toEqual(['anonymous_id=d']);
});

it('the first owner of a shared address got the events of all: past the limit it merges no profiles, reported once', async () => {
  const { run, names, of, catalog } = await setUpStore();
  setProfiles(catalog, { ...NO_PROFILE_SETTINGS, max_user_ids_per_identity: 5 });
  const traits = { email: 'frontdesk@hotel.example' };
  const guests = Array.from({ length: 8 }, (_, n) =>
    identified(n, { user_id: `guest-${n}`, traits, timestamp: `2026-01-01T09:59:0${n}.000Z` }),
  );
  const emitted = [];
  // One subject after the other, so that the first guest gets the address; a part is repeated after a crash.
  for (const events of [guests.slice(0, 3), guests, guests.slice(5)])
    for (const one of events) emitted.push(...(await run('profile', [one])));
  const owner = await of('user_id', 'guest-0');
  const operations = emitted.map(({ topic, value }) => ({ topic, ...JSON.parse(value) }));
  expect(operations).toMatchObject([
    {
      topic: TOPIC.profileOperations,
      name: 'set_aside',
      by: 'stage:profile',
      regions: ['eu'],
      identity_types: ['email'],
      outcome: { ucids: [owner?.ucid], complete: true },
    },
  ]);
  expect(JSON.stringify(operations)).not.toContain('frontdesk');
  await run('profile', [identified(20, { anonymous_id: 'lobby', traits })]);
  expect(await names('anonymous_id', 'lobby')).toEqual(['anonymous_id=lobby']);
  expect(await names('user_id', 'guest-7')).toEqual(['user_id=guest-7']);
});

it('let one person grow without bound: a full profile stays as it is, keeps its updates, and the audit log says so once', async () => {
  const { run, of } = await setUpStore();
  const traits = (from: number, count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, n) => [`t${from + n}`, n]));
  const emitted = [];
  for (let part = 0; part < 9; part++) {
    const event = { user_id: 'u', traits: traits(part * 240, 240) };
    emitted.push(...(await run('profile', [identified(part, event)])));
  }
  const profile = await of('user_id', 'u');
  expect(profile?.attributes).toHaveLength(8 * 240);
  const again = identified(10, { user_id: 'u', traits: { t7: 'updated' } });
  await run('profile', [again, identified(11, { user_id: 'u', traits: traits(5_000, 200) })]);
  expect((await of('user_id', 'u'))?.attributes).toContainEqual(
    expect.objectContaining({ path: ['traits', 't7'], value: 'updated' }),
  );
  expect(emitted.map(({ topic, value }) => ({ topic, ...JSON.parse(value) }))).toMatchObject([
    {
      topic: TOPIC.profileOperations,
      name: 'not_extended',
      identity_types: ['user_id'],
      excess: { bound: 'profile_values', limit: 2_000, message_id: expect.any(String) },
      outcome: { ucids: [profile?.ucid] },
    },
  ]);
});
