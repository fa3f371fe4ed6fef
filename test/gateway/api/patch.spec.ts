import { randomUUID } from 'node:crypto';
import { expect, it, vi } from 'vitest';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway();
const owner = await test.openWorkspace();

type Resource = Readonly<Record<string, unknown>> & { readonly id: string };

/** Without what every change changes. */
function content({ version: _, updated_at: __, ...rest }: Record<string, unknown>) {
  return rest;
}

it('every resource with a PUT has a PATCH, except the tracking plan, which is a document', () => {
  const of = (method: string) => test.routes.filter((route) => route.method === method).map(({ url }) => url);
  const without = of('PUT').filter((url) => !of('PATCH').includes(url));
  expect(without).toEqual([expect.stringMatching(/tracking-plan$/)]);
});

const webhook = { url: 'https://hooks.example.com/in', headers: { 'x-team': 'a' } };
const makers: readonly [path: string, body: object, change: object][] = [
  ['./sources', { name: 'Shop', type: 'web', description: 'front' }, { description: null }],
  [
    './destinations',
    { name: 'Hook', type: 'webhook', settings: webhook, rate_limit_per_second: 5 },
    { paused: true },
  ],
  [
    './event-contracts',
    { name: 'Orders', event_type: 'track', event_name: 'Paid', schema_definition: { properties: {} } },
    { enforcement_mode: 'block' },
  ],
  [
    './event-transformations',
    {
      name: 'T',
      source_code: 'function transform(event) { return event; }',
      test_input: { type: 'track', event: 'E', user_id: 'u' },
    },
    { name: 'U' },
  ],
  ['./alerts', { name: 'Orders', watch: { kind: 'silence', minutes: 45 } }, { enabled: false }],
];

it.each(makers)('PATCH of %s keeps absent fields', async (path, body, change) => {
  const made = await owner.ok<Resource>('POST', path, body);
  const before = await owner.call<Resource>('GET', `${path}/${made.id}`);
  const changed = await owner.call<Resource>('PATCH', `${path}/${made.id}`, change);
  expect(changed.status).toBe(200);
  expect(content(changed.body)).toEqual(content({ ...before.body, ...change }));
  expect(changed.headers.etag).toBe('"2"');
  expect((await owner.call('GET', `${path}/${made.id}`)).body).toEqual(changed.body);
});

it('PATCH changes a rule, a workspace and an organization in the same way', async () => {
  const { id: destination_id } = await owner.destination();
  const rule = await owner.ok<Resource>('POST', './event-forwarding-rules', {
    name: 'R',
    destination_id,
    event_types: ['track'],
    filter: 'event.properties.total > 5',
  });
  const path = `./event-forwarding-rules/${rule.id}`;
  const off = await owner.ok<Resource>('PATCH', path, { enabled: false });
  expect(content(off)).toEqual(content({ ...rule, enabled: false }));
  expect(await owner.ok('PATCH', path, { filter: null })).toMatchObject({ filter: null, enabled: false });
  const workspace = await owner.ok<Resource>('PATCH', `/workspaces/${owner.workspaceId}`, {
    name: 'Renamed',
  });
  expect(workspace).toMatchObject({ name: 'Renamed', region: 'eu' });
  const organization = `/organizations/${workspace.organization_id}`;
  expect(await owner.ok('PATCH', organization, { notification_email: 'ops@example.com' })).toMatchObject({
    regions: ['eu'],
    notification_email: 'ops@example.com',
  });
});

it('PATCH merges settings by name, and keeps the secrets of a destination', async () => {
  const made = await owner.ok<Resource>('POST', './destinations', {
    name: 'Hook',
    type: 'webhook',
    settings: { ...webhook, secret: 'whsec_c2VjcmV0IG9mIHRoZSBkZXN0aW5hdGlvbiE=' },
  });
  const stored = () =>
    test.dependencies.catalog.state.entity('destination', String(owner.workspaceId), made.id)?.settings;
  const before = stored();
  const changed = await owner.ok<Resource>('PATCH', `./destinations/${made.id}`, { name: 'Other' });
  expect(changed).toMatchObject({ name: 'Other', settings: { url: webhook.url, secret: '********' } });
  expect(stored()).toEqual(before);
});

it('PATCH is checked like a PUT: versions, fields, permissions, missing resources', async () => {
  const { id } = await owner.ok<Resource>('POST', './sources', { name: 'S', type: 'web' });
  const path = `./sources/${id}`;
  expect((await owner.call('PATCH', path, { name: 'x' }, { 'if-match': '"9"' })).status).toBe(412);
  expect((await owner.call('PATCH', path, { name: 'y' }, { 'if-match': '"1"' })).status).toBe(200);
  for (const body of [{ unknown: 1 }, { name: '' }, { name: null }, [], 'text', null, { id: randomUUID() }])
    expect((await owner.call('PATCH', path, body)).status).toBe(400);
  expect((await owner.call('PATCH', path)).status).toBe(400);
  expect((await owner.call('PATCH', `./sources/${randomUUID()}`, { name: 'x' })).status).toBe(404);
  const viewer = await owner.withApiKey('viewer');
  expect((await viewer.call('PATCH', path, { name: 'x' })).status).toBe(403);
  const unchanged = await owner.call<Resource>('PATCH', path, {});
  expect([unchanged.status, unchanged.body.name, unchanged.headers.etag]).toEqual([200, 'y', '"2"']);
});

it('PATCH changes the role of a member and the profile settings of an organization in the same way', async () => {
  const [organization] = await owner.ok<Resource[]>('GET', '/organizations');
  const path = `/organizations/${organization?.id}`;
  const member = await owner.ok<Resource>('POST', `${path}/members`, {
    email: 'm@example.com',
    role: 'member',
  });
  const place = `${path}/members/${member.id}`;
  expect(await owner.ok('PATCH', place, { role: 'admin' })).toMatchObject({ role: 'admin', keys: [] });
  expect(await owner.call('PATCH', place, {})).toMatchObject({
    body: { role: 'admin' },
    headers: { etag: '"2"' },
  });
  for (const body of [{ role: null }, { role: 'emperor' }, { email: 'other@example.com' }])
    expect((await owner.call('PATCH', place, body)).status).toBe(400);
  const settings = `${path}/profile-settings`;
  await owner.ok('PUT', settings, { default_country: 'AT', identity_limits: [{ type: 'AdId', max: 7 }] });
  const before = await owner.ok<Resource>('GET', settings);
  const changed = await owner.ok<Resource>('PATCH', settings, { max_user_ids_per_identity: 3 });
  expect(changed).toEqual({ ...before, max_user_ids_per_identity: 3 });
  expect(await owner.ok('PATCH', settings, { default_country: null })).toMatchObject({
    default_country: null,
    max_user_ids_per_identity: 3,
  });
  const stranger = await test.signIn('stranger@example.com');
  for (const [target, body] of [
    [place, { role: 'member' }],
    [settings, { default_country: 'DE' }],
  ] as const)
    expect((await stranger.call('PATCH', target, body)).status).toBe(403);
  expect(await owner.ok('GET', settings)).toMatchObject({ default_country: null });
});

it('PATCH accepts the media type of JSON Merge Patch, which no other method accepts', async () => {
  const type = { 'content-type': 'application/merge-patch+json; charset=utf-8' };
  const source = await owner.ok<Resource>('POST', './sources', { name: 'Typed', type: 'web' });
  const path = `./sources/${source.id}`;
  expect(await owner.call('PATCH', path, { name: 'Merged' }, type)).toMatchObject({
    status: 200,
    body: { name: 'Merged', type: 'web' },
  });
  expect((await owner.call('PATCH', path, { name: 'x', name2: 1 }, type)).status).toBe(400);
  expect((await owner.call('PUT', path, { name: 'x', type: 'web' }, type)).status).toBe(415);
  expect((await owner.call('POST', './sources', { name: 'x', type: 'web' }, type)).status).toBe(415);
});

it('of 40 concurrent PUTs 38 were refused with 409, although the last one wins: all are applied', async () => {
  const made = await owner.ok<Resource>('POST', './sources', { name: 'Many', type: 'web' });
  const path = `./sources/${made.id}`;
  const names = Array.from({ length: 40 }, (_, n) => `Name ${n}`);
  const answers = await Promise.all(names.map((name) => owner.call('PUT', path, { name, type: 'web' })));
  expect(answers.map(({ status }) => status)).toEqual(names.map(() => 200));
  expect(await owner.ok('GET', path)).toMatchObject({ version: 41 });
});

it('two concurrent PATCH calls lose no change: both are stored', async () => {
  const made = await owner.ok<Resource>('POST', './sources', { name: 'Both', type: 'web', description: 'a' });
  const path = `./sources/${made.id}`;
  for (let round = 0; round < 20; round++) {
    const changes = [{ name: `Name ${round}` }, { description: `Text ${round}` }];
    const answers = await Promise.all(changes.map((change) => owner.call('PATCH', path, change)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    expect(await owner.ok('GET', path)).toMatchObject({ ...changes[0], ...changes[1] });
  }
});

it.each(['PUT', 'PATCH'] as const)('%s is repeated where another gateway was faster', async (method) => {
  const made = await owner.ok<Resource>('POST', './sources', { name: 'Late', type: 'web', description: 'a' });
  const path = `./sources/${made.id}`;
  const { catalog } = test.dependencies;
  const proposeFirst = catalog.propose.bind(catalog);
  const spy = vi.spyOn(catalog, 'propose').mockImplementationOnce(async (fact) => {
    await proposeFirst({
      ...fact,
      data: { ...fact.data, name: 'Theirs', description: 'theirs' },
    } as typeof fact);
    return proposeFirst(fact);
  });
  const answer = await owner.call(method, path, { name: 'Now', ...(method === 'PUT' && { type: 'app' }) });
  spy.mockRestore();
  const description = method === 'PUT' ? null : 'theirs';
  expect(answer).toMatchObject({ status: 200, body: { name: 'Now', version: 3, description } });
});

it.each(makers)(
  'what GET of %s answers could not be put back: unchanged read-only fields are accepted',
  async (path) => {
    const [{ id } = { id: '' }] = await owner.ok<Resource[]>('GET', path);
    const at = `${path}/${id}`;
    for (const method of ['PUT', 'PATCH'] as const) {
      const read = await owner.ok<Resource>('GET', at);
      expect(content(await owner.ok<Resource>(method, at, read))).toEqual(content(read));
      const { created_at } = read;
      expect(await owner.call(method, at, { created_at: '2020-02-02T00:00:00.000Z' })).toMatchObject({
        status: 400,
        body: { details: [{ path: '/created_at', message: `is read-only, and is "${created_at}"` }] },
      });
    }
  },
);

it('what GET of a workspace, an organization and its settings answers can be put back', async () => {
  const [organization] = await owner.ok<Resource[]>('GET', '/organizations');
  const of = `/organizations/${organization?.id}`;
  for (const path of [`/workspaces/${owner.workspaceId}`, of, `${of}/profile-settings`]) {
    const read = await owner.ok<Resource>('GET', path);
    for (const method of ['PUT', 'PATCH'] as const) expect(await owner.ok(method, path, read)).toEqual(read);
  }
});
