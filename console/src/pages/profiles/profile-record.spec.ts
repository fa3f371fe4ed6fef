import { describe, expect, it } from 'vitest';
import {
  categoriesOf,
  countsByType,
  identitiesOf,
  linkedOf,
  namedValuesOf,
  namesProfile,
  type ProfileRecord,
  searchOf,
} from './profile-record.ts';

const UCID = '0192f0c2-11aa-7b0e-9d1e-7a2f6d1b4c3d';
const AT = '2026-03-01T09:30:00.000Z';
const TS = String(Date.parse(AT));

const record = (changes: Partial<ProfileRecord> = {}): ProfileRecord => ({
  updated_ts: Number(TS),
  created_ts: Number(TS),
  profile: {},
  ids: {},
  mkt_preferences: {},
  consent: {},
  region: 'eu',
  ucid: UCID,
  ...changes,
});

describe('a search', () => {
  it('asks for every usual type where none is named, and for a ucid where it can be one', () => {
    expect(Object.keys(searchOf({ type: '', value: 'u-1' }))).toEqual([
      'email',
      'user_id',
      'anonymous_id',
      'cellphone',
      'phone',
    ]);
    expect(searchOf({ type: '', value: UCID })).toMatchObject({ ucid: [UCID], anonymous_id: [UCID] });
    expect(searchOf({ type: '', value: 'a'.repeat(64) })).toHaveProperty('email_sha256_lowercase');
    expect(searchOf({ type: 'AdId', value: '7f1' })).toEqual({ AdId: ['7f1'] });
  });
});

it('attributes are listed by category, with time and writer', () => {
  const profile = {
    traits: { plan: 'pro', age: 36, _ts: TS },
    groups: { UA: { name: 'United' }, _ts: TS },
    score: 7,
    home: { _ts: 'never' },
    list: [1, 2],
  };
  expect(categoriesOf(record({ profile }))).toEqual([
    {
      name: 'groups',
      at: AT,
      origin: 'group events',
      attributes: [{ name: 'UA', value: { name: 'United' } }],
    },
    { name: 'home', at: null, origin: 'profile API', attributes: [] },
    { name: 'list', at: null, origin: 'profile API', attributes: [], value: [1, 2] },
    { name: 'score', at: null, origin: 'profile API', attributes: [], value: 7 },
    {
      name: 'traits',
      at: AT,
      origin: 'identify events',
      attributes: [
        { name: 'age', value: 36 },
        { name: 'plan', value: 'pro' },
      ],
    },
  ]);
});

it('identities have the type they were written under, also a hashed one', () => {
  const ids = {
    email: [
      { email: 'ada@example.com', _ts: TS },
      { email_sha256_lowercase: 'f00', _ts: TS },
    ],
    user_id: [{ user_id: 'u-1', _ts: TS }],
    linkedUcid: ['0192f0c2-11aa-7b0e-9d1e-7a2f6d1b4c3e'],
    odd: 'no list',
  };
  const identities = identitiesOf(record({ ids }));
  expect(identities).toEqual([
    { type: 'email', value: 'ada@example.com', at: AT },
    { type: 'email_sha256_lowercase', value: 'f00', at: AT },
    { type: 'user_id', value: 'u-1', at: AT },
  ]);
  expect(linkedOf(record({ ids }))).toEqual(['0192f0c2-11aa-7b0e-9d1e-7a2f6d1b4c3e']);
  expect(countsByType(identities)).toBe('1 email, 1 email_sha256_lowercase, 1 user_id');
});

it('consents and preferences have a value, a time and, if known, a writer', () => {
  expect(
    namedValuesOf({
      newsletter: { datasourceId: 'key', datasetId: 'api', type: 'newsletter', value: 'yes', _ts: TS },
      ads: { value: 'no', _ts: TS },
      old: 'yes',
    }),
  ).toEqual([
    { name: 'ads', value: 'no', at: AT },
    { name: 'newsletter', value: 'yes', at: AT, writtenBy: 'key' },
    { name: 'old', value: 'yes', at: null },
  ]);
});

it('a deletion is confirmed by the identity or ucid of the search, and by nothing else', () => {
  const of = record({ ids: { email: [{ email: 'ada@example.com', _ts: TS }] } });
  const looked = { type: '', value: 'Ada@Example.com' };
  for (const typed of ['Ada@Example.com', ' ada@example.com ', UCID])
    expect(namesProfile(typed, of, looked)).toBe(true);
  for (const typed of ['', ' ', 'ada', TS]) expect(namesProfile(typed, of, looked)).toBe(false);
});
