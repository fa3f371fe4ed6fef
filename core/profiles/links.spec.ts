import { describe, expect, it } from 'vitest';
import type { Profile } from './profile.ts';
import type { ProfileWrite } from './profile-store.ts';
import { recordOf } from './record.ts';
import { identity, profile, World, write } from './world.fixture.ts';
import { linkingOf } from './write.ts';

const EVENT = { linking: 'keep-people-apart' } as const;

/** An event at `ts`, the `order`th of its partition. */
function event(names: readonly string[], ts: number, order: number, previous?: string): ProfileWrite {
  return write(names, {
    ...EVENT,
    ts,
    happenedAt: ts,
    order,
    attributes: [
      { path: ['traits', 'by'], value: names[0] ?? '', order },
      { path: ['traits', `n${order % 3}`], value: ts, order },
    ],
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

/** What a search shows of all profiles, without ucids and the times of their processing. */
function shown(profiles: readonly Profile[]) {
  return profiles
    .map((profile) => {
      const { ids, profile: attributes } = recordOf(profile);
      const { linkedUcid: _, ...identities } = ids;
      return JSON.stringify({ identities, attributes });
    })
    .sort();
}

function worldOf(writes: readonly ProfileWrite[]): World {
  const world = new World();
  for (const each of writes) world.send(each);
  return world;
}

const permutations = <Item>(items: readonly Item[]): readonly (readonly Item[])[] =>
  items.length < 2
    ? [items]
    : items.flatMap((item, at) => permutations(items.toSpliced(at, 1)).map((rest) => [item, ...rest]));

describe('events in every order', () => {
  it('gave the cart of a shared device to the user who came second', () => {
    const events = [
      event(['anonymous_id:tv'], 1, 0),
      event(['user_id:kim', 'anonymous_id:tv'], 2, 1),
      event(['user_id:lee', 'anonymous_id:tv'], 9, 2),
    ];
    for (const order of permutations([...events, event(['user_id:kim', 'anonymous_id:tv'], 12, 3)])) {
      const world = worldOf(order);
      const [kim, lee] = ['user_id:kim', 'user_id:lee'].map((user) => world.ownerOf(identity(user)));
      expect(world.ownerOf(identity('anonymous_id:tv'))).toBe(kim);
      expect(kim?.attributes.map(({ path }) => path[1])).toEqual(['by', 'n0', 'n1']);
      expect(lee?.attributes.map(({ path, value }) => [path[1], value])).toEqual([
        ['by', 'user_id:lee'],
        ['n2', 9],
      ]);
      expect(shown(world.profiles)).toEqual(shown(worldOf(events.concat(order)).profiles));
    }
  });

  it('made two profiles of a user who was renamed, which nothing could mend', () => {
    const events = [
      event(['user_id:old', 'anonymous_id:d'], 1, 0),
      event(['user_id:new'], 2, 1, 'old'),
      event(['user_id:new', 'email:n@x'], 3, 2),
    ];
    for (const order of permutations(events)) {
      const world = worldOf(order);
      expect(world.profiles).toHaveLength(1);
      expect(recordOf(world.profiles[0] as Profile).ids).toMatchObject({
        user_id: [{ user_id: 'new' }, { user_id: 'old' }],
        anonymous_id: [{ anonymous_id: 'd' }],
      });
    }
  });

  it('of aliases the first decides, and an id that no event is about is that of a device', () => {
    const events = [event(['user_id:b'], 2, 0, 'p'), event(['user_id:c'], 5, 1, 'p')];
    for (const order of permutations(events)) {
      const world = worldOf(order);
      expect(recordOf(world.ownerOf(identity('user_id:b')) as Profile).ids).toMatchObject({
        anonymous_id: [{ anonymous_id: 'p' }],
        user_id: [{ user_id: 'b' }],
      });
      expect(recordOf(world.ownerOf(identity('user_id:c')) as Profile).ids).not.toHaveProperty(
        'anonymous_id',
      );
    }
  });

  it('part nothing that 0.2.0 has joined, or that a call named together', () => {
    const late = event(['user_id:kim', 'anonymous_id:tv'], 2, 0);
    const old = profile('u-1', {
      identities: ['anonymous_id:tv', 'user_id:lee'].map((text) => ({ ...identity(text), ts: 9 })),
    });
    const owners = late.identities.map(({ type }) =>
      type === 'user_id' ? ({ kind: 'unowned' } as const) : ({ kind: 'live', profile: old } as const),
    );
    expect(linkingOf(late, { owners })).toMatchObject({ leftOut: [{ why: 'another_person' }] });
    const world = worldOf([write(['user_id:lee', 'anonymous_id:tv'], { ts: 9 }), late]);
    expect(world.ownerOf(identity('anonymous_id:tv'))).toBe(world.ownerOf(identity('user_id:lee')));
  });

  it('parted a user from the device of an earlier profile, where an event took their profile apart', () => {
    const events = [
      event(['anonymous_id:laptop'], 2, 0),
      event(['user_id:new'], 8, 1, 'old'),
      event(['user_id:old', 'anonymous_id:laptop'], 1, 2),
      event(['user_id:new'], 5, 3),
    ];
    for (const order of permutations(events)) {
      const world = worldOf(order);
      const old = world.ownerOf(identity('user_id:old'));
      expect(world.ownerOf(identity('anonymous_id:laptop'))).toBe(old);
      expect(world.ownerOf(identity('user_id:new'))).not.toBe(old);
    }
  });

  it('joined the user of a second alias, or not, by when it was seen that the user of the first one was known before', () => {
    const events = [
      event(['user_id:old'], 1, 0),
      event(['user_id:first'], 4, 1, 'old'),
      event(['user_id:second'], 6, 2, 'old'),
      event(['user_id:first'], 2, 3),
    ];
    for (const order of permutations(events)) expect(worldOf(order).profiles).toHaveLength(3);
  });
});
