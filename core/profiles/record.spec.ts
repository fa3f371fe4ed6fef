import { describe, expect, it } from 'vitest';
import { freshProfile } from './merge.ts';
import type { HeldIdentity, Profile } from './profile.ts';
import { isFoundBy, recordOf } from './record.ts';

const UCID = '01890000-0000-7000-8000-000000000001';

function profile(fields: Partial<Profile>): Profile {
  return { ...freshProfile({ org: 7, region: 'eu' }, UCID, 1_700_000_000_000), ...fields };
}

describe('the record of a profile', () => {
  it('has eight fields, and no internal ones of the store', () => {
    expect(recordOf(profile({ updated_ts: 1_700_000_000_001, version: 9 }))).toEqual({
      updated_ts: 1_700_000_000_001,
      created_ts: 1_700_000_000_000,
      profile: {},
      ids: {},
      mkt_preferences: {},
      consent: {},
      region: 'eu',
      ucid: UCID,
    });
  });

  it('gives a category the time of its newest attribute, unless its value is not an object', () => {
    const { profile: shown } = recordOf(
      profile({
        attributes: [
          { path: ['home', 'city'], value: 'Bonn', ts: 3 },
          { path: ['home', 'zip'], value: null, ts: 5 },
          { path: ['tags'], value: ['a'], ts: 4 },
          { path: ['tier'], value: 'gold', ts: 9 },
        ],
      }),
    );
    expect(shown).toEqual({ home: { city: 'Bonn', zip: null, _ts: '5' }, tags: ['a'], tier: 'gold' });
  });

  it('has groups below their category, also without traits', () => {
    const { profile: shown } = recordOf(
      profile({
        attributes: [
          { path: ['groups', 'AA'], value: {}, ts: 2 },
          { path: ['groups', 'UA'], value: {}, ts: 1 },
          { path: ['groups', 'UA', 'name'], value: 'United', ts: 1 },
        ],
      }),
    );
    expect(shown).toEqual({ groups: { AA: {}, UA: { name: 'United' }, _ts: '2' } });
  });

  it('has a category that was written as an object and as a value in the newer form', () => {
    const older = { path: ['home'], value: 'Bonn', ts: 1 };
    const newer = { path: ['home', 'city'], value: 'Rome', ts: 2 };
    expect(recordOf(profile({ attributes: [older, newer] })).profile).toEqual({
      home: { city: 'Rome', _ts: '2' },
    });
  });

  it('lists identities by namespace, hashed ones in that of the raw type, and linked ucids as strings', () => {
    const linked = ['01890000-0000-7000-8000-000000000002'];
    const { ids } = recordOf(
      profile({
        linked,
        identities: [
          { type: 'email', value: 'a@example.com', ts: 1 },
          { type: 'email_md5', value: 'ff', ts: 2 },
          { type: 'user_id', value: 'u', ts: 3 },
        ],
      }),
    );
    expect(ids).toEqual({
      email: [
        { email: 'a@example.com', _ts: '1' },
        { email_md5: 'ff', _ts: '2' },
      ],
      user_id: [{ user_id: 'u', _ts: '3' }],
      linkedUcid: linked,
    });
  });

  it('has preferences with all five fields, and consents with their value and time', () => {
    const value = { datasourceId: 'd', datasetId: 'api', type: 'sms', value: 'no' };
    const record = recordOf(
      profile({
        preferences: [{ name: 'sms', value, ts: 1 }],
        consents: [{ name: 'ads', value: 'yes', ts: 2 }],
      }),
    );
    expect(record.mkt_preferences).toEqual({ sms: { ...value, _ts: '1' } });
    expect(record.consent).toEqual({ ads: { value: 'yes', _ts: '2' } });
  });

  it('has the previous id of an alias as that of a device, and of a user once an event is about that user', () => {
    const by = { other: [1, 1, 0] } as const;
    const idsOf = (known: Pick<HeldIdentity, 'since'>) => {
      const identities: readonly HeldIdentity[] = [
        { type: 'anonymous_id', value: 'ann', ts: 1, by },
        { type: 'user_id', value: 'ann', ts: 1, by, ...known },
        { type: 'user_id', value: 'anna', ts: 1, by, since: [1, 0] },
      ];
      const held = profile({ identities });
      const isFound = isFoundBy(held, { identities: [{ type: 'user_id', value: 'ann' }], ucids: [] });
      return [Object.keys(recordOf(held).ids), isFound];
    };
    expect(idsOf({})).toEqual([['anonymous_id', 'user_id'], false]);
    expect(idsOf({ since: [2, 0] })).toEqual([['user_id'], true]);
  });

  it('does not pollute prototypes, with any attribute names', () => {
    const names = ['__proto__', 'constructor', 'toString'];
    const attributes = names.flatMap((name) => [
      { path: [name, name], value: { polluted: true }, ts: 1 },
      { path: ['plain', name], value: { polluted: true }, ts: 1 },
    ]);
    const named = names.map((name) => ({ name, value: 'x', ts: 1 }));
    const record = recordOf(profile({ attributes, preferences: named, consents: named }));
    expect(Object.keys(record.profile).sort()).toEqual([...names, 'plain'].sort());
    expect(Object.keys(record.profile.plain ?? {}).sort()).toEqual(['_ts', ...names].sort());
    expect(Object.keys(record.consent).sort()).toEqual([...names].sort());
    for (const object of [record.profile, record.profile.plain, record.consent, record.mkt_preferences, {}]) {
      expect(Object.getPrototypeOf(object)).toBe(Object.prototype);
      expect((object as { polluted?: true }).polluted).toBeUndefined();
    }
  });

  it('shows a value with `value` and `_ts` of its own so that it can be written back, and no consent `_ts` of 0.2.0', () => {
    const value = { value: 1, _ts: 'x' };
    const { profile: shown, consent } = recordOf(
      profile({
        attributes: [{ path: ['traits', 'odd'], value, ts: 3 }],
        consents: [{ name: '_ts', value: '1790000000000', ts: 3 }],
      }),
    );
    expect(shown).toEqual({ traits: { odd: { value, _ts: '3' }, _ts: '3' } });
    expect(consent).toEqual({});
  });
});
