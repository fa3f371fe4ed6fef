import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { openTestGateway } from '../../helpers/gateway.ts';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway();
const owner = await test.openWorkspace();

it('If-None-Match was ignored: a version that the caller has is answered 304', async () => {
  const { id } = await owner.ok<{ id: string }>('POST', './sources', { name: 'Kept', type: 'web' });
  const read = (known: string) => owner.call('GET', `./sources/${id}`, undefined, { 'if-none-match': known });
  for (const known of ['"1"', 'W/"1"', '"7", "1-gzip"', '*'])
    expect(await read(known)).toMatchObject({ status: 304, body: undefined, headers: { etag: '"1"' } });
  expect((await read('"2"')).status).toBe(200);
  await owner.ok('PATCH', `./sources/${id}`, { name: 'Changed' });
  expect((await read('"1"')).status).toBe(200);
});

it('answers were never compressed: those of some length are for who accepts it', async () => {
  const gateway = { method: 'GET', url: '/openapi.json' } as const;
  const plain = await test.app.inject(gateway);
  const packed = await test.app.inject({ ...gateway, headers: { 'accept-encoding': 'br;q=0.9, gzip' } });
  expect(plain.headers['content-encoding']).toBeUndefined();
  expect(packed.headers['content-encoding']).toBe('gzip');
  expect(gunzipSync(packed.rawPayload).toString()).toBe(plain.payload);
  expect(packed.rawPayload.length).toBeLessThan(plain.rawPayload.length / 5);
});

const call = async (method: string, url: string, payload?: string) => {
  const { statusCode, headers, body } = await test.app.inject({
    method: method as 'PATCH',
    url,
    ...(payload === undefined ? {} : { payload, headers: { 'content-type': 'application/json' } }),
  });
  return {
    status: statusCode,
    allow: headers.allow,
    id: headers['x-request-id'],
    body: JSON.parse(body) as object,
  };
};

describe('a request without a route', () => {
  it('was 404 for a method that a path does not have: it is 405, and names those it has', async () => {
    const answer = await call('PATCH', '/api/v1/workspaces/');
    expect(answer).toMatchObject({
      status: 405,
      allow: 'GET, HEAD, POST',
      body: { error: 'method not allowed' },
    });
    expect(answer.id).toBeDefined();
    expect(await call('PUT', '/cdp/v1/users?x=1')).toMatchObject({ status: 405, allow: 'POST' });
    const redrive = '/api/v1/workspaces/w/deliveries/redrive';
    expect(await call('PUT', redrive)).toMatchObject({ status: 405, allow: 'POST' });
  });

  it('was 400 where a body could not be read, although no route uses it: it is 404 or 405', async () => {
    expect(await call('POST', '/api/v1/nothing', '{')).toMatchObject({
      status: 404,
      body: { error: 'not found' },
    });
    expect(await call('PATCH', '/api/v1/workspaces', '{')).toMatchObject({ status: 405 });
  });

  it('is 404 where there is no such path', async () => {
    const answer = await call('GET', '/api/v1/workspaces/1/2/3/4');
    expect(answer).toMatchObject({ status: 404, allow: undefined, body: { error: 'not found' } });
  });
});

it.each([
  ['is there', {}, [302, 200]],
  ['is left out with TRIBUTARY_CONSOLE=0', { TRIBUTARY_CONSOLE: '0' }, [404, 404]],
])('the console %s', async (_, env, statuses) => {
  const { app, close } = await openTestGateway({ env });
  const answers = ['/', '/console/config.json'].map(async (url) => (await app.inject({ url })).statusCode);
  expect(await Promise.all(answers)).toEqual(statuses);
  await close();
});
