import { expect, it } from 'vitest';
import type { ProfileRecord } from '../profiles/record.ts';
import { LoadDraft } from './load-draft.ts';
import { LIMITS, planLoad } from './model-warehouse.fixture.ts';

const record: ProfileRecord = {
  ucid: 'U1',
  region: 'eu',
  created_ts: 0,
  updated_ts: 1_000,
  profile: {
    traits: { email: 'a@b.example', address: { city: 'Berlin' }, id: 7, _ts: '5' },
    groups: { acme: { name: 'ACME' }, _ts: '5' },
    score: 3,
  },
  ids: {
    user_id: [
      { user_id: 'later', _ts: '9' },
      { user_id: 'first', _ts: '1' },
    ],
    email: [{ email: 'a@b.example', email_sha256_lowercase: 'ff', _ts: '2' }],
    linkedUcid: ['U0'],
  },
  mkt_preferences: { email: { value: 'y', _ts: '3' }, sms: { value: 'n', reason: 'asked', _ts: '3' } },
  consent: { marketing: { value: true, _ts: '4' } },
};

it('a profile is a row of users, and its identities are those of the record', () => {
  const draft = new LoadDraft({ limits: LIMITS, schema: new Map(), maxEventTables: 5 });
  const change = {
    kind: 'merged',
    ucid: 'U1',
    orgId: 1,
    region: 'eu',
    version: 3,
    at: 1_000,
    linked: ['U0'],
    record,
  } as const;
  draft.addChange(change, 'profiles.changes/0/0');
  // An older change of the profile that is gone, which another partition had.
  draft.addChange({ ...change, kind: 'written', ucid: 'U0', version: 2, linked: [] }, 'profiles.changes/1/0');
  const { profiles } = planLoad(draft, {
    limits: LIMITS,
    schema: new Map(),
    contracts: new Map(),
    described: new Map(),
    held: [],
    loadedAt: '2024-03-01T00:00:00.000Z',
  });
  const columns = [...(profiles?.users.columns.keys() ?? [])];
  const rows = [...(profiles?.users.rows ?? [])].map((row) =>
    Object.fromEntries(columns.map((name, at) => [name, row[at]])),
  );
  expect(rows).toEqual([
    {
      ucid: 'U1',
      id: 'first',
      created_at: '1970-01-01T00:00:00.000Z',
      updated_at: '1970-01-01T00:00:01.000Z',
      version: '3',
      email: 'a@b.example',
      address_city: 'Berlin',
      _id: '7',
      groups_acme_name: 'ACME',
      score: '3',
      mkt_preferences_email: 'y',
      mkt_preferences_sms_value: 'n',
      mkt_preferences_sms_reason: 'asked',
      consent_marketing: true,
      uuid_ts: '2024-03-01T00:00:00.000Z',
      loaded_at: '2024-03-01T00:00:00.000Z',
    },
  ]);
  expect([...(profiles?.identities.rows ?? [])]).toEqual(
    [
      ['user_id', 'later'],
      ['user_id', 'first'],
      ['email', 'a@b.example'],
      ['email_sha256_lowercase', 'ff'],
      ['ucid', 'U0'],
    ].map((identity) => ['U1', ...identity, '1970-01-01T00:00:01.000Z']),
  );
  expect(profiles?.gone).toEqual([expect.objectContaining({ ucid: 'U0', version: 3, isDeleted: false })]);
});
