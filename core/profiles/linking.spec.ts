import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type HeldIdentity, MAX_PROFILE_IDENTITIES, type Profile } from './profile.ts';
import type { ProfileWrite } from './profile-store.ts';
import { identity, profile, World, write } from './world.fixture.ts';
import { type IdentityOwner, linkingOf } from './write.ts';

const held = (...texts: readonly string[]): HeldIdentity[] =>
  texts.map((text) => ({ ...identity(text), ts: 1 }));
const many = (count: number): HeldIdentity[] =>
  Array.from({ length: count }, (_, n) => ({ type: 'cookie', value: `c-${n}`, ts: 1 }));
const live = (owner: Profile): IdentityOwner => ({ kind: 'live', profile: owner });
const unowned: IdentityOwner = { kind: 'unowned' };
const apart = { linking: 'keep-people-apart' } as const;

/** Ucids of the linked profiles, admitted identities, and reasons for the others. */
function link(written: ProfileWrite, owners: readonly IdentityOwner[], named?: Profile | 'gone') {
  const linking = linkingOf(written, { owners, named });
  if (linking.kind !== 'linked') return linking.kind === 'detach' ? linking : linking.reason;
  return {
    profiles: linking.profiles.map(({ ucid }) => ucid),
    in: linking.identities.map(({ type, value }) => `${type}:${value}`),
    out: linking.leftOut.map(({ identity: { type, value }, why }) => `${type}:${value} ${why}`),
  };
}

describe('an explicit write', () => {
  it('that would pass the bound of identities is refused', () => {
    const half = profile('1', { identities: many(MAX_PROFILE_IDENTITIES / 2) });
    const rest = profile('2', { identities: many(MAX_PROFILE_IDENTITIES / 2) });
    expect(link(write(['a:1', 'a:2']), [live(half), live(rest)])).toMatchObject({ profiles: ['1', '2'] });
    expect(link(write(['a:1', 'a:2', 'a:3']), [live(half), live(rest), unowned])).toBe('too_many_identities');
    const full = profile('3', { identities: many(MAX_PROFILE_IDENTITIES) });
    expect(link(write(['a:1', 'a:2']), [live(full), live(full)])).toMatchObject({ profiles: ['3'] });
    expect(link(write(['a:1', 'a:2']), [live(full), live(half)])).toBe('too_many_identities');
    expect(link(write(['a:1', 'a:2']), [live(full), unowned])).toBe('too_many_identities');
  });
});

describe('a deleted identity', () => {
  const deleted: IdentityOwner = { kind: 'deleted', at: 50 };

  it('is left out of data that was received before, or in that very millisecond', () => {
    for (const happenedAt of [49, 50]) {
      expect(link(write(['a:1', 'a:2'], { happenedAt }), [deleted, unowned])).toMatchObject({
        in: ['a:2'],
        out: ['a:1 deleted'],
      });
      expect(link(write(['a:1'], { happenedAt }), [deleted])).toBe('nothing_left');
    }
  });

  it('is written again by later data, and by an explicit write', () => {
    expect(link(write(['a:1'], { happenedAt: 51 }), [deleted])).toMatchObject({ profiles: [], in: ['a:1'] });
    expect(link(write(['a:1']), [deleted])).toMatchObject({ profiles: [], in: ['a:1'] });
  });
});

describe('an event', () => {
  const anonymous = profile('1', { identities: held('anonymous_id:a') });
  const ada = profile('2', { identities: held('user_id:ada', 'email:ada@x') });
  const eve = profile('3', { identities: held('user_id:eve', 'anonymous_id:b') });

  it('without a user is about the owner of its first identity', () => {
    const event = write(['anonymous_id:b', 'email:ada@x'], apart);
    expect(link(event, [live(eve), live(ada)])).toEqual({
      profiles: ['3'],
      in: ['anonymous_id:b'],
      out: ['email:ada@x another_person'],
    });
    const joining = write(['anonymous_id:a', 'email:ada@x', 'cellphone:b'], apart);
    expect(
      link(joining, [
        live(anonymous),
        live(ada),
        live({ ...eve, identities: held('user_id:eve', 'cellphone:b') }),
      ]),
    ).toEqual({
      profiles: ['1', '2'],
      in: ['anonymous_id:a', 'email:ada@x'],
      out: ['cellphone:b another_person'],
    });
  });

  it('with a former id of its user merges them, unless the new id was known before', () => {
    const renamed = write(['user_id:new', 'user_id:ada'], apart);
    expect(link(renamed, [unowned, live(ada)])).toEqual({
      profiles: ['2'],
      in: ['user_id:new', 'user_id:ada'],
      out: [],
    });
    expect(link(write(['user_id:eve', 'user_id:ada'], apart), [live(eve), live(ada)])).toEqual({
      profiles: ['3'],
      in: ['user_id:eve'],
      out: ['user_id:ada another_person'],
    });
    const onDevice = write(['user_id:new', 'anonymous_id:b', 'user_id:ada'], apart);
    expect(link(onDevice, [unowned, live(eve), live(ada)])).toEqual({
      profiles: ['2'],
      in: ['user_id:new', 'user_id:ada'],
      out: ['anonymous_id:b another_person'],
    });
  });

  it('parts nothing that 0.2.0 has joined, or that a call named together', () => {
    const late = write(['user_id:kim', 'anonymous_id:tv'], { ...apart, ts: 2, happenedAt: 2, order: 0 });
    const old = profile('u-1', { identities: held('anonymous_id:tv', 'user_id:lee') });
    expect(link(late, [unowned, live(old)])).toMatchObject({ out: ['anonymous_id:tv another_person'] });
    const world = new World();
    world.send(write(['user_id:lee', 'anonymous_id:tv'], { ts: 9 }));
    world.send(late);
    expect(world.ownerOf(identity('anonymous_id:tv'))).toBe(world.ownerOf(identity('user_id:lee')));
  });

  it('of a user who was deleted after it was written to the owner of the same device', () => {
    const event = write(['user_id:gone', 'anonymous_id:b'], { ...apart, happenedAt: 1 });
    expect(link(event, [{ kind: 'deleted', at: 2 }, live(eve)])).toBe('nothing_left');
    expect(link(event, [{ kind: 'deleted', at: 2 }, unowned])).toBe('nothing_left');
  });

  it('without a user is not written when an owner of any of its identities was deleted after it', () => {
    const event = write(['anonymous_id:a', 'email:gone@x'], { ...apart, happenedAt: 1 });
    expect(link(event, [live(anonymous), { kind: 'deleted', at: 2 }])).toBe('nothing_left');
    const known = write(['user_id:ada', 'email:gone@x'], { ...apart, happenedAt: 1 });
    expect(link(known, [live(ada), { kind: 'deleted', at: 2 }])).toMatchObject({
      in: ['user_id:ada'],
      out: ['email:gone@x deleted'],
    });
  });

  it('of before a deletion does not find the profile that was made of the same identity after it', () => {
    const event = write(['user_id:ada'], { ...apart, happenedAt: 1 });
    expect(link(event, [{ kind: 'live', profile: ada, deletedAt: 2 }])).toBe('nothing_left');
    expect(link({ ...event, happenedAt: 3 }, [{ kind: 'live', profile: ada, deletedAt: 2 }])).toMatchObject({
      profiles: ['2'],
    });
  });
});

describe('whatever is written', () => {
  const value = fc.constantFrom('1', '2', '3', '4');
  const explicit = fc
    .uniqueArray(fc.tuple(fc.constantFrom('user_id', 'anonymous_id', 'email'), value), {
      minLength: 1,
      maxLength: 3,
      selector: (pair) => pair.join(),
    })
    .map((pairs) => write(pairs.map((pair) => pair.join(':'))));
  const event = fc.tuple(fc.option(value), value, fc.option(value)).map(([user, device, email]) =>
    write(
      [user && `user_id:${user}`, `anonymous_id:${device}`, email && `email:${email}`].filter(
        (text): text is string => text !== null,
      ),
      apart,
    ),
  );

  it('no event brings an identity back to the profile that it was taken away from, whatever joins meanwhile', () => {
    const taken = fc.tuple(fc.constantFrom('user_id', 'anonymous_id', 'email'), value);
    const before = fc.array(fc.oneof(explicit, event), { minLength: 2, maxLength: 8 });
    fc.assert(
      fc.property(before, taken, fc.array(event, { maxLength: 15 }), (writes, [type, text], events) => {
        const world = new World();
        for (const each of writes) world.upsert(each);
        const from = world.unlink({ type, value: text });
        for (const each of events) world.upsert(each);
        const all = world.profiles.flatMap(({ identities }) => identities);
        expect(new Set(all.map((one) => `${one.type}:${one.value}`)).size).toBe(all.length);
        const now = world.profiles.find(({ ucid }) => from !== undefined && ucid === world.rootOf(from.ucid));
        expect(now?.identities.some((one) => one.type === type && one.value === text)).not.toBe(true);
      }),
    );
  });
});
