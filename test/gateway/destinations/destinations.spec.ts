import { randomUUID } from 'node:crypto';
import { type HealthReport, isSealed } from '@tributary/core';
import { beforeEach, expect, it } from 'vitest';
import { Client } from '../../helpers/client.ts';
import { inProcess, openTestGateway, refusedFor } from '../../helpers/gateway.ts';
import { suiteGateway } from '../suite-gateway.ts';

const MASK = '********';

const test = await suiteGateway();
let owner: Client;
beforeEach(async () => {
  owner = await test.openWorkspace();
});

interface Destination {
  readonly id: string;
  readonly settings: Readonly<Record<string, unknown>>;
}

const url = 'https://hooks.example.com/in';
const webhook = (settings: object = { url }) => ({ name: 'Hook', type: 'webhook', settings });
const create = (settings: object = { url }) =>
  owner.ok<Destination>('POST', './destinations', webhook(settings));
const stored = (id: string) =>
  test.dependencies.catalog.state.entity('destination', String(owner.workspaceId), id)?.settings ?? {};

it('a destination shows its generated secret once', async () => {
  const created = await owner.call<Destination>('POST', './destinations', webhook());
  expect(created.status).toBe(201);
  const secret = created.body.settings.secret;
  expect(secret).toMatch(/^whsec_/);
  expect(created.body.settings).toEqual({ url, secret });
  const masked = { ...created.body, settings: { url, secret: MASK } };
  expect(await owner.ok('GET', `./destinations/${created.body.id}`)).toEqual(masked);
  expect(await owner.ok('GET', './destinations')).toEqual([masked]);
});

it('a destination stores its secrets sealed, and shows neither generated nor given ones', async () => {
  const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
  const { id, settings } = await create({ url, secret, headers: { authorization: 'Bearer x' } });
  expect(settings).toEqual({ url, secret: MASK, headers: MASK });
  expect(isSealed(stored(id).secret)).toBe(true);
  expect(isSealed(stored(id).headers)).toBe(true);
  expect(stored(id).url).toBe(url);
});

it('a PUT keeps a masked or absent secret, and accepts a new one', async () => {
  const { id } = await create();
  const before = stored(id);
  const put = (settings: object) => owner.call('PUT', `./destinations/${id}`, webhook(settings));
  const next = 'https://hooks.example.com/next';
  expect(await put({ url: next, secret: MASK })).toMatchObject({
    status: 200,
    body: { settings: { url: next, secret: MASK }, version: 2 },
  });
  expect(stored(id).secret).toEqual(before.secret);
  expect((await put({ url })).status).toBe(200);
  expect((await put({ url, secret: null })).status).toBe(200);
  expect(stored(id).secret).toEqual(before.secret);
  const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
  expect(await put({ url, secret })).toMatchObject({ status: 200, body: { settings: { secret: MASK } } });
  expect(stored(id).secret).not.toEqual(before.secret);
});

it('a PUT does not keep a secret beside conflicting settings, nor for another host', async () => {
  const place = { url: 'https://search.example.com', index: 'events' };
  const asked = (settings: object) => ({ name: 'Search', type: 'elasticsearch', settings });
  const api_key = 'c2VjcmV0';
  const { id } = await owner.ok<Destination>('POST', './destinations', asked({ ...place, api_key }));
  const put = (settings: object) => owner.call('PUT', `./destinations/${id}`, asked(settings));
  const user = { username: 'u', password: 'p' };
  expect(await put({ ...place, ...user })).toMatchObject({
    status: 400,
    body: { details: [{ path: '/settings/api_key', message: 'must not be given beside a user' }] },
  });
  expect(await put({ ...place, url: 'https://mine.example.com' })).toMatchObject({
    status: 400,
    body: { details: [{ path: '/settings/api_key', message: 'must be stated again, as url is another' }] },
  });
  expect(await put({ ...place, ...user, api_key: null })).toMatchObject({ status: 200 });
  expect(Object.keys(stored(id)).sort()).toEqual(['index', 'password', 'url', 'username']);
  expect(await put(place)).toMatchObject({
    status: 400,
    body: { details: [{ path: '/settings/username', message: 'is required with a password' }] },
  });
});

it('a PUT cannot change the type of a destination', async () => {
  const { id } = await create();
  const files = { name: 'Files', type: 'ndjson', settings: { folder: 'out' } };
  expect(await owner.call('PUT', `./destinations/${id}`, files)).toMatchObject(refusedFor('/type'));
});

it('a destination has the receivers of its notices, its own or those of the organization', async () => {
  const ops = await create();
  const alerts = { destination_id: ops.id.toUpperCase(), email: 'Ops@Example.com' };
  const made = await owner.ok<Destination>('POST', './destinations', { ...webhook(), alerts });
  expect(made).toMatchObject({
    alerts: { enabled: true, destination_id: ops.id, email: 'ops@example.com' },
  });
  const put = (fields: object) => owner.ok('PUT', `./destinations/${made.id}`, { ...webhook(), ...fields });
  expect(await put({ alerts: { enabled: false } })).toMatchObject({
    alerts: { enabled: false, destination_id: null, email: null },
  });
  expect(await put({})).toMatchObject({ alerts: null });
});

it('a destination sends no notices to an invalid address, to another workspace, or to itself', async () => {
  const { id } = await create();
  const put = (alerts: object) => owner.call('PUT', `./destinations/${id}`, { ...webhook(), alerts });
  const other = await test.openWorkspace('other@example.com');
  const foreign = await other.ok<Destination>('POST', './destinations', webhook());
  const refused: readonly (readonly [string, object])[] = [
    ['/alerts/destination_id', { destination_id: id }],
    ['/alerts/destination_id', { destination_id: foreign.id }],
  ];
  for (const [path, alerts] of refused) expect(await put(alerts)).toMatchObject(refusedFor(path));
});

it('the health of a destination has what notices reported last beside its present state, and is no version', async () => {
  const { id } = await create();
  const health = () => owner.ok('GET', `./destinations/${id}/health`);
  expect(await health()).toMatchObject({
    state: 'no_traffic',
    notice: { state: 'well', because: null, since: null },
  });
  const at = new Date(test.clock.now()).toISOString();
  const { catalog } = test.dependencies;
  await catalog.propose({
    v: 1,
    type: 'destination.turned',
    entity: id,
    expected_version: 0,
    data: {
      id: randomUUID(),
      state: 'bad',
      because: 'circuit_open',
      since: at,
      paced_until: at,
      delivered_per_second: 0,
      failed_per_second: 1,
      oldest_waiting_ms: null,
      last_errors: [],
    },
    by: 'stage:deliver',
    from: { address: '', request_id: '' },
    at,
  });
  expect(await health()).toMatchObject({
    state: 'no_traffic',
    notice: { state: 'bad', because: 'circuit_open', since: at },
  });
  expect((await owner.call('GET', `./destinations/${id}`)).headers.etag).toBe('"1"');
});

it('a destination shows that processors paused it, with the reason, until a person resumes it', async () => {
  const { id } = await create();
  const at = new Date(test.clock.now()).toISOString();
  await test.dependencies.catalog.propose({
    v: 1,
    type: 'destination.updated',
    entity: id,
    expected_version: 1,
    data: { paused: true, paused_because: { reason: 'gone', at } },
    by: 'stage:deliver',
    from: { address: '', request_id: '' },
    at,
  });
  const url = `./destinations/${id}`;
  const shown = await owner.ok<{ name: string; type: string; settings: object }>('GET', url);
  expect(shown).toMatchObject({ paused: true, paused_because: { reason: 'gone', at } });
  const put = (fields: object) => {
    const { name, type, settings } = shown;
    return owner.ok('PUT', url, { name, type, settings, ...fields });
  };
  expect(await put({ paused: true })).toMatchObject({ paused: true, paused_because: { reason: 'gone' } });
  expect(await put({ paused: false })).toMatchObject({ paused: false, paused_because: null });
  expect(await put({ paused: true })).toMatchObject({ paused: true, paused_because: null });
});

it('a connection test uses the stored settings and secrets, and states why the destination cannot be reached', async () => {
  const files = { name: 'Files', type: 'ndjson', settings: { folder: 'tested' } };
  const { id } = await owner.ok<Destination>('POST', './destinations', files);
  expect(await owner.ok('POST', `./destinations/${id}/test`)).toMatchObject({ ok: true, reason: null });
  const inside = await create({ url: 'http://127.0.0.1:9/in', headers: { Authorization: 'Bearer q1w2e3' } });
  const tested = await owner.ok<{ readonly request: string }>('POST', `./destinations/${inside.id}/test`);
  expect(tested).toMatchObject({
    ok: false,
    reason: expect.stringMatching(/./),
    duration_ms: expect.any(Number),
  });
  const [line, ...rest] = tested.request.split('\n');
  expect(line).toBe('POST http://127.0.0.1:9/in');
  expect(rest).toContain('authorization: ********');
  expect(tested.request).not.toContain('q1w2e3');
  expect(JSON.parse(rest.at(-1) ?? '')).toMatchObject({ type: 'test', destination_id: inside.id });
});

it('the health of a destination has the figures that the delivering processes reported last', async () => {
  const { id } = await create();
  const rests = await owner.ok('GET', `./destinations/${id}/health`);
  expect(rests).toMatchObject({ id, active: false, circuit: null, delivered_per_second: 0, last_errors: [] });
  const at = test.clock.now();
  const report: HealthReport = {
    workspace_id: String(owner.workspaceId),
    destination_id: id,
    process: 'one',
    at,
    window_ms: 60_000,
    delivered: 120,
    retry: 60,
    dead: 0,
    put_off: 0,
    latency: [],
    waiting: 3,
    under_way: 1,
    oldest_waiting_at: at - 500,
    circuit: 'open',
    circuit_since: at - 1_000,
    last_delivered_at: null,
    last_errors: [{ at, outcome: 'retry', reason: 'answered 503', status: 503 }],
  };
  const told = await openTestGateway({
    folder: test.folder,
    dependencies: { healthBoard: { read: async () => [report], history: async () => [] } },
  });
  const asking = new Client(inProcess(told.app), owner.token, owner.workspaceId);
  expect(await asking.ok('GET', `./destinations/${id}/health`)).toMatchObject({
    active: true,
    delivered_per_second: 2,
    failed_per_second: 1,
    waiting: 3,
    oldest_waiting_ms: 500,
    circuit: 'open',
    last_errors: [{ reason: 'answered 503', status: 503 }],
    state: 'failing',
    failed_share: 0.3333,
    retrying: 0,
    notice: { state: 'well' },
  });
  const rested = await create();
  const idsOf = async (state: string) =>
    (await asking.ok<Destination[]>('GET', `./destinations?state=${state}`)).map((one) => one.id);
  expect(await idsOf('failing,retrying')).toEqual([id]);
  expect(await asking.ok('GET', './destinations/health?state=failing')).toMatchObject([{ id }]);
  expect(await idsOf('no_traffic')).toContain(rested.id);
  expect(await idsOf('no_traffic')).not.toContain(id);
  await told.close();
});
