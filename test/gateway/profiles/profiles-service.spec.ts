import {
  CLIENT_KEY_SCOPES,
  InvalidInput,
  PartialDeletion,
  type Profile,
  recordOf,
  TOPIC,
  Unavailable,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { refusedFor } from '../../helpers/gateway.ts';
import { makeClientKey, PROFILE_CALLS } from '../../helpers/profile-client.ts';
import { awayProfiles, openProfileGateway as open } from '../../helpers/profile-gateway.ts';

const SEARCH = PROFILE_CALLS['profile.read'];
const SECONDS = /^[1-9]\d*$/;

describe('the profile API', () => {
  it.each([
    ['could not remove an attribute, preference or consent', {}, { home: { floor: 2 }, plan: undefined }],
    [
      'keeps null as an attribute if the installation is configured so',
      { TRIBUTARY_PROFILE_NULLS: 'keep' },
      { home: { city: null, floor: 2 }, plan: null },
    ],
  ])('%s', async (_, env, expected) => {
    const { client } = await open({ env });
    const ids = { AdId: 'nulls' };
    await client.write(ids, {
      upsert: {
        profile: { home: { city: 'Turin', floor: 2 }, plan: 'pro' },
        mkt_preferences: { sms: 'yes', mail: 'no' },
        consent: { ads: 'no', terms: 'yes' },
      },
    });
    const written = await client.write(ids, {
      upsert: {
        profile: { home: { city: null }, plan: null },
        mkt_preferences: { sms: null },
        consent: { ads: null },
      },
    });
    expect(written.profile).toEqual({ ...expected, home: { ...expected.home, _ts: expect.any(String) } });
    expect(Object.keys(written.mkt_preferences)).toEqual(['mail']);
    expect(Object.keys(written.consent)).toEqual(['terms']);
    const edited = await client.write(ids, {
      upsert: { profile: { home: { ...Object(written.profile.home), city: 'Pisa' } } },
    });
    expect(edited.profile.home).toMatchObject({ city: 'Pisa', floor: 2 });
  });

  it('took the time of a consent for a consent, and let an old value overwrite a newer opt-out', async () => {
    const { client } = await open();
    const ids = { AdId: 'opted-out' };
    const [older, newer] = [1_790_000_000_000, 1_790_000_000_007];
    const maps = (value: string, ts: number | string) => ({
      profile: { _ts: ts, home: { city: value }, tier: value },
      mkt_preferences: { _ts: ts, sms: value },
      consent: { _ts: ts, ads: value },
    });
    const single = (value: string, ts: number | string) => ({
      profile: { home: { city: { value, _ts: ts } }, tier: value, _ts: ts },
      mkt_preferences: { sms: { value, _ts: ts } },
      consent: { _ts: older + 1, ads: { value, _ts: ts } },
    });
    await client.write(ids, { upsert: maps('no', newer) });
    for (const form of [maps, single])
      for (const ts of [older, String(older)]) {
        const { profile, consent, mkt_preferences } = await client.write(ids, { upsert: form('yes', ts) });
        expect({ profile, consent, mkt_preferences }).toMatchObject({
          profile: { home: { city: 'no', _ts: String(newer) }, tier: 'no' },
          mkt_preferences: { sms: { type: 'sms', value: 'no', _ts: String(newer) } },
          consent: { ads: { value: 'no', _ts: String(newer) } },
        });
        expect([Object.keys(profile), Object.keys(consent)]).toEqual([['home', 'tier'], ['ads']]);
      }
    for (const [upsert, path] of [
      [{ consent: { _ts: 'noon' } }, '/upsert/consent/_ts'],
      [{ consent: { ads: { value: 'yes', _ts: 1_790_000_000 } } }, '/upsert/consent/ads/_ts'],
      [{ consent: { ads: { _ts: older } } }, '/upsert/consent/ads/value'],
      [{ consent: { ads: { value: 'yes', type: 'x' } } }, '/upsert/consent/ads/type'],
      [{ mkt_preferences: { sms: { value: 7 } } }, '/upsert/mkt_preferences/sms/value'],
      [{ profile: { home: { city: { value: 'x', _ts: 'x' } } } }, '/upsert/profile/home/city/_ts'],
    ] as const)
      expect(await client.call('', { region: 'eu', ids, upsert })).toMatchObject(refusedFor(path));
  });

  it('could not take a record back as it was read: times and origins of values changed', async () => {
    const { owner, organization, client } = await open();
    const ids = { AdId: 'read' };
    await client.write(ids, {
      upsert: {
        profile: {
          home: { city: 'Bari', floor: 3, _ts: 1_790_000_000_000 },
          tier: 'gold',
          tags: ['a'],
          empty: {},
        },
        mkt_preferences: { sms: 'yes', mail: 'no' },
        consent: { ads: 'no' },
      },
    });
    await client.write(ids, { upsert: { profile: { home: { floor: 4, lift: null } } } });
    const read = async () => {
      const [record] = await client.search({ AdId: ['read'] });
      if (record === undefined) throw new Error('no profile was found');
      return record;
    };
    const before = await read();
    const { profile, mkt_preferences, consent } = before;
    const { key } = await makeClientKey(owner, organization.id, CLIENT_KEY_SCOPES);
    await client.withKey(key).write(ids, { upsert: { profile, mkt_preferences, consent } });
    expect(await read()).toEqual(before);
    const edited = {
      profile: { ...profile, tier: 'silver' },
      consent: { ads: { ...Object(consent.ads), value: 'yes' } },
    };
    expect(await client.write(ids, { upsert: edited })).toMatchObject({
      profile: { home: profile.home, tier: 'silver' },
      consent: { ads: { value: 'yes' } },
    });
  });

  it('limits the calls of a key if a limit is configured: 429 with Retry-After', async () => {
    const { owner, organization, client } = await open({ env: { TRIBUTARY_CALL_RATE: '0.5' } });
    const { key } = await makeClientKey(owner, organization.id, CLIENT_KEY_SCOPES);
    const answers = [];
    for (let n = 0; n < 31; n++) answers.push(await client.call(...SEARCH));
    expect(answers.map(({ status }) => status)).toEqual([...Array(30).fill(200), 429]);
    expect(answers.at(-1)?.body).toEqual({ error: 'too many requests' });
    expect(answers.at(-1)?.headers.get('retry-after')).toMatch(SECONDS);
    expect((await client.withKey(key).call(...SEARCH)).status).toBe(200);
  });

  it('lets pages of configured origins send the headers of the profile API', async () => {
    const { gateway } = await open({ env: { TRIBUTARY_CORS_ORIGINS: 'https://app.example' } });
    const { headers } = await gateway.app.inject({
      method: 'OPTIONS',
      url: '/cdp/v1/users/_search',
      headers: { origin: 'https://app.example', 'access-control-request-method': 'POST' },
    });
    expect(headers['access-control-allow-origin']).toBe('https://app.example');
    expect(String(headers['access-control-allow-headers']).split(', ')).toEqual(
      expect.arrayContaining(['apikey', 'scopes', 'orgid']),
    );
  });

  it('is 503 with Retry-After while the engine of the profiles does not answer', async () => {
    const profiles = awayProfiles();
    const { client } = await open({ dependencies: { profiles } });
    for (const call of Object.values(PROFILE_CALLS)) {
      const answer = await client.call(...call);
      expect(answer).toMatchObject({ status: 503, body: { error: 'unavailable' } });
      expect(answer.headers.get('retry-after')).toMatch(SECONDS);
    }
  });

  it('is 503 if the engine stops answering during a deletion, with the deleted profiles', async () => {
    const inPart = () => Promise.reject(new PartialDeletion('away', { deleted: ['gone'], notFound: [2] }));
    const profiles = awayProfiles({ delete: inPart });
    const { client } = await open({ dependencies: { profiles } });
    expect(await client.call('/_delete', { region: 'eu', ids: { AdId: ['a', 'b', 'c'] } })).toMatchObject({
      status: 503,
      body: {
        error: 'unavailable',
        ucids: ['gone'],
        deletedProfiles: ['gone'],
        profilesNotFound: ['c'],
      },
    });
  });

  it('is 400 if a search finds more than the store can read, and states the remedy', async () => {
    const tooMuch = () => Promise.reject(new InvalidInput('finds more than can be read'));
    const profiles = awayProfiles({ search: tooMuch });
    const { client } = await open({ dependencies: { profiles } });
    expect(await client.call(...PROFILE_CALLS['profile.read'])).toMatchObject({
      status: 400,
      body: { details: [{ path: '/search', message: 'finds more than can be read' }] },
    });
  });
});

describe('the response to a search', () => {
  const found = (count: number) =>
    Array.from(
      { length: count },
      (_, n): Profile => ({
        org: 1,
        region: 'eu',
        ucid: `01890000-0000-7000-8000-${String(n).padStart(12, '0')}`,
        created_ts: 1,
        updated_ts: 1,
        version: 1,
        identities: [],
        attributes: [{ path: ['text'], value: 'x'.repeat(1e6), ts: 1 }],
        preferences: [],
        consents: [],
        linked: [],
      }),
    );

  /** The answer of a gateway with a store that finds this many profiles of a megabyte. */
  async function answerWith(count: number) {
    const profiles = awayProfiles({ search: async () => found(count) });
    const { client } = await open({ dependencies: { profiles } });
    return client.call<unknown>(...SEARCH);
  }

  it('is complete in any number of chunks', async () => {
    const { status, headers, body } = await answerWith(3);
    expect({ status, type: headers.get('content-type') }).toEqual({
      status: 200,
      type: 'application/json; charset=utf-8',
    });
    expect(body).toEqual(found(3).map(recordOf));
  });

  it('is 400 beyond 32 MiB, and must be requested in parts', async () => {
    expect(await answerWith(34)).toMatchObject(refusedFor('/search'));
  });
});

describe('the mail about a deletion', () => {
  it('is queued if the body requests it and something was deleted, with counts and without identities', async () => {
    const { gateway, organization, client } = await open();
    const queued = async () => {
      const { entries } = await gateway.dependencies.log.read(TOPIC.mail, 0, 0, { maxBytes: 1e6 });
      return entries.map(({ value }) => JSON.parse(value) as unknown);
    };
    await client.write({ AdId: 'a' });
    await client.delete({ AdId: ['a'] });
    await client.delete({ AdId: ['b'] }, { sendEmailNotification: false });
    for (let n = 0; n < 3; n++) await client.delete({ AdId: ['b'] }, { sendEmailNotification: true });
    expect(await queued()).toEqual([]);
    await client.write({ AdId: 'a' });
    await client.delete({ AdId: ['a', 'b', ' a'] }, { sendEmailNotification: true });
    expect(await queued()).toEqual([
      {
        id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        organization_id: organization.id,
        regions: ['eu'],
        at: expect.stringMatching(/Z$/),
        by: `key:${organization.keyId}`,
        counts: { requested: 2, deleted: 1, not_found: 1 },
      },
    ]);
  });

  it('is answered 503 with the deleted profiles if it cannot be queued', async () => {
    const requestMail = () => Promise.reject(new Unavailable('the log is away'));
    const { client } = await open({ dependencies: { requestMail } });
    const { ucid } = await client.write({ AdId: 'a' });
    const body = { region: 'eu', ids: { AdId: ['a', ' b'] } };
    const answer = await client.call('/_delete', { ...body, sendEmailNotification: true });
    expect(answer.status).toBe(503);
    expect(answer.body).toEqual({
      error: 'unavailable',
      ucids: [ucid],
      deletedProfiles: [ucid],
      profilesNotFound: [' b'],
    });
    expect(answer.headers.get('retry-after')).toMatch(SECONDS);
    expect((await client.call('/_delete', body)).status).toBe(200);
  });
});
