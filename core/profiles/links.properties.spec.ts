import fc from 'fast-check';
import { expect, it } from 'vitest';
import { refOf } from './links.ts';
import type { ProfileWrite } from './profile-store.ts';
import { compareText } from './registers.ts';
import { claimsOf, identity, SCOPE, World, write } from './world.fixture.ts';

/** An event: `names[0]` is what it is about. `order`: its offset. */
interface Event {
  readonly names: readonly string[];
  readonly previous: string | undefined;
  readonly ts: number;
  readonly order: number;
  readonly n: number;
}

const id = fc.constantFrom('1', '2', '3');
const optional = (freq: number) => fc.option(id, { nil: undefined, freq });
const log = fc
  .array(
    fc.record({
      user: optional(3),
      device: optional(3),
      email: optional(2),
      previous: optional(2),
      ts: fc.integer({ min: 1, max: 4 }),
    }),
    { minLength: 2, maxLength: 10 },
  )
  .map((all) => {
    // The offsets of two partitions are of the same numbers.
    const offsets = [0, 0];
    return all.flatMap(({ user, device, email, previous, ts }, n): readonly Event[] => {
      const subject = user ?? device;
      if (subject === undefined) return [];
      const names = [
        ...(user === undefined ? [] : [`user_id:${user}`]),
        ...(device === undefined ? [] : [`anonymous_id:${device}`]),
        ...(email === undefined ? [] : [`email:${email}`]),
      ];
      const isAlias = user !== undefined && previous !== user && previous !== device;
      const partition = Number(subject) % 2;
      const order = offsets[partition] ?? 0;
      offsets[partition] = order + 1;
      return [{ names, previous: isAlias ? previous : undefined, ts, order, n }];
    });
  });

/** All that the event names, itself first. */
function namesOf({ names, previous }: Event): readonly string[] {
  return previous === undefined ? names : [...names, `user_id:${previous}`, `anonymous_id:${previous}`];
}

function registerOf({ names, n }: Event): readonly [name: string, value: string] {
  return [`n${n % 3}`, `${n} by ${names[0]}`];
}

function writeOf(event: Event): ProfileWrite {
  const { names, previous, ts, order } = event;
  const [name, value] = registerOf(event);
  return write(names, {
    linking: 'keep-people-apart',
    ts,
    happenedAt: ts,
    order,
    attributes: [{ path: [name], value, order }],
    ...(previous === undefined
      ? {}
      : {
          previousIdentity: {
            asUser: identity(`user_id:${previous}`),
            asDevice: identity(`anonymous_id:${previous}`),
          },
        }),
  });
}

/** What is compared of a profile: its identities with the times of their last naming, and its values. */
function shown(
  identities: readonly (readonly [string, number])[],
  values: Readonly<Record<string, unknown>>,
) {
  const sorted = (all: readonly (readonly [string, unknown])[]) =>
    all.toSorted(([one], [other]) => compareText(one, other));
  return JSON.stringify([sorted(identities), sorted(Object.entries(values))]);
}

function shownBy(world: World): readonly string[] {
  return world.profiles
    .map(({ identities, attributes }) =>
      shown(
        identities.map(({ type, value, ts }) => [`${type}:${value}`, ts]),
        Object.fromEntries(attributes.map(({ path, value }) => [path.join(), value])),
      ),
    )
    .sort();
}

type Key = readonly (number | string)[];

/** By time, then offset, then what else is given. */
function compareKeys(one: Key, other: Key): number {
  for (const [at, left] of one.entries()) {
    const right = other[at] ?? 0;
    if (left !== right) return left < right ? -1 : 1;
  }
  return 0;
}

/** The profiles of decision 14, by its rules, from the whole set of events. */
function profilesOf(events: readonly Event[]): readonly string[] {
  const group = new Map<string, Set<string>>();
  const groupOf = (name: string) => {
    const known = group.get(name) ?? new Set([name]);
    group.set(name, known);
    return known;
  };
  const join = (one: string, other: string) => {
    const both = new Set([...groupOf(one), ...groupOf(other)]);
    for (const name of both) group.set(name, both);
  };
  const isUser = (name: string) => name.startsWith('user_id:');
  const keyOf = ({ ts, order }: Event): Key => [ts, order];
  const links = events.flatMap((event) => {
    const [from = '', ...others] = namesOf(event);
    groupOf(from);
    return others.map((to) => {
      const rank = to.startsWith('anonymous_id:') ? 1 : 2;
      const refs = [from, to].map((name) => refOf(SCOPE, identity(name)));
      return { from, to, at: keyOf(event), key: [...keyOf(event), rank, ...refs] };
    });
  });
  links.sort((one, other) => compareKeys(one.key, other.key));
  for (const { from, to } of links)
    if (!isUser(to) && !([...groupOf(from)].some(isUser) && [...groupOf(to)].some(isUser))) join(from, to);
  const firstOf = (name: string) =>
    events
      .filter(({ names }) => names[0] === name)
      .map(keyOf)
      .toSorted(compareKeys)[0];
  const aliased = new Set<string>();
  for (const { from, to, at } of links) {
    if (!isUser(to) || aliased.has(to)) continue;
    aliased.add(to);
    if (firstOf(to) === undefined || compareKeys(firstOf(from) ?? at, at) >= 0) join(from, to);
  }
  return [...new Set(group.values())]
    .map((names) => {
      const own = events.filter((event) => names.has(event.names[0] ?? ''));
      own.sort((one, other) =>
        compareKeys([...keyOf(one), registerOf(one)[1]], [...keyOf(other), registerOf(other)[1]]),
      );
      const last = (name: string) =>
        Math.max(...own.flatMap((event) => (namesOf(event).includes(name) ? [event.ts] : [])));
      const values = Object.fromEntries(own.map(registerOf));
      return shown(
        [...names].map((name) => [name, last(name)]),
        values,
      );
    })
    .sort();
}

const schedule = log.chain((all) =>
  fc.tuple(
    fc.constant(all),
    fc.shuffledSubarray(all, { minLength: all.length }),
    fc.shuffledSubarray(all),
    fc.infiniteStream(fc.boolean()),
  ),
);

it('events made other profiles where they were read in another order or again, or the claims behind them later', () => {
  fc.assert(
    fc.property(schedule, ([events, order, again, isLate]) => {
      const world = new World();
      const late: ProfileWrite[] = [];
      for (const event of [...order, ...again].map(writeOf))
        for (const claim of claimsOf(event, world.upsert(event)))
          if (isLate.next().value === true) late.push(claim);
          else world.upsert(claim);
      for (const claim of late) world.upsert(claim);
      expect(shownBy(world)).toEqual(profilesOf(events));
    }),
    { numRuns: 3_000 },
  );
});
