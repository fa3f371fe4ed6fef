import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { competingClaimWrite } from './links.ts';
import { mergeContent } from './merge.ts';
import { MAX_PROFILE_BYTES, type Profile } from './profile.ts';
import { MAX_PROFILE_BOUNDS } from './profile-bounds.ts';
import { applySplit, applyUnlink } from './unlink-split.ts';
import { identity, profile, World, write } from './world.fixture.ts';
import { applyWrite } from './write.ts';

const at = (path: readonly string[], value: string, ts: number) => ({ path, value, ts });
const idsOf = ({ identities }: Profile) => identities.map(({ type, value }) => `${type}:${value}`);

/** The result of a split that must succeed. */
function split(world: World, ucid: string, now?: number) {
  const applied = world.split(ucid, now);
  if (applied.kind === 'refused') throw new Error(applied.reason);
  return { back: applied.apart.profile, left: applied.survivor.profile, applied };
}

describe('a split', () => {
  it('left behind identities that had come with one that it gave back', () => {
    const world = new World();
    world.upsert(write(['user_id:ann', 'cookie:a']));
    world.upsert(write(['user_id:bob', 'cookie:b']));
    for (const [cookie, user] of ['a', 'b'].flatMap((of) => ['cyd', 'dan'].map((user) => [of, user + of])))
      world.upsert(
        competingClaimWrite(write([]), { identity: identity(`cookie:${cookie}`), claimant: String(user) }),
      );
    world.upsert(write(['user_id:ann', 'user_id:bob']));
    const { back, left } = split(world, 'u-00002');
    expect([left.shared, back.shared]).toMatchObject([
      [{ claimants: ['cyda', 'dana'] }],
      [{ claimants: ['cydb', 'danb'] }],
    ]);
  });

  it('is published newer than everything that was published of either, also where the merged one had more versions', () => {
    const busy = profile('u-2', { version: 40 });
    const applied = applyWrite([profile('u-1', { version: 3 }), busy], [], write([]), 1);
    expect(applied).toMatchObject({ kind: 'changed', profile: { version: 41 }, change: { linked: ['u-2'] } });
  });

  it('is refused where nothing is known of the ucid: a merge before origins were kept, or one already split', () => {
    const old = profile('u-1', {
      linked: ['u-2'],
      attributes: [at(['d', 'n'], 'x', 1)],
      identities: [{ ...identity('cookie:1'), ts: 1 }],
    });
    expect(applySplit(old, 'u-2', 2)).toEqual({ kind: 'refused', reason: 'unknown_origin' });
    for (const ucid of ['u-1', 'u-3'])
      expect(applySplit(old, ucid, 2)).toEqual({ kind: 'refused', reason: 'not_merged' });
    // Content merged into such a profile later can be split off; the rest is listed.
    const later = mergeContent(old, profile('u-4', { attributes: [at(['d', 'm'], 'y', 1)] }));
    expect(applySplit(later, 'u-4', 2)).toMatchObject({
      kind: 'split',
      kept: { attributes: [['d', 'n']], identityTypes: ['cookie'] },
    });
  });

  it('names what a merge of 0.2.0 may have lost: the values that only one of the two has', () => {
    const from = 'u-2';
    const old = profile('u-1', {
      linked: ['u-2'],
      identities: [
        { ...identity('cookie:1'), ts: 1, from: 'u-1' },
        { ...identity('cookie:2'), ts: 1, from },
      ],
      attributes: [{ ...at(['d', 'n'], 'x', 5), from: 'u-1' }],
      consents: [{ name: 'ads', value: 'yes', ts: 5, from }],
    });
    const lost = { attributes: [['d', 'n']], preferences: [], consents: ['ads'] };
    expect(applySplit(old, 'u-2', 9)).toMatchObject({ lost });
    const later = applyWrite(
      [old],
      [identity('cookie:1')],
      write(['cookie:1'], { consents: [{ name: 'ads', value: 'no', ts: 7 }] }),
      8,
    );
    if (later.kind !== 'changed') throw new Error(later.kind);
    expect(applySplit(later.profile, 'u-2', 9)).toMatchObject({ lost: { ...lost, consents: [] } });
  });

  it('origins never make a write or an unlink too large: it is done without them, and nothing can be split off', () => {
    const many = (name: string, count: number) =>
      Array.from({ length: count }, (_, n) => at(['d', `${name}${n}`], 'x'.repeat(470), 1));
    const one = profile('018f0000-0000-7000-8000-000000000001', { attributes: many('a', 980) });
    const other = profile('018f0000-0000-7000-8000-000000000002', { attributes: many('b', 970) });
    const applied = applyWrite([one, other], [], write([], { bounds: MAX_PROFILE_BOUNDS }), 1);
    if (applied.kind !== 'changed') throw new Error(applied.kind);
    expect(Buffer.byteLength(JSON.stringify(mergeContent(one, other)))).toBeGreaterThan(MAX_PROFILE_BYTES);
    expect(Buffer.byteLength(applied.text)).toBeLessThanOrEqual(MAX_PROFILE_BYTES);
    expect([applied.profile.linked, applied.text.includes('"from"')]).toEqual([[other.ucid], false]);
    expect(JSON.parse(applied.text)).toEqual(applied.profile);
    expect(applySplit(applied.profile, other.ucid, 2)).toMatchObject({ reason: 'unknown_origin' });

    const ids = Array.from({ length: 400 }, (_, n) => identity(`cookie:${n}`));
    const held = { ...other, attributes: [], identities: ids.map((id) => ({ ...id, ts: 1 })) };
    const wide = mergeContent({ ...one, attributes: many('a', 1_810) }, held);
    expect(Buffer.byteLength(JSON.stringify(wide))).toBeLessThan(MAX_PROFILE_BYTES);
    expect(
      applyUnlink(
        wide,
        { identities: ids.slice(0, 300).concat(ids.map((id) => ({ ...id, type: 'other' }))) },
        2,
      ),
    ).toMatchObject({ kind: 'changed' });
  });

  it('after any writes, splits and events leaves each value with the profile it was written to, and each identity one owner', () => {
    const person = fc.constantFrom(
      'user_id:1',
      'user_id:2',
      'cookie:1',
      'cookie:2',
      'email:1@x.org',
      'email:2@x.org',
    );
    const operation = fc.oneof(
      fc.record({
        kind: fc.constant('write' as const),
        who: fc.uniqueArray(person, { minLength: 1, maxLength: 3 }),
        linking: fc.constantFrom('merge' as const, 'keep-people-apart' as const),
        place: fc.constantFrom('p', 'q'),
        ts: fc.nat(9),
      }),
      fc.record({ kind: fc.constant('split' as const), which: fc.nat(8) }),
    );
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 30 }), (operations) => {
        const world = new World();
        const writtenTo = new Set<string>();
        for (const [n, one] of operations.entries()) {
          const mark = `m${n}`;
          if (one.kind === 'write') {
            const { linking, ts } = one;
            const attributes = [at(['marks', mark], mark, ts), at(['d', one.place], mark, ts)];
            const outcome = world.upsert(write(one.who, { linking, ts, attributes }));
            if (outcome.kind === 'written') writtenTo.add(mark);
          } else {
            const linked = world.profiles.flatMap((each) => each.linked);
            const ucid = linked[one.which % Math.max(1, linked.length)];
            if (ucid !== undefined) world.split(ucid, 10 + n);
          }
        }
        const owned = world.profiles.flatMap(idsOf);
        expect(new Set(owned).size).toBe(owned.length);
        for (const mark of writtenTo) {
          const holders = world.profiles.filter(({ attributes }) =>
            attributes.some(({ path }) => path[1] === mark),
          );
          expect(holders).toHaveLength(1);
        }
        for (const each of world.profiles) {
          const marks = new Set(
            each.attributes.flatMap(({ path }) => (path[0] === 'marks' ? [path[1]] : [])),
          );
          for (const { path, value } of each.attributes)
            if (path[0] === 'd') expect(marks.has(String(value))).toBe(true);
          for (const ucid of each.linked) expect(world.rootOf(ucid)).toBe(each.ucid);
        }
      }),
    );
  });

  it('no event merges split profiles again, whatever joins either meanwhile', () => {
    const of = (type: string) => fc.constantFrom(`${type}:1`, `${type}:2`, `${type}:3`);
    const event = fc.tuple(fc.option(of('user_id')), of('anonymous_id'), fc.option(of('email')));
    fc.assert(
      fc.property(fc.array(event, { maxLength: 20 }), (events) => {
        const world = new World();
        world.upsert(write(['anonymous_id:1', 'email:1']));
        world.upsert(write(['anonymous_id:2']));
        world.upsert(write(['anonymous_id:1', 'anonymous_id:2']));
        split(world, 'u-00002');
        for (const names of events)
          world.upsert(
            write(
              names.flatMap((name) => name ?? []),
              { linking: 'keep-people-apart' },
            ),
          );
        const ownersOf = () =>
          ['anonymous_id:1', 'anonymous_id:2'].map((one) => world.ownerOf(identity(one))?.ucid);
        expect(new Set(ownersOf()).size).toBe(2);
        world.upsert(write(['anonymous_id:1', 'anonymous_id:2']));
        expect(new Set(ownersOf()).size).toBe(1);
      }),
    );
  });
});
