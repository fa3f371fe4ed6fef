import { createHash, randomUUID } from 'node:crypto';
import { CLIENT_KEY_SCOPES, type ProfileRecord } from '@tributary/core';
import { openDevIssuer } from '@tributary/infra';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import {
  openProfiles,
  PROFILE_CALLS,
  type ProfileClient,
  type ProfileOrganization,
  sendTo,
} from '../../helpers/profile-client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';

const UUID = expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/);
/** A time of the body is a text, those of the record are numbers. */
const EPOCH_MS = expect.stringMatching(/^\d{13}$/);
const DENIED = { status: 403, body: { error: 'permission denied' } };
const [WRITE, READ, DELETE] = CLIENT_KEY_SCOPES;
const OPERATIONS = [
  ['write', WRITE],
  ['search', READ],
  ['delete', DELETE],
] as const;
const PATHS = { write: '', search: '/_search', delete: '/_delete' } as const;

/** Another address at each call. */
const fresh = (name = 'somebody') => `${name}.${randomUUID()}@example.com`;

/** The identities of the record that most tests read. */
const EMAIL = fresh('ada');
const PHONE_HASH = 'a'.repeat(64);
const GA = `GA1.2.${randomUUID()}`;

let tributary: Tributary;
let organization: ProfileOrganization;
let client: ProfileClient;
/** A record as the write and as the search returned it. */
let records: readonly ProfileRecord[];
let before: number;
beforeAll(async () => {
  tributary = await startTributary();
  organization = await openProfiles(tributary.owner, tributary.workspaceId, sendTo(tributary.url));
  client = organization.client;
  before = Date.now();
  const written = await client.write(
    { email: EMAIL, cellphone_sha256: PHONE_HASH, ga_clientid: GA, loyalty_card: 'L-1' },
    {
      upsert: {
        profile: { audience: { segment: 'gold', scores: [1, 2.5] }, demographics: { year: 1990 }, tier: 'a' },
        mkt_preferences: { newsletter: 'yes' },
        consent: { analytics: 'granted' },
      },
    },
  );
  records = [written, ...(await client.search({ email: [EMAIL] }))];
});
afterAll(() => tributary.remove());

const stranger = async () => {
  const issuer = openDevIssuer({ dataFolder: tributary.folder, devIssuerKey: '' });
  const person = tributary.owner.with({ token: await issuer.mint(fresh('stranger')) });
  const { id } = await person.post<{ id: string }>('/workspaces', { name: 'Elsewhere' });
  return openProfiles(person.with({ workspaceId: id }), id, sendTo(tributary.url));
};

describe('What the service does', () => {
  it('profiles are identified by a ucid and by identities of several types', async () => {
    const [record] = records;
    const searches = { email: EMAIL, cellphone_sha256: PHONE_HASH, ga_clientid: GA, loyalty_card: 'L-1' };
    for (const [type, value] of Object.entries({ ...searches, ucid: record?.ucid ?? '' }))
      expect(await client.search({ [type]: [value] })).toEqual([record]);
  });

  it('an organization never reads, changes or deletes the profiles of another', async () => {
    const elsewhere = await stranger();
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
      expect(await intruder.call(path, body)).toMatchObject(DENIED);
    expect(await client.search({ email: [email] })).toEqual([mine]);
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

  it.each(Object.entries(PATHS))('%s: HTTP POST with a JSON body, and a JSON answer', async (_, path) => {
    const [, body] = Object.values(PROFILE_CALLS).find(([at]) => at === path) ?? ['', {}];
    const answer = await client.call(path, body);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toMatch(/^application\/json/);
    for (const method of ['GET', 'PUT', 'DELETE'])
      expect(
        (await fetch(`${tributary.url}/cdp/v1/users${path}`, { method, headers: client.headers })).status,
      ).toBe(405);
    expect((await client.call(path, body, { 'content-type': 'text/plain' })).status).toBe(415);
  });
});

describe('Resources and their fields', () => {
  describe('ProfileRecord', () => {
    it('has the fields of the specification and no others, as the write and the search return it', () => {
      const isNow = expect.toSatisfy(
        (at: unknown) => Number.isInteger(at) && Number(at) >= before && Number(at) <= Date.now(),
      );
      const preference = {
        datasourceId: organization.keyId,
        datasetId: 'api',
        type: 'newsletter',
        value: 'yes',
      };
      expect(records).toHaveLength(2);
      for (const record of records)
        expect(record).toEqual({
          updated_ts: isNow,
          created_ts: isNow,
          profile: {
            audience: { segment: 'gold', scores: [1, 2.5], _ts: EPOCH_MS },
            demographics: { year: 1990, _ts: EPOCH_MS },
            tier: 'a',
          },
          // Each namespace is an array of values, named after their type, which may be a hashed variant.
          ids: {
            cellphone: [{ cellphone_sha256: PHONE_HASH, _ts: EPOCH_MS }],
            email: [{ email: EMAIL, _ts: EPOCH_MS }],
            ga_clientid: [{ ga_clientid: GA, _ts: EPOCH_MS }],
            loyalty_card: [{ loyalty_card: 'L-1', _ts: EPOCH_MS }],
          },
          mkt_preferences: { newsletter: { ...preference, _ts: EPOCH_MS } },
          consent: { analytics: { value: 'granted', _ts: EPOCH_MS } },
          region: 'eu',
          ucid: UUID,
        });
    });

    it('may have no attributes, preferences and consents', async () => {
      const email = fresh();
      const empty = { profile: {}, mkt_preferences: {}, consent: {} };
      expect(await client.write({ email })).toMatchObject(empty);
      const [record] = await client.search({ email: [email] });
      for (const [field, value] of Object.entries(empty)) expect(record?.[field as 'profile']).toEqual(value);
    });

    it('keeps the time of its creation, and has the time of its last change', async () => {
      const email = fresh();
      const first = await client.write({ email }, { upsert: { profile: { a: { b: 1 } } } });
      const second = await client.write({ email }, { upsert: { profile: { a: { b: 2 } } } });
      expect(second).toMatchObject({ ucid: first.ucid, created_ts: first.created_ts });
      expect(second.updated_ts).toBeGreaterThan(first.updated_ts);
    });
  });

  describe('IdentityMap', () => {
    it('lists identities under their namespace, each with a property named after its own type', async () => {
      const hashed = { cellphone_sha256: 'c'.repeat(64), cellphone_md5_uppercase: 'B'.repeat(32) };
      const { ids } = await client.write({ cellphone: fresh('49170'), ...hashed, AdId: fresh('ad') });
      expect(Object.keys(ids).sort()).toEqual(['AdId', 'cellphone']);
      expect(ids.cellphone).toHaveLength(3);
      expect(ids.cellphone).toContainEqual({ cellphone_sha256: 'c'.repeat(64), _ts: EPOCH_MS });
      expect(ids.cellphone).toContainEqual({ cellphone_md5_uppercase: 'b'.repeat(32), _ts: EPOCH_MS });
    });

    it('`linkedUcid`: an array of plain UUIDs', async () => {
      const [email, AdId] = [fresh(), fresh('ad')];
      await client.write({ email });
      const { ucid } = await client.write({ AdId });
      const { ids } = await client.write({ email, AdId });
      expect(ids.linkedUcid).toEqual([ucid]);
      expect(ids.linkedUcid).toEqual([UUID]);
    });
  });

  describe('Common request values', () => {
    it.each(['email', 'cellphone', 'AdId', 'ga_clientid', 'a_type.of:ours-1'])(
      'identifier type %s',
      async (type) => {
        const value = fresh();
        const { ucid } = await client.write({ [type]: value });
        expect(await client.search({ [type]: [value] })).toMatchObject([{ ucid }]);
        expect((await client.delete({ [type]: [value] })).deletedProfiles).toEqual([ucid]);
      },
    );
  });
});

/** A rule of a field of a body: what breaks it is 400 with the path of the field, and changes no data. */
const REFUSED: readonly (readonly [
  rule: string,
  operation: keyof typeof PATHS,
  changes: object,
  path: string,
])[] = [
  ['`region` is required', 'write', { region: undefined }, '/region'],
  ['`region` is one of the organization', 'write', { region: 'mars' }, '/region'],
  ['`ids` is required without `ucid`', 'write', { ids: undefined }, '/ids'],
  ['`ids` is not empty', 'write', { ids: {} }, '/ids'],
  ['`ids` has ONE value for a type', 'write', { ids: { email: [EMAIL] } }, '/ids/email'],
  ['`ids` has strings', 'write', { ids: { email: 7 } }, '/ids/email'],
  [
    '`upsert.mkt_preferences` has strings',
    'write',
    { upsert: { mkt_preferences: { sms: true } } },
    '/upsert/mkt_preferences/sms',
  ],
  ['`upsert.consent` has strings', 'write', { upsert: { consent: { ads: 1 } } }, '/upsert/consent/ads'],
  ['`ucid` is a UUID', 'write', { ucid: 'x' }, '/ucid'],
  ['`ucid` is that of a profile', 'write', { ucid: randomUUID() }, '/ucid'],
  ['only one of both forms of the body', 'write', { search: { email: [EMAIL] } }, '/search'],
  ['`regions` are those of the organization', 'search', { regions: ['eu', 'mars'] }, '/regions/1'],
  ['`search` is not empty', 'search', { search: {} }, '/search'],
  ['`search` has arrays', 'search', { search: { email: EMAIL } }, '/search/email'],
  ['`search` has strings', 'search', { search: { email: [EMAIL, 7] } }, '/search/email/1'],
  ['`region` is required without `regions`', 'delete', { region: undefined }, '/region'],
  ['`region` is one of the organization', 'delete', { region: 'mars' }, '/region'],
  ['`region` or `regions`, not both', 'delete', { regions: ['eu'] }, '/regions'],
  ['`ids` has exactly ONE type, not none', 'delete', { ids: {} }, '/ids'],
  ['`ids` has exactly ONE type, not two', 'delete', { ids: { email: [EMAIL], AdId: ['x'] } }, '/ids'],
  ['`ids` has an array', 'delete', { ids: { email: EMAIL } }, '/ids/email'],
  ['`ids` has values', 'delete', { ids: { email: [] } }, '/ids/email'],
  ['`ids` has strings', 'delete', { ids: { email: [EMAIL, 7] } }, '/ids/email/1'],
  ['`ids` has at most 400 values', 'delete', { ids: { email: [EMAIL, ...nobodies(400)] } }, '/ids/email'],
];

const BODIES = {
  write: { region: 'eu', ids: { email: EMAIL }, upsert: { profile: { audience: { segment: 'changed' } } } },
  search: { regions: ['eu'], search: { email: [EMAIL] } },
  delete: { region: 'eu', ids: { email: [EMAIL] } },
};

function nobodies(count: number): readonly string[] {
  return Array.from({ length: count }, (_, n) => `${n}.${EMAIL}`);
}

function refuse(operation: keyof typeof PATHS) {
  const rows = REFUSED.filter(([, of]) => of === operation);
  it.each(rows)('%s: %s', async (_, __, changes, path) => {
    const body = { ...BODIES[operation], ...changes };
    expect(await client.call(PATHS[operation], body)).toMatchObject({
      status: 400,
      body: { error: 'invalid request', details: [{ path, message: expect.stringMatching(/^\w.*[^.]$/) }] },
    });
    expect(await client.search({ email: [EMAIL] })).toEqual([records[0]]);
  });
}

describe('Endpoints', () => {
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

  describe('Write profile', () => {
    refuse('write');

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
      expect(await client.search({ email: [email] })).toEqual([changed]);
    });

    it.each([
      ['`upsert.profile`: an object of attributes', { profile: { a: { b: 1 }, c: 'x' } }],
      ['`upsert.mkt_preferences`: from names to strings', { mkt_preferences: { sms: 'no' } }],
      ['`upsert.consent`: from names to strings', { consent: { ads: 'no' } }],
      ['`upsert`: is optional', {}],
    ])('%s', async (_, upsert) => {
      const email = fresh();
      const written = await client.write({ email }, Object.keys(upsert).length > 0 ? { upsert } : {});
      expect(await client.search({ email: [email] })).toEqual([written]);
      for (const map of ['profile', 'mkt_preferences', 'consent'] as const) {
        const sent: Readonly<Record<string, object>> = upsert;
        expect(Object.keys(written[map])).toEqual(Object.keys(sent[map] ?? {}));
      }
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
  });

  describe('Search profiles', () => {
    refuse('search');

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
  });

  describe('Delete profiles', () => {
    refuse('delete');

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
      const nobody = nobodies(399);
      const answer = await client.call<{ readonly ucids: readonly string[] }>('/_delete', {
        regions: ['eu', 'us'],
        ids: { email: [email, ...nobody] },
      });
      expect(answer).toMatchObject({ status: 200, body: { profilesNotFound: nobody } });
      expect(answer.body.ucids.toSorted()).toEqual([eu.ucid, us.ucid].toSorted());
    });

    it.each([undefined, false, true])('`sendEmailNotification` may be %s', async (sendEmailNotification) => {
      const email = fresh();
      const { ucid } = await client.write({ email });
      const deleted = await client.delete({ email: [email] }, { sendEmailNotification });
      expect(deleted).toEqual({ ucids: [ucid], deletedProfiles: [ucid], profilesNotFound: [] });
    });
  });
});

describe('Authentication', () => {
  const orgId = () => String(organization.orgId);

  it.each(OPERATIONS)('%s: `orgId` is optional with an API key', async (_, scope) => {
    const status = async (value: string) =>
      (await client.call(...PROFILE_CALLS[scope], { orgId: value })).status;
    expect([await status(''), await status(orgId()), await status('999999')]).toEqual([200, 200, 403]);
    for (const value of ['x', '1.5', '-1']) expect(await status(value)).toBe(400);
  });
});

describe('Versioning', () => {
  it.each(['/cdp/users', '/cdp/v2/users', '/v1/users', '/api/v1/users'])(
    'the version is a path segment: %s is 404',
    async (path) => {
      const send = sendTo(tributary.url);
      const headers = { ...client.headers, 'content-type': 'application/json' };
      const body = JSON.stringify({ orgId: organization.orgId, ...PROFILE_CALLS[READ][1] });
      expect((await send('/cdp/v1/users/_search', headers, body)).status).toBe(200);
      expect((await send(`${path}/_search`, headers, body)).status).toBe(404);
    },
  );

  it('the machine-readable description has the version 1.0.0 and the three operations', async () => {
    const answer = await fetch(`${tributary.url}/openapi.json`);
    const described = (await answer.json()) as { info: object; paths: Readonly<Record<string, object>> };
    expect(described.info).toMatchObject({ version: '1.0.0' });
    const ids = { write: 'writeProfile', search: 'searchProfiles', delete: 'deleteProfiles' };
    const responses = { 200: {}, 400: {}, 401: {}, 403: {} };
    for (const [operation] of OPERATIONS)
      expect(described.paths[`/cdp/v1/users${PATHS[operation]}`]).toMatchObject({
        post: {
          operationId: ids[operation],
          parameters: expect.arrayContaining([
            expect.objectContaining({ name: 'scopes', in: 'header', required: true }),
            expect.objectContaining({ name: 'orgId', in: 'header', required: false }),
          ]),
          responses,
        },
      });
  });
});

describe('What the specification leaves open', () => {
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

  it('never replaces a value with a newer `_ts`, in either order of arrival', async () => {
    const email = fresh();
    const at = (ts: string | number, city: string) =>
      client.write({ email }, { upsert: { profile: { home: { city, _ts: ts } } } });
    await at('1700000000002', 'newer');
    const { profile } = await at(1_700_000_000_001, 'older');
    expect(profile).toEqual({ home: { city: 'newer', _ts: '1700000000002' } });
  });

  it('finds an e-mail address in any case, with blanks around it, and by its SHA-256', async () => {
    const name = randomUUID();
    const record = await client.write({ email: ` ${name.toUpperCase()}@Example.COM ` });
    expect(record.ids.email).toEqual([{ email: `${name}@example.com`, _ts: EPOCH_MS }]);
    const digest = createHash('sha256').update(`${name}@example.com`).digest('hex');
    for (const search of [{ email: [`${name}@EXAMPLE.com`] }, { email_sha256_lowercase: [digest] }])
      expect(await client.search(search)).toEqual([record]);
  });

  it('releases the identities: a later write of one creates a new profile', async () => {
    const email = fresh();
    const { ucid } = await client.write({ email }, { upsert: { profile: { a: { b: 1 } } } });
    await client.delete({ email: [email] });
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
          ...{ requested: 4, changed: 2, not_found: 2, status: 'done' },
        },
        request_id: expect.any(String),
      });
      expect(JSON.stringify(entry)).not.toContain(email);
    }
  });
});
