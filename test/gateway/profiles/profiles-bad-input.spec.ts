import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openTestGateway, type TestGateway } from '../../helpers/gateway.ts';
import { openProfiles, type ProfileClient, sendInto } from '../../helpers/profile-client.ts';

const EMAIL = 'somebody@example.com';

interface Refusal {
  readonly error: string;
  readonly details: readonly { readonly path: string; readonly message: string }[];
}

let test: TestGateway;
let client: ProfileClient;
beforeAll(async () => {
  test = await openTestGateway();
  const owner = await test.openWorkspace();
  client = (await openProfiles(owner, owner.workspaceId, sendInto(test.app))).client;
});
afterAll(() => test.close());

const WRITE = { region: 'eu', ids: { email: EMAIL } };
const SEARCH = { regions: ['eu'], search: { email: [EMAIL] } };
const DELETION = { region: 'eu', ids: { email: [EMAIL] } };

const texts = (count: number) => Array.from({ length: count }, (_, n) => `n${n}@example.com`);

/** Expects a 400 with the one error and these paths. */
async function expectRefused(path: string, body: object, paths: readonly string[]): Promise<void> {
  const { status, body: refusal } = await client.call<Refusal>(path, body);
  expect({ status, error: refusal.error }).toEqual({ status: 400, error: 'invalid request' });
  expect(refusal.details.map((detail) => detail.path)).toEqual(paths);
  for (const { message } of refusal.details) expect(message).toMatch(/^\w.*[^.]$/);
}

/** `JSON.rawJSON` keeps its digits. */
const BIG = JSON.rawJSON('4918273645546372819');

describe('a write', () => {
  it.each<[string, object, string]>([
    ['identities', { region: 'eu', ids: BIG }, '/ids'],
    ['an identity', { region: 'eu', ids: { email: BIG } }, '/ids/email'],
    ['an upsert', { ...WRITE, upsert: BIG }, '/upsert'],
    ['attributes', { ...WRITE, upsert: { profile: BIG } }, '/upsert/profile'],
    ['consents', { ...WRITE, upsert: { consent: BIG } }, '/upsert/consent'],
    ['preferences', { ...WRITE, upsert: { mkt_preferences: BIG } }, '/upsert/mkt_preferences'],
  ])('accepted a number with many digits as an object: for %s', async (_, body, path) => {
    await expectRefused('', body, [path]);
  });

  it.each<[string, object, readonly string[]]>([
    ['no region', { ids: WRITE.ids }, ['/region']],
    ['no identities and no ucid', { region: 'eu' }, ['/ids']],
    ['empty ids', { region: 'eu', ids: {} }, ['/ids']],
    ['ids that are a list', { ...WRITE, ids: [EMAIL] }, ['/ids']],
    ['a number as an identity', { ...WRITE, ids: { email: 7 } }, ['/ids/email']],
    ['a list as an identity', { ...WRITE, ids: { email: [EMAIL] } }, ['/ids/email']],
    ['a ucid among the ids', { ...WRITE, ids: { ucid: randomUUID() } }, ['/ids/ucid']],
    ['linked ucids among the ids', { ...WRITE, ids: { linkedUcid: randomUUID() } }, ['/ids/linkedUcid']],
    ['a type with a blank', { ...WRITE, ids: { 'e mail': EMAIL } }, ['/ids/e mail']],
    ['a type with a slash', { ...WRITE, ids: { 'e/mail~': EMAIL } }, ['/ids/e~1mail~0']],
    ['a type that is a name of JavaScript', { ...WRITE, ids: { constructor: EMAIL } }, ['/ids/constructor']],
    ['an identity that is too long', { ...WRITE, ids: { AdId: 'x'.repeat(513) } }, ['/ids/AdId']],
    ['orgId as text', { ...WRITE, orgId: '1' }, ['/orgId']],
    ['orgId with a fraction', { ...WRITE, orgId: 1.5 }, ['/orgId']],
    ['no orgId', { ...WRITE, orgId: undefined }, ['/orgId']],
    ['orgId null', { ...WRITE, orgId: null }, ['/orgId']],
    ['a number as region', { ...WRITE, region: 7 }, ['/region']],
    ['an unknown region', { ...WRITE, region: 'mars' }, ['/region']],
    ['a region in capitals', { ...WRITE, region: 'EU' }, ['/region']],
    ['an unknown field', { ...WRITE, attributes: {} }, ['/attributes']],
    ['a misspelt field of upsert', { ...WRITE, upsert: { profiles: {} } }, ['/upsert/profiles']],
    ['an upsert that is not an object', { ...WRITE, upsert: [] }, ['/upsert']],
    ['a profile that is not an object', { ...WRITE, upsert: { profile: 'x' } }, ['/upsert/profile']],
    [
      'a preference that is not text',
      { ...WRITE, upsert: { mkt_preferences: { sms: true } } },
      ['/upsert/mkt_preferences/sms'],
    ],
    ['a consent that is not text', { ...WRITE, upsert: { consent: { ads: 1 } } }, ['/upsert/consent/ads']],
    ['an invalid time', { ...WRITE, upsert: { profile: { a: { _ts: 'now' } } } }, ['/upsert/profile/a/_ts']],
    [
      'a time with a fraction',
      { ...WRITE, upsert: { profile: { a: { _ts: 1.5 } } } },
      ['/upsert/profile/a/_ts'],
    ],
    [
      'a time before all times',
      { ...WRITE, upsert: { profile: { a: { _ts: -1 } } } },
      ['/upsert/profile/a/_ts'],
    ],
    [
      'a time after all times',
      { ...WRITE, upsert: { profile: { a: { _ts: 1e16 } } } },
      ['/upsert/profile/a/_ts'],
    ],
    [
      'a time in seconds',
      { ...WRITE, upsert: { profile: { a: { _ts: 1_612_345_678 } } } },
      ['/upsert/profile/a/_ts'],
    ],
    [
      'a time in microseconds',
      { ...WRITE, upsert: { profile: { a: { _ts: '1612345678000000' } } } },
      ['/upsert/profile/a/_ts'],
    ],
    ['a category that is a time', { ...WRITE, upsert: { profile: { _ts: '1' } } }, ['/upsert/profile/_ts']],
    ['a ucid that is no UUID', { ...WRITE, ucid: 'x' }, ['/ucid']],
    ['a ucid that is not text', { ...WRITE, ucid: 7 }, ['/ucid']],
    ['a ucid of no profile', { ...WRITE, ucid: randomUUID() }, ['/ucid']],
    ['both forms of the body', { ...WRITE, ...SEARCH }, ['/regions', '/search']],
    ['regions beside region', { ...WRITE, regions: ['eu'] }, ['/regions']],
    ['search beside ids', { ...WRITE, search: SEARCH.search }, ['/search']],
    ['a mix of both forms of the body', { region: 'eu', search: SEARCH.search }, ['/search']],
    [
      'the second half of one shape, the first of the other',
      { regions: ['eu'], ids: WRITE.ids },
      ['/regions'],
    ],
    ['several regions', { ...SEARCH, regions: ['eu', 'us'] }, ['/regions']],
    ['no regions', { ...SEARCH, regions: [] }, ['/regions']],
    ['101 regions', { ...SEARCH, regions: texts(101) }, ['/regions']],
    ['two values to write', { ...SEARCH, search: { email: [EMAIL, 'b@example.com'] } }, ['/search/email']],
    ['an empty search', { ...SEARCH, search: {} }, ['/search']],
  ])('is refused with %s', async (_, body, paths) => expectRefused('', body, paths));

  it.each([
    '',
    ' ',
    'null',
    'NULL',
    'undefined',
    'none',
    'N/A',
    'unknown',
    'Anonymous',
    'guest',
    'test',
    '0',
    '-1',
    '00000000-0000-0000-0000-000000000000',
  ])('is refused with the placeholder %j in place of an identity', async (value) => {
    await expectRefused('', { ...WRITE, ids: { user_id: value } }, ['/ids/user_id']);
    await expectRefused('/_search', { ...SEARCH, search: { user_id: [value] } }, ['/search/user_id/0']);
  });

  it('is refused with all faults at once', async () => {
    const ids = { email: 'null', 'no type': 'x', ucid: randomUUID() };
    const upsert = { profile: { _ts: 1, home: { _ts: 'x' } } };
    await expectRefused('', { region: 'eu', ids, ucid: 'x', upsert }, [
      '/ids/email',
      '/ids/no type',
      '/ids/ucid',
      '/ucid',
      '/upsert/profile/_ts',
      '/upsert/profile/home/_ts',
    ]);
  });
});

describe('a search', () => {
  it.each<[string, object, readonly string[]]>([
    ['no regions', { search: SEARCH.search }, ['/regions']],
    ['empty regions', { ...SEARCH, regions: [] }, ['/regions']],
    ['region in place of regions', { region: 'eu', search: SEARCH.search }, ['/regions', '/region']],
    ['one unknown region of two', { ...SEARCH, regions: ['eu', 'mars'] }, ['/regions/1']],
    ['a number as region', { ...SEARCH, regions: [7] }, ['/regions/0']],
    ['101 regions', { ...SEARCH, regions: texts(101) }, ['/regions']],
    [
      '100 unknown regions, of which 20 are reported',
      { ...SEARCH, regions: texts(100) },
      Array.from({ length: 20 }, (_, n) => `/regions/${n}`),
    ],
    ['no search', { regions: ['eu'] }, ['/search']],
    ['an empty search', { ...SEARCH, search: {} }, ['/search']],
    ['a type without values', { ...SEARCH, search: { email: [EMAIL], AdId: [] } }, ['/search/AdId']],
    ['a value that is no list', { ...SEARCH, search: { email: EMAIL } }, ['/search/email']],
    ['a number as value', { ...SEARCH, search: { email: [EMAIL, 7] } }, ['/search/email/1']],
    ['a ucid that is no UUID', { ...SEARCH, search: { ucid: [randomUUID(), 'x'] } }, ['/search/ucid/1']],
    ['a reserved type', { ...SEARCH, search: { linkedUcid: [randomUUID()] } }, ['/search/linkedUcid/0']],
    ['an unknown field', { ...SEARCH, limit: 7 }, ['/limit']],
    ['1,001 values', { ...SEARCH, search: { email: texts(500), AdId: texts(501) } }, ['/search']],
  ])('is refused with %s', async (_, body, paths) => expectRefused('/_search', body, paths));

  it('accepts 1,000 values', async () => {
    const search = { email: texts(500), AdId: texts(500) };
    expect(await client.call('/_search', { ...SEARCH, search })).toMatchObject({ status: 200, body: [] });
  });
});

describe('a deletion', () => {
  it.each<[string, object, readonly string[]]>([
    ['no region', { ids: DELETION.ids }, ['/region']],
    ['region and regions', { ...DELETION, regions: ['eu'] }, ['/regions']],
    ['an unknown region', { ...DELETION, region: 'mars' }, ['/region']],
    ['one unknown region of two', { regions: ['eu', 'mars'], ids: DELETION.ids }, ['/regions/1']],
    ['101 regions', { regions: texts(101), ids: DELETION.ids }, ['/regions']],
    ['no ids', { region: 'eu' }, ['/ids']],
    ['no type', { ...DELETION, ids: {} }, ['/ids']],
    ['two types', { ...DELETION, ids: { email: [EMAIL], AdId: ['x'] } }, ['/ids']],
    ['no values', { ...DELETION, ids: { email: [] } }, ['/ids/email']],
    ['401 values', { ...DELETION, ids: { email: texts(401) } }, ['/ids/email']],
    ['a value that is no list', { ...DELETION, ids: { email: EMAIL } }, ['/ids/email']],
    ['a number as value', { ...DELETION, ids: { email: [7] } }, ['/ids/email/0']],
    ['a reserved type', { ...DELETION, ids: { linkedUcid: [randomUUID()] } }, ['/ids/linkedUcid']],
    ['an invalid name of a type', { ...DELETION, ids: { 'no type': ['x'] } }, ['/ids/no type']],
    ['a flag that is a text', { ...DELETION, sendEmailNotification: 'true' }, ['/sendEmailNotification']],
    ['a flag that is a number', { ...DELETION, sendEmailNotification: 1 }, ['/sendEmailNotification']],
    ['an unknown field', { ...DELETION, search: {} }, ['/search']],
  ])('is refused with %s', async (_, body, paths) => expectRefused('/_delete', body, paths));

  it('was refused as a whole for one invalid value: that value is returned as not found', async () => {
    const { ucid } = await client.write({ user_id: 'erased 1' });
    const second = await client.write({ user_id: 'erased 2' });
    const long = 'x'.repeat(513);
    const bad = ['', ' GUEST ', long, '00000000-0000-0000-0000-000000000000', ' GUEST '];
    const ids = { user_id: ['erased 1', ...bad, 'nobody at all', 'erased 2'] };
    const { deletedProfiles, profilesNotFound } = await client.delete(ids);
    expect(deletedProfiles.toSorted()).toEqual([ucid, second.ucid].toSorted());
    expect(profilesNotFound).toEqual([...bad.slice(0, -1), 'nobody at all']);
    expect(await client.search({ user_id: ['erased 1', 'erased 2'] })).toEqual([]);
    const third = await client.write({ user_id: 'erased 3' });
    expect(await client.delete({ ucid: ['7', third.ucid.toUpperCase()] })).toEqual({
      ucids: [third.ucid],
      deletedProfiles: [third.ucid],
      profilesNotFound: ['7'],
    });
    expect((await client.delete({ ucid: ['none'] })).profilesNotFound).toEqual(['none']);
  });
});

describe('a body', () => {
  const send = sendInto;
  const headers = () => ({ ...client.headers, 'content-type': 'application/json' });

  it.each([
    ['', 400],
    ['[]', 400],
    ['null', 400],
    ['{', 400],
    ['{"orgId":1,"orgId":1,"region":"eu","ids":{"AdId":"x"}}', 400],
    ['{"orgId":1,"region":"eu","ids":{"AdId":"x"},"upsert":{"profile":{"__proto__":{"admin":true}}}}', 400],
    ['{"orgId":1,"region":"eu","ids":{"AdId":"\\ud800"}}', 400],
  ])('is refused as %j', async (body, status) => {
    const answer = await send(test.app)('/cdp/v1/users', headers(), body);
    expect(answer).toMatchObject({ status, body: { error: 'invalid request' } });
  });

  it('is 415 with another type, and 413 if it is too large', async () => {
    const other = await send(test.app)('/cdp/v1/users', { ...headers(), 'content-type': 'text/plain' }, '{}');
    expect(other).toMatchObject({ status: 415, body: { error: 'unsupported media type' } });
    const large = await send(test.app)('/cdp/v1/users', headers(), `{"a":"${'x'.repeat(4 * 1024 * 1024)}"}`);
    expect(large).toMatchObject({ status: 413, body: { error: 'payload too large' } });
  });
});

describe('a profile', () => {
  it('accepts 500 identities; one more is 400 and changes no data', async () => {
    const name = randomUUID();
    const types = Array.from({ length: 500 }, (_, n) => [`t${n}`, name]);
    const full = await client.write(Object.fromEntries(types));
    expect(Object.keys(full.ids)).toHaveLength(500);
    await expectRefused('', { region: 'eu', ids: { t0: name, AdId: name } }, ['/ids']);
    await expectRefused('', { regions: ['eu'], search: { t0: [name], AdId: [name] } }, ['/search']);
    expect(await client.search({ t0: [name], AdId: [name] })).toEqual([full]);
  });

  it('is 413 with more than a megabyte, and no data is changed', async () => {
    const ids = { AdId: randomUUID() };
    const half = (name: string) => ({
      region: 'eu',
      ids,
      upsert: { profile: { [name]: 'x'.repeat(600_000) } },
    });
    expect((await client.call('', half('a'))).status).toBe(200);
    const [before] = await client.search({ AdId: [ids.AdId] });
    expect(await client.call('', half('b'))).toMatchObject({
      status: 413,
      body: { error: 'payload too large', details: [{ path: '/upsert' }] },
    });
    expect(await client.search({ AdId: [ids.AdId] })).toEqual([before]);
  });
});
