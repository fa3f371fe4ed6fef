import { gunzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
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

it('a parameter that is given twice was said to be no text', async () => {
  expect(await owner.call('GET', './sources?limit=4&limit=9')).toMatchObject({
    status: 400,
    body: { details: [{ path: 'limit', message: 'is given more than once' }] },
  });
});
