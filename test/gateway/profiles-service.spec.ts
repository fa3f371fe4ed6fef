import {
  CLIENT_KEY_SCOPES,
  DeletedInPart,
  InvalidInput,
  type Profile,
  type ProfileOperation,
  recordOf,
  TOPIC,
  Unavailable,
} from '@tributary/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openTestGateway, type TestGateway, type TestGatewayOptions } from '../helpers/gateway.ts';
import {
  makeClientKey,
  openProfiles,
  PROFILE_CALLS,
  type ProfileOrganization,
  sendInto,
} from '../helpers/profile-client.ts';

/** A gateway with an organization, a client key of it, and a way to make more. */
async function open(options: TestGatewayOptions = {}) {
  const gateway: TestGateway = await openTestGateway(options);
  onTestFinished(() => gateway.close());
  const owner = await gateway.openWorkspace();
  const organization: ProfileOrganization = await openProfiles(
    owner,
    owner.workspaceId,
    sendInto(gateway.app),
  );
  return { gateway, owner, organization, client: organization.client };
}

const SEARCH = PROFILE_CALLS['profile.read'];
const SECONDS = /^[1-9]\d*$/;

describe('the profile API', () => {
  it('has its version in its path, and is at no other', async () => {
    const { gateway, client } = await open();
    for (const url of [
      '/cdp/users',
      '/cdp/v2/users',
      '/v1/users',
      '/users',
      '/api/v1/users',
      '/api/v1/cdp/v1/users',
    ])
      expect((await gateway.app.inject({ method: 'POST', url, headers: client.headers })).statusCode).toBe(
        404,
      );
    for (const method of ['GET', 'PUT', 'DELETE'] as const)
      expect(
        (await gateway.app.inject({ method, url: '/cdp/v1/users', headers: client.headers })).statusCode,
      ).toBe(405);
    expect((await client.call(...SEARCH)).status).toBe(200);
  });

  it.each([
    ['could take no attribute, preference or consent away', {}, { home: { floor: 2 }, plan: undefined }],
    [
      'keeps null as an attribute where the installation says so',
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

  it('could not take an identity away from a profile', async () => {
    const { owner, organization, client } = await open();
    const { ucid } = await client.write({ email: 'desk@example.com', AdId: 'un-1' });
    const unlink = (body: object, caller = client) =>
      caller.call<unknown>('/_unlink', { region: 'eu', ...body });
    const ids = { email: [' Desk@example.com'], AdId: ['un-2'] };
    const done = await unlink({ ids });
    expect(done).toMatchObject({ status: 200, body: { ucids: [ucid], identitiesNotFound: ['un-2'] } });
    expect(
      (await client.call('/_search', { regions: ['eu'], search: { email: ['desk@example.com'] } })).body,
    ).toEqual([]);
    expect(await unlink({ ids })).toMatchObject({
      status: 200,
      body: { ucids: [], identitiesNotFound: [' Desk@example.com', 'un-2'] },
    });
    expect(await unlink({ ids, ucid })).toMatchObject({ status: 200, body: { ucids: [ucid] } });
    await client.write({ AdId: 'un-3' });
    for (const [body, path] of [
      [{ ids: { AdId: ['un-1', 'un-3'] } }, '/ids'],
      [{ ids: { AdId: ['un-3'] }, ucid }, '/ids'],
      [{ ids: {} }, '/ids'],
      [{ ids: { AdId: ['null'] } }, '/ids/AdId/0'],
      [{ ids: { ucid: [ucid] } }, '/ids/ucid/0'],
      [{ ids, ucid: organization.id }, '/ucid'],
      [{ ids, region: 'mars' }, '/region'],
    ] as const)
      expect(await unlink(body)).toMatchObject({ status: 400, body: { details: [{ path }] } });
    const { key } = await makeClientKey(owner, organization.id, ['profile.read', 'profile.delete']);
    expect((await unlink({ ids }, client.withKey(key, 'profile.read,profile.delete'))).status).toBe(403);
    expect((await unlink({ ids }, client.naming(1_000_000))).status).toBe(403);
  });

  it('could not undo a wrong merge: what was merged stayed one', async () => {
    const { owner, organization, client } = await open();
    const ann = await client.write(
      { email: 'ann@m.example' },
      { upsert: { profile: { home: { city: 'Bari' } } } },
    );
    const bob = await client.write(
      { AdId: 'ad-bob' },
      { upsert: { profile: { 'a/b': { '~': 1 } }, mkt_preferences: { sms: 'no' }, consent: { ads: 'no' } } },
    );
    await client.write(
      { email: 'ann@m.example', AdId: 'ad-bob', cellphone: '+39000' },
      { upsert: { profile: { late: { 'x/y': 1 } }, consent: { terms: 'yes' } } },
    );
    const split = (body: object, caller = client) =>
      caller.call<unknown>('/_split', { region: 'eu', ucid: bob.ucid, ...body });
    const { key } = await makeClientKey(owner, organization.id, ['profile.read', 'profile.delete']);
    expect((await split({}, client.withKey(key, 'profile.read,profile.delete'))).status).toBe(403);
    expect((await split({}, client.naming(1_000_000))).status).toBe(403);
    for (const [body, path] of [
      [{ ucid: 'bob' }, '/ucid'],
      [{ ucid: organization.id }, '/ucid'],
      [{ region: 'mars' }, '/region'],
      [{ ucid: undefined }, '/ucid'],
      [{ ids: {} }, '/ids'],
    ] as const)
      expect(await split(body)).toMatchObject({ status: 400, body: { details: [{ path }] } });
    expect(await split({ ucid: ann.ucid })).toMatchObject({
      status: 409,
      body: { error: 'conflict', reason: 'not_merged', causes: [] },
    });
    expect(await split({ ucid: bob.ucid.toUpperCase() })).toMatchObject({
      status: 200,
      body: {
        ucid: bob.ucid,
        survivor: ann.ucid,
        kept: ['/profile/late/x~1y', '/consent/terms', '/ids/cellphone'],
      },
    });
    expect(await split({})).toMatchObject({ status: 409, body: { reason: 'not_merged' } });
    const [found] = await client.search({ AdId: ['ad-bob'] });
    expect(found).toMatchObject({
      ucid: bob.ucid,
      profile: { 'a/b': { '~': 1 } },
      ids: { AdId: [{ AdId: 'ad-bob' }] },
    });
    expect(found).toMatchObject({
      mkt_preferences: { sms: { value: 'no' } },
      consent: { ads: { value: 'no' } },
    });
    const [left] = await client.search({ email: ['ann@m.example'] });
    expect(Object.keys(left?.profile ?? {}).sort()).toEqual(['home', 'late']);
    expect(Object.keys(left?.ids ?? {}).sort()).toEqual(['cellphone', 'email']);

    await client.write({ email: 'ann@m.example', AdId: 'ad-bob' });
    const writer = await makeClientKey(owner, organization.id, ['profile.write']);
    expect((await split({}, client.withKey(writer.key, 'profile.write'))).body).toEqual({
      ucid: bob.ucid,
      survivor: ann.ucid,
    });
  });

  it('limits the calls of a key where that is configured: 429, and when to come again', async () => {
    const { owner, organization, client } = await open({ env: { TRIBUTARY_CALL_RATE: '20' } });
    const { key } = await makeClientKey(owner, organization.id, CLIENT_KEY_SCOPES);
    const answers = [];
    for (let n = 0; n < 21; n++) answers.push(await client.call(...SEARCH));
    expect(answers.map(({ status }) => status)).toEqual([...Array(20).fill(200), 429]);
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

  it('is 503 while the engine of the profiles does not answer, and says when to come back', async () => {
    const away = () => Promise.reject(new Unavailable('the engine is away'));
    const profiles = {
      upsert: away,
      search: away,
      delete: away,
      unlink: away,
      split: away,
      holdsProfiles: away,
      close: async () => {},
    };
    const { client } = await open({ dependencies: { profiles } });
    for (const call of Object.values(PROFILE_CALLS)) {
      const answer = await client.call(...call);
      expect(answer).toMatchObject({ status: 503, body: { error: 'unavailable' } });
      expect(answer.headers.get('retry-after')).toMatch(SECONDS);
    }
  });

  it('is 503 where the engine went away in the midst of a deletion, and tells who is deleted', async () => {
    const away = () => Promise.reject(new Unavailable('the engine is away'));
    const inPart = () => Promise.reject(new DeletedInPart('away', { deleted: ['gone'], notFound: [2] }));
    const profiles = {
      upsert: away,
      search: away,
      delete: inPart,
      unlink: away,
      split: away,
      holdsProfiles: away,
      close: async () => {},
    };
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

  it('is 400 where a search finds more than the store reads, and says what to do', async () => {
    const away = () => Promise.reject(new Unavailable('the engine is away'));
    const tooMuch = () => Promise.reject(new InvalidInput('finds more than can be read'));
    const profiles = {
      upsert: away,
      search: tooMuch,
      delete: away,
      unlink: away,
      split: away,
      holdsProfiles: away,
      close: async () => {},
    };
    const { client } = await open({ dependencies: { profiles } });
    expect(await client.call(...PROFILE_CALLS['profile.read'])).toMatchObject({
      status: 400,
      body: { details: [{ path: '/search', message: 'finds more than can be read' }] },
    });
  });
});

describe('the answer to a search', () => {
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

  /** The answer of a gateway whose store finds so many profiles of a megabyte. */
  async function answerWith(count: number) {
    const away = () => Promise.reject(new Unavailable('the engine is away'));
    const profiles = {
      upsert: away,
      search: async () => found(count),
      delete: away,
      unlink: away,
      split: away,
      holdsProfiles: away,
      close: async () => {},
    };
    const { client } = await open({ dependencies: { profiles } });
    return client.call<unknown>(...SEARCH);
  }

  it('comes whole, in however many pieces', async () => {
    const { status, headers, body } = await answerWith(3);
    expect({ status, type: headers.get('content-type') }).toEqual({
      status: 200,
      type: 'application/json; charset=utf-8',
    });
    expect(body).toEqual(found(3).map(recordOf));
  });

  it('of more than 32 MiB is 400: to be asked for in parts', async () => {
    expect(await answerWith(34)).toMatchObject({
      status: 400,
      body: { error: 'invalid request', details: [{ path: '/search' }] },
    });
  });
});

describe('the audit log of deletions', () => {
  const recordsOf = async (gateway: TestGateway) => {
    const { entries } = await gateway.dependencies.log.read(TOPIC.profileOperations, 0, 0);
    return entries.map(({ value }) => JSON.parse(value) as ProfileOperation);
  };

  it('lacked who deleted whom: it is told before and after, by counts and ucids, without a value', async () => {
    const { gateway, organization, client } = await open();
    const made = [
      await client.write({ email: 'ann@secret.example' }),
      await client.write({ email: 'ben@secret.example' }),
    ];
    await client.delete({ email: made.map((_, n) => `${['ann', 'ben'][n]}@secret.example`).concat('none') });
    const [begun, ended, ...others] = await recordsOf(gateway);
    expect(others).toEqual([]);
    expect(begun).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      name: 'deleted',
      organization_id: organization.id,
      regions: ['eu'],
      identity_types: ['email'],
      requested: 3,
      at: expect.stringMatching(/Z$/),
      by: `key:${organization.keyId}`,
      from: { address: '127.0.0.1', request_id: expect.stringMatching(/^[0-9a-f-]{36}$/) },
    });
    const ucids = made.map(({ ucid }) => ucid);
    expect(ended).toEqual({
      ...begun,
      outcome: { ucids: expect.arrayContaining(ucids), not_found: 1, complete: true },
    });
    expect(JSON.stringify([begun, ended])).not.toContain('secret');
  });

  it('lacked who took an identity away from whom', async () => {
    const { gateway, client } = await open();
    const { ucid } = await client.write({ email: 'cy@secret.example', AdId: 'ad-cy' });
    const body = { region: 'eu', ids: { AdId: ['ad-cy', 'ad-none'] } };
    expect(await client.call('/_unlink', body)).toMatchObject({
      status: 200,
      body: { ucids: [ucid], identitiesNotFound: ['ad-none'] },
    });
    expect(await recordsOf(gateway)).toMatchObject([
      { name: 'unlinked', identity_types: ['AdId'], requested: 2 },
      { name: 'unlinked', outcome: { ucids: [ucid], not_found: 1, complete: true } },
    ]);
  });

  it('lacked who undid which merge', async () => {
    const { gateway, client } = await open();
    const [one, other] = [await client.write({ AdId: 's-1' }), await client.write({ AdId: 's-2' })];
    await client.write({ AdId: 's-1', email: 'di@secret.example' }, { ucid: other.ucid });
    const body = { region: 'eu', ucid: other.ucid };
    expect((await client.call('/_split', body)).status).toBe(200);
    expect((await client.call('/_split', body)).status).toBe(409);
    const records = await recordsOf(gateway);
    expect(records).toMatchObject([
      { name: 'split', identity_types: ['ucid'], requested: 1 },
      { name: 'split', outcome: { ucids: [other.ucid, one.ucid], not_found: 0, complete: true } },
      { name: 'split' },
      { name: 'split', outcome: { ucids: [], not_found: 0, complete: true } },
    ]);
    expect(records[1]?.id).toBe(records[0]?.id);
    expect(JSON.stringify(records)).not.toContain('secret');
  });

  it('lost a deletion whose process died: nobody is deleted before it is on record that it was begun', async () => {
    const recordProfileOperation = () => Promise.reject(new Unavailable('the log is away'));
    const { client } = await open({ dependencies: { recordProfileOperation } });
    const { ucid } = await client.write({ AdId: 'kept' });
    expect((await client.call('/_delete', { region: 'eu', ids: { AdId: ['kept'] } })).status).toBe(503);
    expect(await client.search({ AdId: ['kept'] })).toMatchObject([{ ucid }]);
  });

  it('tells the caller who is deleted where the end cannot be recorded, or the engine went away in it', async () => {
    const records: ProfileOperation[] = [];
    const recordProfileOperation = async (operation: ProfileOperation) => {
      records.push(operation);
      if (operation.outcome !== undefined) throw new Unavailable('the log is away');
    };
    const { client } = await open({ dependencies: { recordProfileOperation } });
    const { ucid } = await client.write({ AdId: 'gone' });
    const body = { region: 'eu', ids: { AdId: ['gone', 'null'] } };
    expect(await client.call('/_delete', body)).toMatchObject({
      status: 503,
      body: { deletedProfiles: [ucid], profilesNotFound: ['null'] },
    });
    const away = () => Promise.reject(new Unavailable('the engine is away'));
    const inPart = () => Promise.reject(new DeletedInPart('away', { deleted: ['some'], notFound: [] }));
    const profiles = {
      upsert: away,
      search: away,
      delete: inPart,
      unlink: away,
      split: away,
      holdsProfiles: away,
      close: async () => {},
    };
    const other = await open({ dependencies: { recordProfileOperation, profiles } });
    expect((await other.client.call('/_delete', body)).body).toMatchObject({ deletedProfiles: ['some'] });
    expect(records.map(({ outcome }) => outcome)).toEqual([
      undefined,
      { ucids: [ucid], not_found: 1, complete: true },
      undefined,
      { ucids: ['some'], not_found: 1, complete: false },
    ]);
  });
});

describe('the mail about a deletion', () => {
  it('is queued when the body says so, with counts and without anybody’s name', async () => {
    const { gateway, organization, client } = await open();
    const queued = async () => {
      const { entries } = await gateway.dependencies.log.read(TOPIC.mail, 0, 0, { maxBytes: 1e6 });
      return entries.map(({ value }) => JSON.parse(value) as unknown);
    };
    await client.write({ AdId: 'a' });
    await client.delete({ AdId: ['a'] });
    await client.delete({ AdId: ['b'] }, { sendEmailNotification: false });
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

  it('is not lost, nor what was deleted: where it cannot be queued the 503 tells, and the call may be repeated', async () => {
    const requestDeletionNotice = () => Promise.reject(new Unavailable('the log is away'));
    const { client } = await open({ dependencies: { requestDeletionNotice } });
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
