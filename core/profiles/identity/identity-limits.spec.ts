import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { joinIdentities } from '../merge.ts';
import { type HeldIdentity, MAX_PROFILE_IDENTITIES } from '../profile.ts';
import { profile, World, write } from '../world.fixture.ts';
import { applyWrite } from '../write.ts';
import { DEFAULT_LIMITS, type IdentityLimits, STRONG_ROOM, withoutOldest } from './identity-limits.ts';

const many = (type: string, count: number, ts = 1): HeldIdentity[] =>
  Array.from({ length: count }, (_, n) => ({ type, value: `${type}-${n}`, ts: ts + n }));
const event = { linking: 'keep-people-apart' } as const;
const tight: IdentityLimits = {
  types: [
    { type: 'anonymous_id', max: 3, drop_oldest: true },
    { type: 'cookie', max: 2, drop_oldest: true },
    { type: 'email', max: 2, drop_oldest: false },
  ],
  user_ids: 100,
};

describe('a full profile', () => {
  it('was stuck: after 500 devices an address was no identity, and the next person with it owned it', () => {
    const world = new World();
    for (let n = 0; n < 520; n++)
      world.upsert(write(['user_id:mia', `anonymous_id:d-${n}`], { ...event, ts: n }));
    const outcome = world.upsert(write(['user_id:mia', 'email:mia@mail.example'], { ...event, ts: 600 }));
    expect(outcome).toMatchObject({ kind: 'written', leftOut: [] });
    const [limit] = DEFAULT_LIMITS.types;
    const mia = world.ownerOf({ type: 'email', value: 'mia@mail.example' });
    const devices = mia?.identities.filter(({ type }) => type === 'anonymous_id') ?? [];
    expect(devices).toHaveLength(limit?.max ?? 0);
    expect(Math.min(...devices.map(({ ts }) => ts))).toBe(520 - (limit?.max ?? 0));
    expect(world.ownerOf({ type: 'anonymous_id', value: 'd-7' })).toBeUndefined();
  });

  it.each([
    ['of weak types', ['cookie'], 'email'],
    ['of several weak types', ['cookie', 'idfa', 'gaid'], 'cellphone'],
    ['of devices and others', ['anonymous_id', 'cookie'], 'user_id'],
    ['of others, for a hashed address', ['ga_clientid'], 'email_md5'],
  ])('%s has room for strong ones', (_, types, strong) => {
    const full = profile('1', {
      identities: types
        .flatMap((type) => many(type, MAX_PROFILE_IDENTITIES / types.length))
        .sort((a, b) => (a.type < b.type ? -1 : 1)),
    });
    const one = { type: strong, value: '0cc175b9c0f1b6a831c399e269772661' };
    const applied = applyWrite([full], [one], write([`${strong}:${one.value}`]), 1);
    expect(applied.kind === 'changed' && applied.profile.identities).toContainEqual({ ...one, ts: 1 });
  });

  it('of strong ones too is full, and a write of one more changes nothing', () => {
    const world = new World();
    world.upsert(write(many('cookie', MAX_PROFILE_IDENTITIES).map(({ value }) => `cookie:${value}`)));
    for (let n = 0; n < STRONG_ROOM; n++) world.upsert(write(['cookie:cookie-0', `email:${n}@x`]));
    const refused = { kind: 'refused', reason: 'too_many_identities' };
    expect(world.upsert(write(['cookie:cookie-0', 'email:more@x']))).toEqual(refused);
    expect(world.upsert(write(['cookie:cookie-0', 'cookie:more']))).toEqual(refused);
    const late = write(['email:0@x', 'email:more@x', 'anonymous_id:d'], event);
    expect(world.upsert(late)).toMatchObject({ leftOut: [{ why: 'too_many' }, { why: 'too_many' }] });
  });

  it('keeps the newest of a type, and reports a write whose identity is older than those it has no room for', () => {
    const limits = { limits: tight };
    const world = new World();
    for (const ts of [5, 6, 7])
      world.upsert(write(['user_id:u', `anonymous_id:${ts}`], { ...event, ts, ...limits }));
    const late = write(['user_id:u', 'anonymous_id:2'], { ...event, ts: 2, ...limits });
    expect(world.upsert(late)).toMatchObject({
      kind: 'written',
      profile: { identities: [{ value: '5' }, { value: '6' }, { value: '7' }, { value: 'u', ts: 7 }] },
      leftOut: [{ identity: { type: 'anonymous_id', value: '2' }, why: 'too_many' }],
    });
    expect(world.ownerOf({ type: 'anonymous_id', value: '2' })).toBeUndefined();
    expect(world.upsert(write(['user_id:u', 'anonymous_id:9'], { ts: 9, ...limits }))).toMatchObject({
      leftOut: [],
    });
    expect(world.ownerOf({ type: 'anonymous_id', value: '5' })).toBeUndefined();
  });

  it('refuses one more of a type that drops none, and is not split by a bound that was lowered', () => {
    const world = new World();
    world.upsert(write(['user_id:u', 'email:1@x', 'email:2@x', 'email:3@x']));
    const limits = { limits: tight };
    expect(world.upsert(write(['user_id:u', 'email:4@x'], limits))).toMatchObject({
      reason: 'too_many_identities',
    });
    expect(world.upsert(write(['cookie:new', 'email:1@x'], limits))).toMatchObject({ kind: 'written' });
    expect(world.profiles).toHaveLength(1);
    expect(world.upsert(write(['user_id:u', 'email:4@x'], { ...event, ...limits }))).toMatchObject({
      leftOut: [{ identity: { value: '4@x' }, why: 'too_many' }],
    });
  });
});

describe('the newest of each type', () => {
  const identities = fc
    .array(
      fc.record({
        type: fc.constantFrom('anonymous_id', 'cookie', 'user_id'),
        value: fc.constantFrom('1', '2', '3', '4', '5', '6'),
        ts: fc.integer({ min: 0, max: 4 }),
      }),
      { maxLength: 12 },
    )
    .map((list) => list.reduce<readonly HeldIdentity[]>((all, one) => joinIdentities(all, [one]), []));
  const together = (...lists: readonly (readonly HeldIdentity[])[]) =>
    lists.reduce((all, list) => withoutOldest(joinIdentities(all, list), tight).kept, []);

  it('are the same in every order in which profiles and writes are folded, and again', () => {
    fc.assert(
      fc.property(identities, identities, identities, (a, b, c) => {
        const all = together(a, b, c);
        for (const other of [
          together(c, b, a),
          together(b, a, c),
          together(a, together(b, c)),
          together(all, a, all),
        ])
          expect(other).toEqual(all);
      }),
    );
  });
});
