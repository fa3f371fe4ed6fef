import { hash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { freshProfile } from './merge.ts';
import { MAX_PROFILE_IDENTITIES, type NewAttribute, type Profile } from './profile.ts';
import { DEFAULT_PROFILE_BOUNDS, MAX_PROFILE_BOUNDS } from './profile-bounds.ts';
import type { ProfileWrite } from './profile-store.ts';
import { attributeTree, withoutOrigins } from './registers.ts';
import { mergeProfiles, profile, SCOPE, World, write } from './world.fixture.ts';
import { applyWrite } from './write.ts';

const NOW = 1_000;

function apply(profiles: readonly [Profile, ...Profile[]], written: ProfileWrite, now = NOW) {
  return applyWrite(profiles, written.identities, written, now);
}

function changed(profiles: readonly [Profile, ...Profile[]], written: ProfileWrite, now = NOW) {
  const applied = apply(profiles, written, now);
  if (applied.kind !== 'changed') throw new Error(applied.kind);
  return applied;
}

const fresh = (ucid = 'u-1') => freshProfile(SCOPE, ucid, NOW);
const named = (name: string, value: string, ts?: number) => ({
  name,
  value,
  ...(ts === undefined ? {} : { ts }),
});

const attributes = (count: number, category = 'c') =>
  Array.from({ length: count }, (_, n) => ({ path: [category, `${n}`], value: 1 }));
const preferences = (count: number) => Array.from({ length: count }, (_, n) => named(`${n}`, 'y'));

describe('applyWrite', () => {
  describe('lost an edit that was written back at the time the record showed, by the alphabet', () => {
    const held = changed(
      [fresh()],
      write(['email:a@x'], {
        attributes: [
          { path: ['home', 'city'], value: 'Zug' },
          { path: ['home', 'floor'], value: 8, order: 4 },
          { path: ['home', 'lift'], value: true },
        ],
        consents: [named('terms', 'yes', 5)],
        ts: 5,
      }),
    ).profile;
    const at5 = (attributes: readonly NewAttribute[]) =>
      write(['email:a@x'], { attributes: attributes.map((attribute) => ({ ...attribute, ts: 5 })) });

    it.each([
      [['home', 'city'], 'Basel'],
      [['home', 'floor'], 12],
      [['home', 'lift'], false],
      [['home', 'city'], null],
    ])('%j to %j', (path, value) => {
      const after = changed([held], at5([{ path, value }])).profile;
      expect(after.attributes.find((one) => one.path[1] === path[1])).toMatchObject({ value, ts: 5 });
    });

    it('of a value that an event wrote, which its replay does not bring back', () => {
      const path = ['home', 'floor'];
      const after = changed([held], at5([{ path, value: 3 }])).profile;
      const replay = at5([{ path, value: 8, order: 4 }]);
      expect(apply([after], replay)).toMatchObject({ kind: 'unchanged' });
    });

    it('and back again; the same value once more changes nothing', () => {
      const there = changed([held], at5([{ path: ['home', 'city'], value: 'Basel' }])).profile;
      const back = changed([there], at5([{ path: ['home', 'city'], value: 'Zug' }])).profile;
      expect(back.attributes[0]).toEqual({ path: ['home', 'city'], value: 'Zug', ts: 5, order: 1 });
      const same = at5([{ path: ['home', 'city'], value: 'Zug' }]);
      expect(apply([back], same)).toMatchObject({ kind: 'unchanged' });
    });

    it('to nothing, and an unset attribute back to a value at the time that the record shows', () => {
      const path = ['home', 'floor'];
      const gone = changed([held], at5([{ path, value: null, unset: true }])).profile;
      expect(attributeTree(gone.attributes)).toEqual({ home: { city: 'Zug', lift: true } });
      expect(apply([gone], at5([{ path, value: 8, order: 4 }]))).toMatchObject({ kind: 'unchanged' });
      const back = changed([gone], at5([{ path, value: 8 }])).profile;
      expect(attributeTree(back.attributes)).toMatchObject({ home: { floor: 8 } });
    });

    it('of a consent', () => {
      const after = changed([held], write(['email:a@x'], { consents: [named('terms', 'no', 5)] })).profile;
      expect(after.consents).toEqual([{ name: 'terms', value: 'no', ts: 5, order: 0 }]);
    });
  });

  it('advances version and time with every change, whatever the clock shows', () => {
    const { profile: made } = changed([fresh()], write(['email:a@x']));
    const { profile: next } = changed([made], write(['email:a@x', 'cookie:c']), NOW - 500);
    expect([next.version, next.updated_ts, next.created_ts]).toEqual([2, NOW + 1, NOW]);
  });

  it('without a time stamps its values later than those it replaces, and identities with now', () => {
    const { ts: _, ...now } = write(['email:a@x'], { attributes: [{ path: ['d', 'n'], value: 1 }] });
    const { profile: made } = changed([fresh()], {
      ...now,
      attributes: [{ path: ['d', 'n'], value: 1, ts: NOW + 50 }],
    });
    const { profile: next } = changed([made], now, NOW + 2);
    expect(next.attributes.map(({ ts }) => ts)).toEqual([NOW + 51]);
    expect(next.identities.map(({ ts }) => ts)).toEqual([NOW + 2]);
  });

  it('keeps the address of an e-mail that is known by its hash as well', () => {
    const hashed = `email_sha256_lowercase:${hash('sha256', 'a@x')}`;
    const { profile: made } = changed([fresh()], write([hashed], { ts: 9 }));
    const { profile: plain } = changed([made], write(['email:a@x'], { ts: 3 }));
    expect(plain.identities).toEqual([{ type: 'email', value: 'a@x', ts: 9 }]);
    expect(apply([plain], write([hashed], { ts: 9 })).kind).toBe('unchanged');
  });

  it('refuses to pass a bound, and changes nothing then', () => {
    const cookies = (count: number) => Array.from({ length: count }, (_, n) => `cookie:${n}`);
    const { profile: full } = changed([fresh()], write(cookies(MAX_PROFILE_IDENTITIES)));
    expect(apply([full], write(['crm:a']))).toEqual({ kind: 'refused', reason: 'too_many_identities' });
    const heavy = (bytes: number) =>
      write(['email:a@x'], {
        attributes: [0, 1, 2, 3, 4].map((n) => ({ path: ['d', `${n}`], value: 'é'.repeat(bytes / 10) })),
      });
    const { bytes } = DEFAULT_PROFILE_BOUNDS;
    expect(apply([fresh()], heavy(bytes))).toMatchObject({ kind: 'refused', reason: 'too_large' });
    expect(apply([fresh()], heavy(bytes - 1_000)).kind).toBe('changed');
  });

  // Comparing each pair would take four times the time limit of a test.
  it('writes as many attributes and preferences as fit, again and again, without comparing each with each', () => {
    const { ts: _, ...many } = write(['email:a@x'], {
      attributes: attributes(12_000),
      preferences: preferences(8_000),
      bounds: MAX_PROFILE_BOUNDS,
    });
    let { profile: held } = changed([fresh()], many);
    for (let again = 0; again < 4; again++) held = changed([held], many).profile;
    expect([held.attributes.length, held.preferences.length]).toEqual([12_000, 8_000]);
    expect(held.attributes.every(({ ts }) => ts === NOW + 4)).toBe(true);
    expect(held.preferences.every(({ ts }) => ts === NOW + 4)).toBe(true);
  });

  it('refuses what cannot fit before it merges it, be it written or folded in', () => {
    const refused = { kind: 'refused', reason: 'too_large' };
    expect(apply([fresh()], write(['email:a@x'], { attributes: attributes(40_000) }))).toMatchObject(refused);
    const heavy = (ucid: string) =>
      profile(ucid, { attributes: attributes(20_000, ucid).map((one) => ({ ...one, ts: 1 })) });
    const unread = {
      ...profile('u-4'),
      get attributes(): never {
        throw new Error('nobody asks any more');
      },
    };
    const others = [heavy('u-2'), heavy('u-3'), unread];
    expect(apply([fresh(), ...others], write(['email:a@x']))).toMatchObject(refused);
  });
});

describe('the content of profiles', () => {
  const timeOf = (value: string, ts: number) => 3 * ts + 'xyz'.indexOf(value);
  const written = fc
    .record({
      who: fc.subarray(['a', 'b', 'c', 'd'], { minLength: 1, maxLength: 3 }),
      path: fc.constantFrom(['d'], ['d', 'n'], ['d', 'm'], ['e', 'n']),
      name: fc.constantFrom('mail', 'calls'),
      value: fc.constantFrom('x', 'y', 'z'),
      ts: fc.nat(6),
    })
    .map(({ who, path, name, value, ts }) =>
      write(
        who.map((one) => `cookie:${one}`),
        {
          // Among explicit writes at one time the last one wins, unless a value has an order.
          attributes: [{ path, value, order: 0 }],
          preferences: [named(name, value, timeOf(value, ts))],
          consents: [named(name, value, timeOf(value, ts))],
          ts,
        },
      ),
    );
  const shuffled = fc
    .array(written, { maxLength: 10 })
    .chain((writes) =>
      fc.tuple(fc.constant(writes), fc.shuffledSubarray(writes, { minLength: writes.length })),
    );
  const worldOf = (writes: readonly ProfileWrite[]) => {
    const world = new World();
    for (const each of writes) world.upsert(each);
    return world;
  };
  /** Without origins, which depend on the order of writes and merges. */
  const contentOf = (profile: Profile) => {
    const { identities, attributes, preferences, consents } = withoutOrigins(profile);
    return { identities, attributes, preferences, consents };
  };

  it('is the same whatever the order of the writes', () => {
    fc.assert(
      fc.property(shuffled, ([writes, others]) => {
        const contents = (world: World) => world.profiles.map((one) => JSON.stringify(contentOf(one))).sort();
        expect(contents(worldOf(others))).toEqual(contents(worldOf(writes)));
      }),
    );
  });

  it('is folded once: again changes nothing, and the order of the folded does not matter', () => {
    fc.assert(
      fc.property(fc.array(written, { maxLength: 6 }), fc.array(written, { maxLength: 6 }), (left, right) => {
        const start = write(['cookie:a', 'cookie:b', 'cookie:c', 'cookie:d'], { ts: 0 });
        const made = (writes: readonly ProfileWrite[], ucid: string) => {
          const one = worldOf([start, ...writes]).profiles[0];
          if (one === undefined) throw new Error('nothing was made');
          return { ...one, ucid };
        };
        const [a, b, c] = [made([], 'a'), made(left, 'b'), made(right, 'c')];
        const once = mergeProfiles(mergeProfiles(a, b, NOW), c, NOW);
        expect(mergeProfiles(once, c, NOW + 1)).toBe(once);
        expect(mergeProfiles(once, b, NOW + 1)).toBe(once);
        const otherwise = mergeProfiles(mergeProfiles(a, c, NOW), b, NOW);
        expect({ ...otherwise, updated_ts: 0 }).toEqual({ ...once, updated_ts: 0 });
        expect(mergeProfiles(a, mergeProfiles(b, c, NOW), NOW).attributes).toEqual(once.attributes);
      }),
    );
  });
});
