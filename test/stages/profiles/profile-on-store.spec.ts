import { join } from 'node:path';
import {
  type CanonicalEvent,
  HEADER,
  NO_LOGGER,
  NO_METRICS,
  NO_PROFILE_SETTINGS,
  type Profile,
  type ProfileChange,
  type ProfileSettings,
  TOPIC,
} from '@tributary/core';
import { openSqliteProfileStore } from '@tributary/infra';
import { expect, it, onTestFinished } from 'vitest';
import { temporaryFolder } from '../../helpers/folder.ts';
import { entryOf, event, setUp } from '../harness.ts';
import { type MemoryCatalog, ORGANIZATION } from '../memory-catalog.ts';

const SCOPE = { org: 1, region: 'eu' };

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

/** The stage over the embedded store, and the changes it published. */
async function setUpStore() {
  const folder = await temporaryFolder();
  onTestFinished(() => folder.remove());
  const changes: ProfileChange[] = [];
  const profiles = await openSqliteProfileStore({
    folder: join(folder.path, 'profiles'),
    clock: () => Date.parse('2026-01-01T10:01:00.000Z'), // the day of the events: older ones are not written
    retentionMs: 86_400_000,
    publish: async (told) => void changes.push(...told),
    logger: NO_LOGGER,
    metrics: NO_METRICS,
  });
  onTestFinished(() => profiles.close());
  const { run, catalog } = setUp({}, { profiles });
  const of = async (type: string, value: string): Promise<Profile | undefined> =>
    (await profiles.search({ org: 1, regions: ['eu'], identities: [{ type, value }], ucids: [] }))[0];
  const names = async (type: string, value: string) =>
    (await of(type, value))?.identities.map((one) => `${one.type}=${one.value}`).sort();
  return { profiles, run, catalog, of, names, changes };
}

it('gives an anonymous person one profile with the attributes of both, once identified', async () => {
  const { run, of, names, changes } = await setUpStore();
  await run('profile', [
    identified(0, { anonymous_id: 'a', traits: { plan: 'free' } }),
    identified(1, { user_id: 'u', traits: { age: 30 } }),
  ]);
  // Otherwise the changes of the absorbed profile might be published only by the merge.
  await expect.poll(() => changes.length).toBe(2);
  await run('profile', [
    identified(2, { user_id: 'u', anonymous_id: 'a', received_at: '2026-01-01T10:00:01.000Z' }),
  ]);
  expect(await names('user_id', 'u')).toEqual(['anonymous_id=a', 'user_id=u']);
  const profile = await of('anonymous_id', 'a');
  expect(profile?.attributes.map(({ path }) => path.join('.'))).toEqual(['traits.age', 'traits.plan']);
  await expect.poll(() => changes.map(({ kind }) => kind).sort()).toEqual(['merged', 'written', 'written']);
});

it('never makes one of two people: not on a shared device, nor with a shared e-mail address', async () => {
  const { run, of, names } = await setUpStore();
  const home = { email: 'family@example.com', phone: '+49171' };
  await run('profile', [
    identified(0, { anonymous_id: 'tablet' }),
    identified(1, { user_id: 'ann', anonymous_id: 'tablet', traits: { ...home, name: 'Ann' } }),
    identified(2, { user_id: 'bob', anonymous_id: 'tablet', traits: { ...home, name: 'Bob' } }),
    identified(3, { anonymous_id: 'tablet', traits: home }),
    identified(4, { user_id: 'bob', anonymous_id: 'device-3' }),
  ]);
  // Either may be first on the device; the first one gets it, and the other keeps their own.
  const [ann, bob] = [await of('user_id', 'ann'), await of('user_id', 'bob')];
  expect(ann?.ucid).not.toBe(bob?.ucid);
  for (const [user, other] of [
    ['ann', 'bob'],
    ['bob', 'ann'],
  ]) {
    const told = await names('user_id', user ?? '');
    expect(told).toContain(`user_id=${user}`);
    expect(told).not.toContain(`user_id=${other}`);
  }
  expect((await of('user_id', 'bob'))?.attributes).toContainEqual(
    expect.objectContaining({ path: ['traits', 'name'], value: 'Bob' }),
  );
  expect(await names('user_id', 'bob')).toContain('anonymous_id=device-3');
  expect([ann?.ucid, bob?.ucid]).toContain((await of('email', home.email))?.ucid);
});

it('changes nothing by a repeated batch, also cut differently', async () => {
  const { run, profiles, changes, of } = await setUpStore();
  const entries = Array.from({ length: 60 }, (_, i) =>
    identified(i, {
      user_id: `u${i % 7}`,
      anonymous_id: `a${i % 11}`,
      traits: { email: `e${i % 5}@example.com`, count: i },
      received_at: new Date(Date.parse('2026-01-01T10:00:00Z') + Math.floor(i / 3)).toISOString(),
    }),
  );
  const users = Array.from({ length: 7 }, (_, i) => ({ type: 'user_id', value: `u${i}` }));
  const found = () => profiles.search({ ...SCOPE, regions: ['eu'], identities: users, ucids: [] });
  await run('profile', entries);
  const before = await found();
  expect(before).toHaveLength(7);
  for (const part of [entries, entries.slice(20), entries.slice(50)]) await run('profile', part);
  expect(await found()).toEqual(before);
  // A marker change behind all others: once it is published, they are.
  await run('profile', [identified(60, { user_id: 'last' })]);
  const last = await of('user_id', 'last');
  await expect.poll(() => changes.map(({ ucid }) => ucid)).toContain(last?.ucid);
  const told = changes.filter(({ ucid }) => ucid !== last?.ucid);
  const times = new Set(told.map(({ ucid, version }) => `${ucid} ${version}`));
  expect(told).toHaveLength(times.size);
  for (const { ucid, version } of before)
    expect(Math.max(...told.filter((one) => one.ucid === ucid).map((one) => one.version))).toBe(version);
});

it('does not restore a person who was deleted after the event was received', async () => {
  const { run, of, profiles } = await setUpStore();
  const old = identified(0, { user_id: 'u', traits: { age: 30 } });
  await run('profile', [old]);
  await profiles.delete({
    ...SCOPE,
    regions: ['eu'],
    identities: [{ type: 'user_id', value: 'u' }],
    ucids: [],
  });
  await run('profile', [old]);
  expect(await of('user_id', 'u')).toBeUndefined();
  const later = new Date(Date.now() + 1_000).toISOString();
  // Received later, but it happened before the deletion; then an event from after it.
  await run('profile', [identified(1, { user_id: 'u', received_at: later })]);
  expect(await of('user_id', 'u')).toBeUndefined();
  await run('profile', [identified(2, { user_id: 'u', timestamp: later, received_at: later })]);
  expect((await of('user_id', 'u'))?.attributes).toEqual([]);
});

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
