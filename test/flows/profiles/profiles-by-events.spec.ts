import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ProfileChangeValue, type ProfileRecord, TOPIC } from '@tributary/core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { entriesOf } from '../../helpers/log-of.ts';
import { openProfiles, type ProfileOrganization, sendTo } from '../../helpers/profile-client.ts';
import { drained } from '../../helpers/running-tributary.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';

const KILLS = process.env.TRIBUTARY_TEST_LONG === undefined ? 1 : 10;

/** A name used by no other test of this file. */
const fresh = (name: string) => `${name}.${randomUUID()}`;

/** Identify and group events become profiles; people are told apart with care. */
describe('Profiles by events', () => {
  let tributary: Tributary;
  let organization: ProfileOrganization;
  const open = async () => {
    const { owner, workspaceId, url } = tributary;
    organization = await openProfiles(owner, workspaceId, sendTo(url));
  };
  beforeAll(async () => {
    tributary = await startTributary();
    await open();
  });
  afterAll(() => tributary.remove());

  /** Sends events one after the other and waits until each stage has processed them. */
  async function send(...events: readonly (readonly [type: string, body: object])[]): Promise<void> {
    for (const [type, body] of events) await tributary.producer.post(`./events/${type}`, body);
    await drained(tributary, 30_000);
  }

  async function one(type: string, value: string): Promise<ProfileRecord> {
    const [found, ...others] = await organization.client.search({ [type]: [value] });
    if (found === undefined || others.length > 0) throw new Error(`not one profile has this ${type}`);
    return found;
  }
  const valuesOf = ({ ids }: ProfileRecord, namespace: string) =>
    ((ids[namespace] ?? []) as readonly Readonly<Record<string, string>>[]).map((item) => item[namespace]);

  it('a shared device and a shared e-mail address never merge two people', async () => {
    const [ann, bob, device] = [fresh('ann'), fresh('bob'), fresh('tablet')];
    const email = `${fresh('family')}@example.com`;
    await send(['identify', { user_id: ann, anonymous_id: device, traits: { email, name: 'Ann' } }]);
    await send(['identify', { user_id: bob, anonymous_id: device, traits: { email, name: 'Bob' } }]);
    await send(['identify', { anonymous_id: device, traits: { email, seen: 'tonight' } }]);
    await send(['identify', { user_id: bob, anonymous_id: fresh('phone'), traits: { email } }]);
    const [first, second] = [await one('user_id', ann), await one('user_id', bob)];
    expect(first.ucid).not.toBe(second.ucid);
    expect(first.profile).toMatchObject({ traits: { name: 'Ann', email, seen: 'tonight' } });
    expect(second.profile).toMatchObject({ traits: { name: 'Bob', email } });
    expect([valuesOf(first, 'user_id'), valuesOf(second, 'user_id')]).toEqual([[ann], [bob]]);
    // A shared identity belongs to the person seen with it first.
    for (const [type, value] of [
      ['anonymous_id', device],
      ['email', email],
    ] as const)
      expect((await one(type, value)).ucid).toBe(first.ucid);
    // An explicit write by the client merges the two.
    const together = await organization.client.write({ user_id: ann, email: `${bob}@example.com` });
    expect(together.ucid).toBe(first.ucid);
  });

  it('an event of the environment development writes no profile', async () => {
    const user = fresh('user');
    await send(['identify', { user_id: user, traits: { name: 'Ann' } }]);
    const before = await one('user_id', user);
    const { key } = await tributary.owner.post<{ key: string }>('./event-keys', {
      name: 'test',
      environment: 'development',
    });
    const developer = tributary.owner.with({ token: key });
    await developer.post('./events/identify', { user_id: user, traits: { name: 'Test' } });
    await drained(tributary, 30_000);
    expect(await one('user_id', user)).toEqual(before);
  });

  it('an event without an accepted identity creates no profile', async () => {
    const user = fresh('user');
    await send(
      ['identify', { user_id: 'anonymous', traits: { email: 'n/a' } }],
      ['identify', { user_id: user, anonymous_id: '0', traits: { email: 'test', phone: 4711 } }],
    );
    expect(Object.keys((await one('user_id', user)).ids)).toEqual(['user_id']);
    for (const placeholder of ['anonymous', 'ANONYMOUS'])
      expect(
        await organization.client.call('/_search', { regions: ['eu'], search: { user_id: [placeholder] } }),
      ).toMatchObject({ status: 200, body: [] });
  });

  it('a deleted profile is created again only by events received after the deletion', async () => {
    const user = fresh('user');
    await send(['identify', { user_id: user, traits: { old: 'yes' } }]);
    const { ucid } = await one('user_id', user);
    expect(await organization.client.delete({ user_id: [user] })).toMatchObject({ deletedProfiles: [ucid] });
    expect(await organization.client.search({ user_id: [user] })).toEqual([]);
    await send(['identify', { user_id: user, traits: { anew: 'yes' } }]);
    const back = await one('user_id', user);
    expect(back.ucid).not.toBe(ucid);
    expect(back.profile).toEqual({ traits: { anew: 'yes', _ts: expect.any(String) } });
  });

  it(`a stage that is killed (${KILLS}x) while it writes has written each event exactly once`, async () => {
    const users = Array.from({ length: 200 }, (_, i) => fresh(`killed${i}`));
    for (let kill = 0; kill < KILLS; kill++) {
      const batch = users.flatMap((user_id, i) => [
        { type: 'identify', user_id, traits: { [`number${kill}`]: i } },
        { type: 'group', user_id, group_id: `g${kill}` },
      ]);
      await tributary.producer.post('./events/batch', { batch });
      // At a random point of the batch: some writes are not covered by a committed position yet, and are
      // repeated.
      await sleep(Math.random() * 300);
      await tributary.kill();
      tributary = await startTributary({ folder: tributary.folder });
      await open();
    }
    await drained(tributary, 30_000);
    const found = await organization.client.search({ user_id: users });
    expect(found).toHaveLength(200);
    const kills = Array.from({ length: KILLS }, (_, kill) => kill);
    for (const record of found) {
      const number = users.indexOf(valuesOf(record, 'user_id')[0] ?? '');
      expect(record.profile).toMatchObject({
        traits: Object.fromEntries(kills.map((kill) => [`number${kill}`, number])),
        groups: Object.fromEntries(kills.map((kill) => [`g${kill}`, {}])),
      });
    }
    // Two events a round: repeated events did not create more versions.
    const ucids = new Set(found.map(({ ucid }) => ucid));
    const versions = (await entriesOf(tributary, TOPIC.profileChanges))
      .map(({ value }) => JSON.parse(value) as ProfileChangeValue)
      .filter(({ ucid }) => ucids.has(ucid))
      .map(({ version }) => version);
    expect(Math.max(...versions)).toBeLessThanOrEqual(2 * KILLS);
  }, 300_000);
});
