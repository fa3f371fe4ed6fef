import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { IdentityLimits } from './identity/identity-limits.ts';
import { competingClaimWrite, isSetAside } from './links.ts';
import { identity, mergeProfiles, profile, World, write } from './world.fixture.ts';

const limits: IdentityLimits = { types: [], user_ids: 3 };
const event = { linking: 'keep-people-apart', limits } as const;

describe('an identity of many users', () => {
  const shared = identity('email:lobby@hotel.example');
  const guests = (world: World, count: number) => {
    for (let n = 0; n < count; n++)
      world.send(write([`user_id:guest-${n}`, 'email:lobby@hotel.example'], { ...event, ts: n }));
  };

  it('stayed with the first one for good, with all events that had no user_id', () => {
    const world = new World();
    guests(world, 4);
    const owner = world.ownerOf(shared);
    expect(owner && isSetAside(owner, shared, limits)).toBe(true);
    const late = world.send(write(['anonymous_id:d', 'email:lobby@hotel.example'], event));
    expect(late).toMatchObject({ leftOut: [{ identity: shared, why: 'shared', owner: owner?.ucid }] });
    expect(world.ownerOf(identity('anonymous_id:d'))?.ucid).not.toBe(owner?.ucid);
    // Events of all users are still written; those of the owner with all their identities.
    expect(world.send(write(['user_id:guest-9', 'email:lobby@hotel.example'], event))).toMatchObject({
      kind: 'written',
    });
    const own = world.send(write(['user_id:guest-0', 'email:lobby@hotel.example'], event));
    expect(own).toMatchObject({ profile: { ucid: owner?.ucid }, leftOut: [] });
  });

  it('up to the bound merges as before, and repeated users count once', () => {
    const world = new World();
    for (let again = 0; again < 5; again++) guests(world, 3);
    expect(world.send(write(['anonymous_id:d', 'email:lobby@hotel.example'], event))).toMatchObject({
      profile: { ucid: world.ownerOf(shared)?.ucid },
      leftOut: [],
    });
  });

  it('merged all of them into one by explicit writes; past the bound they are refused, and it is marked as shared', () => {
    const world = new World();
    const merge = (user: string) =>
      world.upsert(write([`user_id:${user}`, 'email:lobby@hotel.example'], { limits }));
    for (const user of ['a', 'b', 'c']) expect(merge(user).kind).toBe('written');
    const refused = merge('d');
    expect(refused).toMatchObject({
      reason: 'shared_identity',
      identities: [shared],
      competingClaims: [{ identity: shared }],
    });
    expect(world.ownerOf(identity('user_id:d'))).toBeUndefined();
    if (refused.kind === 'refused')
      for (const claim of refused.competingClaims ?? [])
        world.upsert(competingClaimWrite(write([], { limits }), claim));
    const owner = world.ownerOf(shared);
    expect(owner && isSetAside(owner, shared, limits)).toBe(true);
    expect(merge('e')).toMatchObject({
      reason: 'shared_identity',
      identities: [shared],
      competingClaims: [],
    });
    // Values of the one profile are still written.
    expect(merge('b').kind).toBe('written');
    expect(world.upsert(write(['email:lobby@hotel.example'], { limits })).kind).toBe('written');
    expect(world.upsert(write(['user_id:e', 'cookie:e'], { limits })).kind).toBe('written');
  });

  it('by several that join two crowds is refused, whatever their order', () => {
    for (const order of [0, 1]) {
      const world = new World();
      world.upsert(write(['user_id:a', 'user_id:b', 'cookie:1'], { limits }));
      world.upsert(write(['user_id:c', 'user_id:d', 'cookie:2'], { limits }));
      const both = order === 0 ? ['cookie:1', 'cookie:2'] : ['cookie:2', 'cookie:1'];
      expect(world.upsert(write(both, { limits }))).toMatchObject({
        reason: 'shared_identity',
        identities: both.map(identity),
      });
      expect(world.profiles).toHaveLength(2);
    }
  });

  it('starts again where it is unlinked, and is never a user_id', () => {
    const world = new World();
    guests(world, 4);
    expect(world.unlink(shared)?.shared).toBeUndefined();
    const world2 = new World();
    for (const user of ['a', 'b', 'c', 'd', 'e'])
      world2.upsert(write([`user_id:${user}`, 'user_id:x'], { limits }));
    expect(world2.upsert(write(['user_id:x', 'anonymous_id:n'], event))).toMatchObject({
      kind: 'written',
      leftOut: [],
    });
  });

  it('is the same in every order of events and folds, and with events that come twice', () => {
    const users = fc.array(fc.constantFrom('a', 'b', 'c', 'd', 'e'), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(users, (list) => {
        const world = new World();
        for (const user of ['first', ...list, ...list])
          world.send(write([`user_id:${user}`, 'email:lobby@hotel.example'], event));
        const owner = world.ownerOf(shared);
        const different = new Set(['first', ...list]).size;
        expect(owner && isSetAside(owner, shared, limits)).toBe(different > 3);
        const other = profile('z', { identities: [{ ...identity('cookie:z'), ts: 1 }] });
        if (owner === undefined) return;
        const merged = mergeProfiles(owner, other, 1);
        expect(isSetAside(merged, shared, limits)).toBe(different > 3);
        expect(isSetAside(mergeProfiles(profile('0'), owner, 1), shared, limits)).toBe(different > 3);
        expect(mergeProfiles(merged, other, 1)).toBe(merged);
      }),
    );
  });
});
