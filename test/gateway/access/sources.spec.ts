import { expect, it } from 'vitest';
import { refusedFor } from '../../helpers/gateway.ts';
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

it.each([
  '   ',
  '\u00a0\u2003',
  '\u200b\u2060',
  '\ufeff',
  '\u3164',
  'two\nlines',
  'bell\u0007',
  'a\u202eb',
  '\u0085x',
])('a source could have an invisible or misleading name: %j', async (name) => {
  expect(await owner.call('POST', './sources', { name, type: 'web' })).toMatchObject({
    status: 400,
    body: {
      details: [
        { path: '/name', message: 'must have a visible character, and no control characters or line breaks' },
      ],
    },
  });
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

it.each([
  [{ type: 'web' }, '/name'],
  [{ name: 'x' }, '/type'],
  [{ name: 'x', type: 'Web Site' }, '/type'],
  [{ name: 'x', type: '' }, '/type'],
  [{ name: 'x', type: 'web', status: 'paused' }, '/status'],
])('a source with the fields %j is refused', async (body, path) => {
  expect(await owner.call('POST', './sources', body)).toMatchObject(refusedFor(path));
});
