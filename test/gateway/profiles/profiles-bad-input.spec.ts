import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { openProfiles, type ProfileClient, sendInto } from '../../helpers/profile-client.ts';
import { suiteGateway } from '../suite-gateway.ts';

const EMAIL = 'somebody@example.com';

interface Refusal {
  readonly error: string;
  readonly details: readonly { readonly path: string; readonly message: string }[];
}

const test = await suiteGateway();
let client: ProfileClient;
beforeAll(async () => {
  const owner = await test.openWorkspace();
  client = (await openProfiles(owner, owner.workspaceId, sendInto(test.app))).client;
});

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
    ['a ucid among the ids', { ...WRITE, ids: { ucid: randomUUID() } }, ['/ids/ucid']],
    ['linked ucids among the ids', { ...WRITE, ids: { linkedUcid: randomUUID() } }, ['/ids/linkedUcid']],
    ['a type with a blank', { ...WRITE, ids: { 'e mail': EMAIL } }, ['/ids/e mail']],
    ['a type with a slash', { ...WRITE, ids: { 'e/mail~': EMAIL } }, ['/ids/e~1mail~0']],
    ['a type that is a name of JavaScript', { ...WRITE, ids: { constructor: EMAIL } }, ['/ids/constructor']],
    ['an identity that is too long', { ...WRITE, ids: { AdId: 'x'.repeat(513) } }, ['/ids/AdId']],
    ['a region in capitals', { ...WRITE, region: 'EU' }, ['/region']],
    ['an invalid time', { ...WRITE, upsert: { profile: { a: { _ts: 'now' } } } }, ['/upsert/profile/a/_ts']],
    ['no time for all categories', { ...WRITE, upsert: { profile: { _ts: {} } } }, ['/upsert/profile/_ts']],
    ['both forms of the body', { ...WRITE, ...SEARCH }, ['/regions', '/search']],
    ['regions beside region', { ...WRITE, regions: ['eu'] }, ['/regions']],
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
  ])('is refused with %s', async (_, body, paths) => expectRefused('', body, paths));

  it.each(['', ' ', 'NULL', 'N/A', '0', '00000000-0000-0000-0000-000000000000'])(
    'is refused with the placeholder %j in place of an identity',
    async (value) => {
      await expectRefused('', { ...WRITE, ids: { user_id: value } }, ['/ids/user_id']);
    },
  );

  it('is refused with all faults at once', async () => {
    const ids = { email: 'null', 'no type': 'x', ucid: randomUUID() };
    const upsert = { profile: { _ts: -1, home: { _ts: 'x' } } };
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
    ['region in place of regions', { region: 'eu', search: SEARCH.search }, ['/regions', '/region']],
    [
      '100 unknown regions, of which 20 are reported',
      { ...SEARCH, regions: texts(100) },
      Array.from({ length: 20 }, (_, n) => `/regions/${n}`),
    ],
    ['a type without values', { ...SEARCH, search: { email: [EMAIL], AdId: [] } }, ['/search/AdId']],
    ['a reserved type', { ...SEARCH, search: { linkedUcid: [randomUUID()] } }, ['/search/linkedUcid']],
    [
      'an invalid name of a type',
      { ...SEARCH, search: { email: [EMAIL], 'no type': ['x'] } },
      ['/search/no type'],
    ],
    ['1,001 values', { ...SEARCH, search: { email: texts(500), AdId: texts(501) } }, ['/search']],
  ])('is refused with %s', async (_, body, paths) => expectRefused('/_search', body, paths));

  it('was refused as a whole for one impossible value: that value finds nothing', async () => {
    const { ucid } = await client.write({ crm: 'sought' });
    const impossible = ['', ' Null ', 'x'.repeat(513), '00000000-0000-0000-0000-000000000000'];
    expect(await client.search({ crm: [...impossible, 'sought'], ucid: ['7'] })).toMatchObject([{ ucid }]);
    expect(await client.search({ crm: ['none'], ucid: ['7', ucid] })).toMatchObject([{ ucid }]);
    expect(await client.search({ crm: impossible, ucid: ['x'] })).toEqual([]);
  });

  it('accepts 1,000 values', async () => {
    const search = { email: texts(500), AdId: texts(500) };
    expect(await client.call('/_search', { ...SEARCH, search })).toMatchObject({ status: 200, body: [] });
  });
});

describe('a deletion', () => {
  it.each<[string, object, readonly string[]]>([
    ['one unknown region of two', { regions: ['eu', 'mars'], ids: DELETION.ids }, ['/regions/1']],
    ['101 regions', { regions: texts(101), ids: DELETION.ids }, ['/regions']],
    ['a reserved type', { ...DELETION, ids: { linkedUcid: [randomUUID()] } }, ['/ids/linkedUcid']],
    ['an invalid name of a type', { ...DELETION, ids: { 'no type': ['x'] } }, ['/ids/no type']],
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

  it('is 413 with more values or bytes than a profile may have, and no data is changed', async () => {
    const ids = { AdId: randomUUID() };
    const half = (name: string) => ({
      region: 'eu',
      ids,
      upsert: { profile: Object.fromEntries([0, 1, 2].map((n) => [name + n, 'x'.repeat(60_000)])) },
    });
    expect((await client.call('', half('a'))).status).toBe(200);
    const [before] = await client.search({ AdId: [ids.AdId] });
    expect(await client.call('', half('b'))).toMatchObject({
      status: 413,
      body: {
        error: 'payload too large',
        quota: 'profile_bytes',
        limit: 262_144,
        size: expect.any(Number),
        details: [{ path: '/upsert' }],
      },
    });
    const many = Object.fromEntries(Array.from({ length: 2_001 }, (_, n) => [`a${n}`, n]));
    const call = { region: 'eu', ids, upsert: { profile: { many } } };
    const quota = { quota: 'profile_values', limit: 2_000 };
    expect(await client.call('', call)).toMatchObject({ status: 413, body: { ...quota, size: 2_004 } });
    // The size tells what the profile has, so it is for readers alone.
    const blind = await client.call('', call, { scopes: 'profile.write' });
    expect(blind).toMatchObject({ status: 413, body: quota });
    expect(blind.body).not.toHaveProperty('size');
    const large = { region: 'eu', ids, upsert: { profile: { text: 'é'.repeat(33_000) } } };
    expect(await client.call('', large)).toMatchObject({
      status: 413,
      body: { quota: 'profile_value_bytes', limit: 65_536 },
    });
    expect(await client.search({ AdId: [ids.AdId] })).toEqual([before]);
  });
});
