import { expect, it } from 'vitest';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway();
const owner = await test.openWorkspace();

interface Source {
  readonly id: string;
  readonly name: string;
}

const shop = { name: 'Shop', type: 'web' };
const make = (body: object = shop) => owner.ok<Source>('POST', './sources', body);

it('a source could not be changed behind a compressing proxy: a weak version tag is accepted, and * matches any', async () => {
  const { id } = await make();
  const put = (name: string, tag: string) =>
    owner.call('PUT', `./sources/${id}`, { name, type: 'web' }, { 'if-match': tag });
  expect(await put('Web 2', 'W/"1"')).toMatchObject({ status: 200, body: { version: 2 } });
  expect((await put('Web 3', '"1-gzip"')).status).toBe(412);
  expect(await put('Web 3', '"7", "2-gzip"')).toMatchObject({ status: 200, body: { version: 3 } });
  expect(await put('Web 4', '*')).toMatchObject({ status: 200, body: { version: 4 } });
  for (const tag of ['"3"', 'W/"3"', '4', '"4', '"04"', ''])
    expect((await put('Web 5', tag)).status).toBe(412);
});

it.each(['  Web  ', 'café', '店', '👩‍👩‍👧', 'שלום\u200f', '-'])('a source can be named %j', async (name) => {
  expect(await owner.call('POST', './sources', { name, type: 'web' })).toMatchObject({
    status: 201,
    body: { name },
  });
});

it('a source is kept while an active write key references it', async () => {
  const { id } = await make();
  const body = { name: 'Web', environment: 'production', source_id: id };
  const key = await owner.ok<Source>('POST', './event-keys', body);
  expect(await owner.call('DELETE', `./sources/${id}`)).toMatchObject({
    status: 409,
    body: { error: 'conflict', reason: 'in_use', causes: [{ kind: 'write_key', id: key.id }] },
  });
  await owner.ok('DELETE', `./event-keys/${key.id}`);
  expect((await owner.call('DELETE', `./sources/${id}`)).status).toBe(200);
  expect((await owner.call('POST', './event-keys', body)).status).toBe(400);
});
