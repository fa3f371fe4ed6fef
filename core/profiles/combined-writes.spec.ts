import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { combinable, combined, type WriteOfEvent } from './event-write.ts';
import { identityKey } from './identity/identity.ts';
import type { NewAttribute } from './profile.ts';
import type { ProfileWrite } from './profile-store.ts';
import { SCOPE, World } from './world.fixture.ts';

const identity = fc.record({
  type: fc.constantFrom('user_id', 'anonymous_id', 'email'),
  value: fc.constantFrom('a', 'b'),
});
const write = fc
  .record({
    identities: fc.uniqueArray(identity, { minLength: 1, maxLength: 3, selector: ({ type }) => type }),
    attributes: fc.array(
      fc.record({
        path: fc.constantFrom(['traits', 'x'], ['traits', 'y'], ['groups', 'g'], ['groups', 'g', 'x']),
        value: fc.constantFrom(1, 2, {}, 'z'),
        order: fc.constantFrom(3, 4),
      }),
      { maxLength: 3 },
    ),
    ts: fc.constantFrom(10, 20),
  })
  .map(({ identities, attributes, ts }): ProfileWrite => {
    const order = ['user_id', 'anonymous_id', 'email'];
    const told = [...identities].sort((a, b) => order.indexOf(a.type) - order.indexOf(b.type));
    return {
      ...SCOPE,
      identities: told,
      attributes,
      preferences: [],
      consents: [],
      ts,
      receivedAt: ts,
      happenedAt: ts,
      linking: 'keep-people-apart',
    };
  });

/** All readable content, without versions. */
function found(world: World): readonly unknown[] {
  return world.profiles
    .map(({ ucid, identities, attributes, linked }) => ({ ucid, identities, attributes, linked }))
    .sort((a, b) => (a.ucid < b.ucid ? -1 : 1));
}

/** The same write with values at another path. */
function rotated(attributes: readonly NewAttribute[], by: number): readonly NewAttribute[] {
  return attributes.map(({ path, ...others }, i) => ({
    ...others,
    path,
    value: attributes[(i + by) % attributes.length]?.value ?? by,
  }));
}

function eventsOf(writes: readonly ProfileWrite[]): readonly WriteOfEvent[] {
  return writes.map((one, index) => ({ messageId: `m${index}`, write: one }));
}

describe('writes of events that are combined', () => {
  it('come to the same profiles as one after the other, whichever existed and were deleted', () => {
    const deletions = fc.array(fc.tuple(identity, fc.constantFrom(5, 10, 15, 20)), { maxLength: 4 });
    let combinedAny = 0;
    fc.assert(
      fc.property(
        fc.array(write, { maxLength: 6 }),
        fc.array(fc.tuple(write, fc.constantFrom(1, 1, 2, 3)), { minLength: 1, maxLength: 4 }),
        deletions,
        (before, runs, deleted) => {
          const writes = runs.flatMap(([one, times]) =>
            Array.from({ length: times }, (_, i) => ({ ...one, attributes: rotated(one.attributes, i) })),
          );
          const gone = new Map(deleted.map(([one, at]) => [identityKey(one), at]));
          const [single, together] = [new World(gone), new World(gone)];
          for (const one of before) for (const store of [single, together]) store.upsert(one);
          for (const one of writes) single.upsert(one);
          const groups = combinable(eventsOf(writes));
          combinedAny += writes.length - groups.length;
          for (const [first, ...others] of groups)
            if (first !== undefined)
              together.upsert(
                combined(
                  first.write,
                  others.map((other) => other.write),
                ),
              );
          expect(found(together)).toEqual(found(single));
        },
      ),
      { numRuns: 2_000 },
    );
    expect(combinedAny).toBeGreaterThan(500);
  });

  it('stay apart where they name others, or came in another moment', () => {
    const one = { type: 'user_id', value: 'u' };
    const base: ProfileWrite = {
      ...SCOPE,
      identities: [one],
      attributes: [],
      preferences: [],
      consents: [],
      ts: 1,
      receivedAt: 1,
      happenedAt: 1,
      linking: 'keep-people-apart',
    };
    const sizes = (...writes: readonly ProfileWrite[]) =>
      combinable(eventsOf(writes)).map(({ length }) => length);
    expect(sizes(base, base, base)).toEqual([3]);
    expect(sizes(base, { ...base, ts: 2, receivedAt: 2 }, base)).toEqual([1, 1, 1]);
    expect(sizes(base, { ...base, identities: [{ type: 'anonymous_id', value: 'u' }] })).toEqual([1, 1]);
    expect(sizes(base, { ...base, region: 'us' })).toEqual([1, 1]);
    const many = Array.from({ length: 600 }, (_, i) => ({ path: ['traits', `t${i}`], value: i }));
    expect(sizes({ ...base, attributes: many }, { ...base, attributes: many }, base)).toEqual([1, 2]);
    expect(combinable([])).toEqual([]);
  });
});
