import { describe, expect, it } from 'vitest';
import { freshProfile } from './merge.ts';
import type { Profile } from './profile.ts';
import { DEFAULT_PROFILE_BOUNDS, MAX_PROFILE_BOUNDS } from './profile-bounds.ts';
import type { ProfileWrite } from './profile-store.ts';
import { profile, SCOPE, World, write } from './world.fixture.ts';
import { applyWrite } from './write.ts';

const BOUNDS = { values: 20, bytes: 8_192 };
const named = (count: number, value: string) =>
  Array.from({ length: count }, (_, n) => ({ path: ['d', `n${n}`], value }));
const apply = (held: Profile, changes: Partial<ProfileWrite>, now = 9) => {
  const written = write(['crm:a'], { bounds: BOUNDS, ...changes });
  return applyWrite([held], written.identities, written, now);
};
const made = (changes: Partial<ProfileWrite>): Profile => {
  const applied = apply(freshProfile(SCOPE, 'u-1', 1), changes);
  if (applied.kind !== 'changed') throw new Error(applied.kind);
  return applied.profile;
};

describe('the bounds of a profile', () => {
  it('count unset attributes too, which are kept: a profile could be filled with them', () => {
    const unset = named(20, '').map((one) => ({ ...one, value: null, unset: true as const }));
    const held = made({ attributes: unset });
    expect(apply(held, { attributes: [{ path: ['d', 'x'], value: 1 }] })).toMatchObject({
      excess: { of: 'values', size: 21, limit: 20, ucid: 'u-1' },
    });
    expect(apply(held, { attributes: named(20, 'again') }).kind).toBe('changed');
  });

  it('name no profile where the write would have made it', () => {
    const refused = apply(freshProfile(SCOPE, 'u-1', 1), { attributes: named(21, 'x') });
    expect(refused).toEqual({
      kind: 'refused',
      reason: 'too_large',
      excess: { of: 'values', size: 21, limit: 20 },
    });
  });

  it('leave a larger profile its writes, as long as it does not grow, however its times and version do', () => {
    let held: Profile = {
      ...made({ attributes: named(18, 'x'.repeat(600)), bounds: MAX_PROFILE_BOUNDS }),
      version: 9,
    };
    for (const now of [10, 1_000, 100_000]) {
      const applied = apply(
        held,
        { attributes: [{ path: ['d', 'n3'], value: `${now}`.padEnd(600), order: now }], ts: now },
        now,
      );
      if (applied.kind !== 'changed') throw new Error(applied.kind);
      held = applied.profile;
    }
    expect(
      apply(held, { attributes: [{ path: ['d', 'n3'], value: 'y'.repeat(601) }], ts: 1e6 }),
    ).toMatchObject({
      excess: { of: 'bytes', limit: 8_192 },
    });
    expect(apply(held, { attributes: [{ path: ['d', 'n3'], value: 'y' }], ts: 1e6 }).kind).toBe('changed');
  });

  it('bound a single value, but for one that is there already', () => {
    const bounds = DEFAULT_PROFILE_BOUNDS;
    const limit = bounds.bytes / 4;
    const large = 'x'.repeat(limit);
    const value = { path: ['d', 'n'], value: { deep: [large] } };
    expect(apply(profile('u-1'), { bounds, attributes: [value] })).toMatchObject({
      excess: { of: 'value_bytes', limit },
    });
    const held = profile('u-1', { attributes: [{ ...value, ts: 1 }] });
    expect(apply(held, { bounds, attributes: [{ path: ['d', 'm'], value: 1 }] }).kind).toBe('changed');
  });

  it('do not count origins, which a merge adds to every value', () => {
    const world = new World();
    const bounds = { values: 300, bytes: 24_000 };
    const half = (name: string) =>
      Array.from({ length: 125 }, (_, n) => ({ path: [name, `n${n}`], value: 'x'.repeat(10) }));
    for (const name of ['a', 'b']) world.upsert(write([`crm:${name}`], { bounds, attributes: half(name) }));
    expect(world.upsert(write(['crm:a', 'crm:b'], { bounds })).kind).toBe('written');
    const [merged] = world.profiles;
    expect(JSON.stringify(merged).length).toBeGreaterThan(0);
    expect(merged?.attributes.every(({ from }) => from !== undefined)).toBe(true);
  });

  it('leave room for the users that share an identity of a full profile', () => {
    const held = made({ attributes: named(19, 'x'.repeat(376)) });
    expect(JSON.stringify(held).length).toBeGreaterThan(BOUNDS.bytes - 150);
    expect(apply(held, { claimedBy: 'some-user', attributes: [] }).kind).toBe('changed');
  });
});
