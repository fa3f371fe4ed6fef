import { randomUUID } from 'node:crypto';
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

it('a source is created, read, listed, changed and deleted', async () => {
  const created = await owner.call<Source>('POST', './sources', { ...shop, description: 'The front' });
  expect(created.status).toBe(201);
  expect(created.body).toEqual({
    id: expect.any(String),
    workspace_id: owner.workspaceId,
    name: 'Shop',
    type: 'web',
    description: 'The front',
    status: 'active',
    version: 1,
    created_by: expect.any(String),
    created_at: expect.any(String),
    updated_at: expect.any(String),
  });
  expect(created.headers.etag).toBe('"1"');
  const path = `./sources/${created.body.id}`;
  expect(await owner.ok('GET', path)).toEqual(created.body);
  expect((await owner.ok<Source[]>('GET', './sources'))[0]).toEqual(created.body);

  const changed = await owner.call<Source>('PUT', path, { name: 'Store', type: 'ios' });
  expect(changed).toMatchObject({
    status: 200,
    body: { name: 'Store', type: 'ios', description: null, version: 2 },
  });
  for (let time = 0; time < 2; time++)
    expect(await owner.call('DELETE', path)).toMatchObject({
      status: 200,
      body: { id: created.body.id, status: 'deleted' },
    });
  expect((await owner.call('GET', path)).status).toBe(404);
});

it('sources are listed newest first, page by page', async () => {
  for (const name of ['one', 'two', 'three']) await make({ name, type: 'web' });
  const first = await owner.call<Source[]>('GET', './sources?limit=2');
  expect(first.body.map(({ name }) => name)).toEqual(['three', 'two']);
  const next = /<([^>]+)>; rel="next"/.exec(String(first.headers.link))?.[1] ?? '';
  expect((await owner.ok<Source[]>('GET', next))[0]?.name).toBe('one');
});

it('a source is changed only at the version that the caller read', async () => {
  const { id } = await make();
  const put = (match: string) => owner.call('PUT', `./sources/${id}`, shop, { 'if-match': match });
  expect((await put('"2"')).status).toBe(412);
  const same = await put('"1"');
  expect(same).toMatchObject({ status: 200, body: { version: 1 } });
  expect((await owner.call('DELETE', `./sources/${id}`, undefined, { 'if-match': '"7"' })).status).toBe(412);
});

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

it('a source that is unknown, malformed or of another workspace is 404', async () => {
  const { id } = await make();
  const other = await test.openWorkspace('other@example.com');
  for (const client of [other])
    for (const method of ['GET', 'DELETE'] as const)
      expect((await client.call(method, `./sources/${id}`)).status).toBe(404);
  for (const unknown of [randomUUID(), 'no-id'])
    expect((await owner.call('PUT', `./sources/${unknown}`, shop)).status).toBe(404);
});

it.each([
  [{ type: 'web' }, '/name'],
  [{ name: 'x' }, '/type'],
  [{ name: 'x', type: 'Web Site' }, '/type'],
  [{ name: 'x', type: '' }, '/type'],
  [{ name: 'x', type: 'web', status: 'paused' }, '/status'],
])('a source with the fields %j is refused', async (body, path) => {
  expect(await owner.call('POST', './sources', body)).toMatchObject({
    status: 400,
    body: { error: 'invalid request', details: [{ path }] },
  });
});

it('sources are read by viewers and created by editors, also with an API key', async () => {
  const [viewer, editor] = [await owner.withApiKey('viewer'), await owner.withApiKey('editor')];
  expect((await viewer.call('GET', './sources')).status).toBe(200);
  expect((await viewer.call('POST', './sources', shop)).status).toBe(403);
  expect((await editor.call('POST', './sources', shop)).status).toBe(201);
});
