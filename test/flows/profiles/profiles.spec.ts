import { randomUUID } from 'node:crypto';
import { openDevIssuer } from '@tributary/infra';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import {
  openProfiles,
  type ProfileClient,
  type ProfileOrganization,
  sendTo,
} from '../../helpers/profile-client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const EPOCH_MS = expect.stringMatching(/^\d{13}$/);

/** Names used by no other test of this file. */
const fresh = (name = 'somebody') => `${name}.${randomUUID()}@example.com`;

/** Profiles are written, found and deleted by any identity of a person. */
describe('Profiles', () => {
  let tributary: Tributary;
  let organization: ProfileOrganization;
  let client: ProfileClient;
  beforeAll(async () => {
    tributary = await startTributary();
    organization = await openProfiles(tributary.owner, tributary.workspaceId, sendTo(tributary.url));
    client = organization.client;
  });
  afterAll(() => tributary.remove());

  describe('a record', () => {
    it('has its eight fields with their types in the responses to a write and a search', async () => {
      const before = Date.now();
      const email = fresh();
      const written = await client.call<readonly object[]>('', {
        region: 'eu',
        ids: { email, ga_clientid: `GA1.2.3${email}` },
        upsert: {
          profile: { demographics: { gender: 'f', year: 1990 }, tier: 'gold' },
          mkt_preferences: { newsletter: 'yes' },
          consent: { analytics: 'granted' },
        },
      });
      expect(written.status).toBe(200);
      expect(written.headers.get('content-type')).toMatch(/^application\/json/);
      const record = {
        updated_ts: expect.any(Number),
        created_ts: expect.any(Number),
        profile: { demographics: { gender: 'f', year: 1990, _ts: EPOCH_MS }, tier: 'gold' },
        ids: {
          email: [{ email, _ts: EPOCH_MS }],
          ga_clientid: [{ ga_clientid: `GA1.2.3${email}`, _ts: EPOCH_MS }],
        },
        mkt_preferences: {
          newsletter: {
            datasourceId: organization.keyId,
            datasetId: 'api',
            type: 'newsletter',
            value: 'yes',
            _ts: EPOCH_MS,
          },
        },
        consent: { analytics: { value: 'granted', _ts: EPOCH_MS } },
        region: 'eu',
        ucid: expect.stringMatching(UUID_V7),
      };
      expect(written.body).toEqual([record]);
      const [found, ...others] = await client.search({ email: [email] });
      expect([found, ...others]).toEqual(written.body);
      for (const at of [found?.created_ts, found?.updated_ts]) {
        expect(at).toSatisfy(Number.isInteger);
        expect(at).toBeGreaterThanOrEqual(before);
        expect(at).toBeLessThanOrEqual(Date.now());
      }
    });

    it('may have no attributes, preferences and consents', async () => {
      const email = fresh();
      const record = await client.write({ email });
      expect(record).toMatchObject({ profile: {}, mkt_preferences: {}, consent: {} });
    });

    it('keeps the time of its creation, and has the time of its last change', async () => {
      const email = fresh();
      const first = await client.write({ email }, { upsert: { profile: { a: { b: 1 } } } });
      const second = await client.write({ email }, { upsert: { profile: { a: { b: 2 } } } });
      expect(second).toMatchObject({ ucid: first.ucid, created_ts: first.created_ts });
      expect(second.updated_ts).toBeGreaterThan(first.updated_ts);
    });

    it('lists identities under their namespace, each with a property named after its own type', async () => {
      const hashed = { cellphone_sha256: 'a'.repeat(64), cellphone_md5_uppercase: 'B'.repeat(32) };
      const { ids } = await client.write({ cellphone: fresh('49170'), ...hashed, AdId: fresh('ad') });
      expect(Object.keys(ids).sort()).toEqual(['AdId', 'cellphone']);
      expect(ids.cellphone).toHaveLength(3);
      expect(ids.cellphone).toContainEqual({ cellphone_sha256: 'a'.repeat(64), _ts: EPOCH_MS });
      expect(ids.cellphone).toContainEqual({ cellphone_md5_uppercase: 'b'.repeat(32), _ts: EPOCH_MS });
    });

    it('can be written back unchanged: the time of each category is accepted in the form of the response', async () => {
      const email = fresh();
      const { profile } = await client.write({ email }, { upsert: { profile: { trip: { to: 'JFK' } } } });
      const again = await client.write({ email }, { upsert: { profile } });
      expect(again.profile).toEqual(profile);
    });
  });

  describe('a write', () => {
    it('creates a profile, then updates it by any of its identities, attribute by attribute', async () => {
      const [email, phone] = [fresh(), fresh('49170')];
      const made = await client.write(
        { email, cellphone: phone },
        { upsert: { profile: { home: { city: 'Bonn', zip: '5' } } } },
      );
      const changed = await client.write(
        { cellphone: phone },
        { upsert: { profile: { home: { zip: '6' } }, consent: { ads: 'no' } } },
      );
      expect(changed.ucid).toBe(made.ucid);
      expect(changed.profile).toMatchObject({ home: { city: 'Bonn', zip: '6' } });
      expect(changed.consent).toMatchObject({ ads: { value: 'no' } });
    });

    it('merges the profiles of all its identities: the oldest stays, and the ucids of the others resolve to it', async () => {
      const [email, phone] = [fresh(), fresh('49170')];
      const first = await client.write({ email }, { upsert: { profile: { a: { from: 'first', only: 1 } } } });
      const second = await client.write(
        { cellphone: phone },
        { upsert: { profile: { a: { from: 'second' } } } },
      );
      const merged = await client.write({ cellphone: phone, email });
      expect(merged).toMatchObject({
        ucid: first.ucid,
        created_ts: first.created_ts,
        profile: { a: { from: 'second', only: 1 } },
        ids: { linkedUcid: [second.ucid] },
      });
      for (const search of [{ email: [email] }, { cellphone: [phone] }, { ucid: [second.ucid] }])
        expect(await client.search(search)).toEqual([merged]);
      expect(await client.search({ ucid: [first.ucid, second.ucid], email: [email] })).toEqual([merged]);
    });

    it('can address the profile by its ucid, or by one that was merged into it', async () => {
      const [email, phone] = [fresh(), fresh('49170')];
      const first = await client.write({ email });
      const second = await client.write({ cellphone: phone });
      const named = await client.write(
        {},
        { ucid: first.ucid.toUpperCase(), upsert: { profile: { n: { a: 1 } } } },
      );
      expect(named).toMatchObject({ ucid: first.ucid, profile: { n: { a: 1 } } });
      await client.write({ cellphone: phone }, { ucid: first.ucid });
      const byLinked = await client.call<readonly object[]>('', {
        region: 'eu',
        ucid: second.ucid,
        upsert: { consent: { ads: 'yes' } },
      });
      expect(byLinked.body).toMatchObject([{ ucid: first.ucid, consent: { ads: { value: 'yes' } } }]);
    });

    it('accepts the alternative form of the body: one region in `regions`, one value of each type in `search`', async () => {
      const email = fresh();
      const body = { regions: ['us'], search: { email: [email] }, upsert: { profile: { a: { b: 1 } } } };
      const answer = await client.call<readonly object[]>('', body);
      expect(answer).toMatchObject({ status: 200, body: [{ region: 'us', profile: { a: { b: 1 } } }] });
      expect(await client.search({ email: [email] }, ['us'])).toEqual(answer.body);
    });

    it('never replaces a value with a newer `_ts`, in either order of arrival', async () => {
      const email = fresh();
      const at = (ts: string | number, city: string) =>
        client.write({ email }, { upsert: { profile: { home: { city, _ts: ts } } } });
      await at('1700000000002', 'newer');
      const { profile } = await at(1_700_000_000_001, 'older');
      expect(profile).toEqual({ home: { city: 'newer', _ts: '1700000000002' } });
    });
  });

  describe('a search', () => {
    it('returns each profile that has any of the values once, and ignores values without a profile', async () => {
      const [ada, bob] = [fresh('ada'), fresh('bob')];
      const first = await client.write({ email: ada, cellphone: fresh('1') });
      const second = await client.write({ email: bob });
      const found = await client.search({
        email: [ada, bob, fresh()],
        ucid: [first.ucid.toUpperCase(), randomUUID()],
        AdId: [fresh()],
      });
      expect(found).toEqual([first, second]);
      expect(await client.search({ email: [fresh()] })).toEqual([]);
    });

    it('finds an e-mail address in any case, with blanks around it, and by its SHA-256', async () => {
      const name = randomUUID();
      const record = await client.write({ email: ` ${name.toUpperCase()}@Example.COM ` });
      expect(record.ids.email).toEqual([{ email: `${name}@example.com`, _ts: EPOCH_MS }]);
      const digest = Buffer.from(
        await crypto.subtle.digest('SHA-256', Buffer.from(`${name}@example.com`)),
      ).toString('hex');
      for (const search of [{ email: [`${name}@EXAMPLE.com`] }, { email_sha256_lowercase: [digest] }])
        expect(await client.search(search)).toEqual([record]);
    });

    it('reads the regions that it names and no others', async () => {
      const email = fresh();
      const eu = await client.write({ email });
      expect(await client.search({ email: [email] }, ['us'])).toEqual([]);
      const us = await client.write({ email }, { region: 'us' });
      expect(us.ucid).not.toBe(eu.ucid);
      expect(await client.search({ email: [email] }, ['us'])).toEqual([us]);
      expect(await client.search({ email: [email] }, ['us', 'eu'])).toEqual([eu, us]);
      expect(await client.search({ ucid: [eu.ucid] }, ['us'])).toEqual([]);
    });
  });

  describe('a deletion', () => {
    it('deletes the record and all profiles merged into it, and returns values without a profile as they were sent', async () => {
      const [email, phone] = [fresh(), fresh('49170')];
      const first = await client.write({ email });
      const second = await client.write({ cellphone: phone });
      await client.write({ email, cellphone: phone });
      const other = fresh('Other');
      expect(await client.delete({ email: [email, ` ${other}`] })).toEqual({
        ucids: [first.ucid],
        deletedProfiles: [first.ucid],
        profilesNotFound: [` ${other}`],
      });
      for (const search of [{ email: [email] }, { cellphone: [phone] }, { ucid: [first.ucid, second.ucid] }])
        expect(await client.search(search)).toEqual([]);
      expect(await client.delete({ ucid: [second.ucid] })).toMatchObject({ profilesNotFound: [second.ucid] });
    });

    it('deletes the surviving record for a merged ucid, and lists only that one, once', async () => {
      const [email, phone] = [fresh(), fresh('49170')];
      const first = await client.write({ email });
      const second = await client.write({ cellphone: phone });
      await client.write({ email, cellphone: phone });
      expect(await client.delete({ ucid: [second.ucid, first.ucid, second.ucid.toUpperCase()] })).toEqual({
        ucids: [first.ucid],
        deletedProfiles: [first.ucid],
        profilesNotFound: [],
      });
    });

    it('accepts `regions` in place of `region`, and 400 values', async () => {
      const email = fresh();
      const eu = await client.write({ email });
      const us = await client.write({ email }, { region: 'us' });
      const nobody = Array.from({ length: 399 }, (_, n) => `${n}.${email}`);
      const answer = await client.call('/_delete', {
        regions: ['eu', 'us'],
        ids: { email: [email, ...nobody] },
      });
      expect(answer).toMatchObject({ status: 200, body: { profilesNotFound: nobody } });
      expect((answer.body as unknown as { ucids: string[] }).ucids.toSorted()).toEqual(
        [eu.ucid, us.ucid].toSorted(),
      );
    });

    it('releases the identities: a later write of one creates a new profile', async () => {
      const email = fresh();
      const { ucid } = await client.write({ email }, { upsert: { profile: { a: { b: 1 } } } });
      await client.delete({ email: [email] }, { sendEmailNotification: false });
      const anew = await client.write({ email });
      expect(anew).toMatchObject({ profile: {}, ids: { email: [{ email }] } });
      expect(anew.ucid).not.toBe(ucid);
      expect((await client.call('', { region: 'eu', ucid, ids: { email } })).status).toBe(400);
    });

    it('is in the audit log of the organization: actor, time, counts and ucids, without values', async () => {
      const [email, other] = [fresh(), fresh()];
      const [first, second] = [await client.write({ email }), await client.write({ email: other })];
      await client.delete({ email: [email, 'n/a', other, `x${email}`] });
      const path = `/organizations/${organization.id}/audit-log?entity_type=profile&entity_id=`;
      for (const { ucid } of [first, second]) {
        const [entry, ...others] = await eventually(
          () => tributary.owner.get<readonly object[]>(path + ucid),
          ({ length }) => length > 0,
        );
        expect(others).toEqual([]);
        expect(entry).toMatchObject({
          action: 'deleted',
          actor: {
            type: 'client_key',
            id: organization.keyId,
            key_prefix: expect.stringMatching(/^trb_client_/),
          },
          entity: { type: 'profile', id: ucid, name: null },
          before: null,
          after: {
            regions: ['eu'],
            identity_types: ['email'],
            requested: 4,
            changed: 2,
            not_found: 2,
            status: 'done',
          },
          request_id: expect.any(String),
        });
        expect(JSON.stringify(entry)).not.toContain(email);
      }
    });

    it('is reported by mail on request', async () => {
      const email = fresh();
      const { ucid } = await client.write({ email });
      const deleted = await client.delete({ email: [email] }, { sendEmailNotification: true });
      expect(deleted.deletedProfiles).toEqual([ucid]);
    });
  });

  it('every path is accepted with a final slash', async () => {
    const email = fresh();
    const bodies = {
      '/': { region: 'eu', ids: { email } },
      '/_search/': { regions: ['eu'], search: { email: [email] } },
      '/_delete/': { region: 'eu', ids: { email: [email] } },
    };
    for (const [path, body] of Object.entries(bodies))
      expect((await client.call(path, body)).status).toBe(200);
    expect(await client.search({ email: [email] })).toEqual([]);
  });

  it('a refused call changes no data', async () => {
    const email = fresh();
    const record = await client.write({ email }, { upsert: { profile: { a: { b: 1 } } } });
    const upsert = { profile: { a: { b: 2 } } };
    const many = [email, ...Array.from({ length: 400 }, (_, n) => `${n}.${email}`)];
    const refused: readonly (readonly [string, object])[] = [
      ['/_delete', { region: 'eu', ids: { email: [email], ucid: [record.ucid] } }],
      ['/_delete', { region: 'eu', ids: { email: many } }],
      ['/_delete', { region: 'eu', ids: { email: [] } }],
      ['/_delete', { region: 'eu', ids: {} }],
      ['/_delete', { region: 'eu', ids: { email: [email, 7] } }],
      ['/_delete', { region: 'eu', regions: ['eu'], ids: { email: [email] } }],
      ['/_delete', { regions: ['eu', 'mars'], ids: { email: [email] } }],
      ['/_delete', { region: 'eu', ids: { email: [email] }, sendEmailNotification: 'no' }],
      ['', { region: 'eu', ids: { email, ucid: record.ucid }, upsert }],
      ['', { region: 'eu', ids: { email, user_id: 'anonymous' }, upsert }],
      ['', { region: 'eu', ids: { email }, ucid: randomUUID(), upsert }],
      ['', { region: 'mars', ids: { email }, upsert }],
      ['', { region: 'eu', ids: { email }, regions: ['eu'], search: { email: [email] }, upsert }],
      ['', { region: 'eu', ids: { email }, upsert: { ...upsert, consent: { ads: true } } }],
    ];
    for (const [path, body] of refused)
      expect(await client.call(path, body), JSON.stringify(body).slice(0, 200)).toMatchObject({
        status: 400,
        body: { error: 'invalid request', details: expect.any(Array) },
      });
    expect(await client.search({ email: [email] })).toEqual([record]);
  });

  it('an organization never reads, changes or deletes the profiles of another', async () => {
    const issuer = openDevIssuer({ dataFolder: tributary.folder, devIssuerKey: '' });
    const stranger = tributary.owner.with({ token: await issuer.mint(fresh('stranger')) });
    const { id } = await stranger.post<{ id: string }>('/workspaces', { name: 'Elsewhere' });
    const elsewhere = await openProfiles(stranger.with({ workspaceId: id }), id, sendTo(tributary.url));
    const email = fresh();
    const mine = await client.write({ email });
    const theirs = await elsewhere.client.write({ email });
    expect(theirs.ucid).not.toBe(mine.ucid);
    expect(await elsewhere.client.search({ email: [email], ucid: [mine.ucid] })).toEqual([theirs]);
    expect(await elsewhere.client.delete({ ucid: [mine.ucid] })).toMatchObject({ deletedProfiles: [] });
    const intruder = elsewhere.client.naming(organization.orgId);
    for (const [path, body] of [
      ['', { region: 'eu', ids: { email } }],
      ['/_search', { regions: ['eu'], search: { email: [email] } }],
      ['/_delete', { region: 'eu', ids: { email: [email] } }],
      ['/_search', { regions: ['mars'], search: { email: [email] } }],
    ] as const)
      expect(await intruder.call(path, body)).toMatchObject({
        status: 403,
        body: { error: 'permission denied' },
      });
    expect(await client.search({ email: [email] })).toEqual([mine]);
  });

  it('an ID token is accepted in place of a key', async () => {
    const me = client.withToken(tributary.idToken);
    const email = fresh();
    const record = await me.write({ email }, { upsert: { mkt_preferences: { sms: 'no' } } });
    expect(await me.search({ email: [email] })).toEqual([record]);
    expect((await me.delete({ email: [email] })).deletedProfiles).toEqual([record.ucid]);
  });
});
