import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { openDevIssuer } from '@tributary/infra';
import { decodeJwt } from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Client, eventually } from '../../helpers/client.ts';
import { countAccepted } from '../../helpers/counts.ts';
import { type EventStream, openEventStream } from '../../helpers/event-stream.ts';
import { openTestGateway } from '../../helpers/gateway.ts';
import { onCluster, startTributary, type Tributary } from '../../helpers/tributary.ts';
import { startWebhook, type Webhook } from '../../helpers/webhook.ts';

type Shown = Readonly<Record<string, unknown>> & { readonly id: string };

const UUID = expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/);
const TIME = expect.stringMatching(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/);
const HOUR_MS = 3_600_000;
const NOT_AUTHENTICATED = { status: 401, body: { error: 'not authenticated' } };
const DENIED = { status: 403, body: { error: 'permission denied' } };
const NOT_FOUND = { status: 404, body: { error: 'not found' } };
const refusedFor = (path: string) => ({
  status: 400,
  body: { error: 'invalid request', details: [{ path }] },
});

const SAMPLE = { type: 'track', event: 'E', user_id: 'u' };
const MARKING =
  'function transform(event) { event.context = { ...event.context, marked: true }; return event; }';

/** Calls below a workspace, with valid bodies. */
const CALLS: readonly (readonly [call: string, body?: object])[] = [
  ['GET sources'],
  ['POST api-keys', { name: 'Server' }],
  ['POST events/page', { user_id: 'u' }],
  ['POST event-keys', { name: 'Site', environment: 'production' }],
  ['GET event-contracts'],
  [
    'POST event-contracts',
    {
      name: 'Signed Up',
      event_type: 'track',
      event_name: 'Signed Up',
      description: 'A new account',
      schema_definition: { properties: { plan: { type: 'string', required: true } } },
      enforcement_mode: 'warn',
      undeclared_fields: 'allow',
    },
  ],
  ['PUT event-contracts/{id}', { name: 'New', event_type: 'track', event_name: 'N', schema_definition: {} }],
  [
    'POST event-transformations',
    {
      name: 'Mark',
      description: 'Marks an event',
      source_code: MARKING,
      test_input: SAMPLE,
      test_output: { ...SAMPLE, context: { marked: true } },
    },
  ],
  ['PUT event-transformations/{id}', { name: 'New', source_code: MARKING }],
  [
    'POST event-forwarding-rules',
    {
      name: 'Sign-ups',
      destination_id: 'of the test',
      event_types: ['track'],
      event_names: ['Signed Up'],
      transformation_id: null,
      enabled: false,
    },
  ],
  ['PUT event-forwarding-rules/{id}', { name: 'New', destination_id: 'of the test' }],
];
/** The lists whose objects have a GET of their own. */
const READABLE = ['event-contracts', 'event-transformations', 'event-forwarding-rules'];

let tributary: Tributary;
let owner: Client;
let producer: Client;
/** A person with a workspace elsewhere. */
let stranger: Client;
/** The owner, without a workspace header. */
let bare: Client;
let webhook: Webhook;
let live: EventStream;
let destinationId: string;
let mint: (email: string, at?: Date) => Promise<string>;
/** An API key as it was created, and as it is listed. */
let apiKeys: readonly (Shown | undefined)[];

beforeAll(async () => {
  tributary = await startTributary();
  ({ owner, producer } = tributary);
  mint = openDevIssuer({ dataFolder: tributary.folder, devIssuerKey: '' }).mint;
  bare = new Client(tributary.url, tributary.idToken);
  webhook = await startWebhook();
  const { url, idToken: token, workspaceId } = tributary;
  live = await openEventStream(url, { token, workspaceId });
  const place = { name: 'Hook', type: 'webhook', settings: { url: webhook.url } };
  destinationId = (await owner.post<Shown>('./destinations', place)).id;
  const elsewhere = tributary.owner.with({ token: await mint('stranger@example.com') });
  const { id } = await elsewhere.post<Shown>('/workspaces', { name: 'Elsewhere' });
  stranger = elsewhere.with({ workspaceId: id });
  const created = await create('api-keys');
  const listed = await owner.get<readonly Shown[]>('./api-keys');
  apiKeys = [created, listed.find(({ id }) => id === created.id)];
});
afterAll(async () => {
  live.close();
  await tributary.remove();
  await webhook.close();
});

/** The body of a call of the table, with the destination of this test. */
function bodyOf(call: string, more: object = {}): object | undefined {
  const body = CALLS.find(([name]) => name === call)?.[1];
  if (body === undefined) return undefined;
  return { ...body, ...('destination_id' in body ? { destination_id: destinationId } : {}), ...more };
}

let names = 0;
/** Another object of the list; a name of events has only one contract. */
const create = (list: string, more: object = {}) => {
  const unique = list === 'event-contracts' ? { event_name: `Unique ${++names}` } : {};
  return owner.post<Shown & { readonly key: string }>(
    `./${list}`,
    bodyOf(`POST ${list}`, { ...unique, ...more }),
  );
};

/** Makes a call of the table in the workspace of the test. */
function make(call: string, client: Client) {
  const [method = '', path = ''] = call.split(' ');
  const body = bodyOf(call);
  const options = body === undefined ? {} : { body };
  return client.call<Shown>(method, `/workspaces/${tributary.workspaceId}/${path}`, options);
}

/** The event of that id as the live stream shows it. */
async function seen(messageId: string) {
  const [event] = await eventually(
    () => live.events().filter(({ message_id }) => message_id === messageId),
    ({ length }) => length > 0,
  );
  return event ?? {};
}

interface Volume {
  readonly event_type: string;
  readonly event_name: string;
  readonly hour_bucket: string;
  readonly event_count: number;
}
const volumeOf = async (type: string, name: string) =>
  (await owner.get<readonly Volume[]>('./event-volume')).filter(
    ({ event_type, event_name }) => event_type === type && event_name === name,
  );
const counted = (type: string, name: string, count: number) =>
  eventually(
    () => volumeOf(type, name),
    (records) => records.reduce((sum, { event_count }) => sum + event_count, 0) === count,
  );

describe('What the service does', () => {
  it.each<[string, () => Promise<string>]>([
    ['authenticates callers with an ID token of the identity platform', async () => tributary.idToken],
    ['authenticates callers with an API key', async () => (await create('api-keys')).key],
  ])('%s', async (_, token) => {
    expect(await make('GET sources', owner.with({ token: await token() }))).toMatchObject({ status: 200 });
  });

  it('scopes calls to a workspace by `X-Workspace-ID`', async () => {
    expect((await make('GET sources', bare)).status).toBe(400);
    expect((await make('GET sources', owner)).status).toBe(200);
  });

  it('manages long-lived API keys per workspace', async () => {
    expect(apiKeys[0]).toMatchObject({ expires_at: null });
    expect(await stranger.get('./api-keys')).toEqual([]);
  });

  it.each([
    ['collects, transforms, forwards, shows and counts a track event', 'track', { event: 'All' }, 'All'],
    ['the same for an identify event', 'identify', { traits: { plan: 'all' } }, ''],
    ['the same for a page event', 'page', { name: 'All' }, 'All'],
    ['the same for a group event', 'group', { group_id: 'all' }, ''],
  ])('%s', async (_, type, fields, name) => {
    const { id: transformation_id } = await create('event-transformations');
    const rule = await create('event-forwarding-rules', {
      ...{ event_types: [type], event_names: [], transformation_id, enabled: true },
    });
    const before = (await volumeOf(type, name)).reduce((sum, { event_count }) => sum + event_count, 0);
    const message_id = `all-${type}`;
    await producer.post(`./events/${type}`, { ...fields, user_id: 'u-all', message_id });
    expect(await seen(message_id)).toMatchObject({ type, ...fields, outcome: 'accepted' });
    const deliveries = await eventually(
      () => webhook.deliveries().filter(({ rule_id }) => rule_id === rule.id),
      (found) => found.length > 0,
    );
    expect(deliveries[0]?.event).toMatchObject({ ...fields, message_id, context: { marked: true } });
    await counted(type, name, before + 1);
    await owner.ok('DELETE', `./event-forwarding-rules/${rule.id}`);
  });
});

describe('Resources and their fields', () => {
  describe('API key', () => {
    it('API key `key`: the raw key, only in the response that creates it', () => {
      const [created, listed] = apiKeys;
      expect(created?.key).toEqual(expect.stringMatching(/^trb_api_\w+$/));
      expect(listed).not.toHaveProperty('key');
    });

    it('API key `status`: revoked', async () => {
      const { id } = await create('api-keys');
      await owner.ok('DELETE', `./api-keys/${id}`);
      const listed = (await owner.get<readonly Shown[]>('./api-keys')).find((key) => key.id === id);
      expect(listed?.status).toBe('revoked');
    });

    it('stored only as a hash, and never returned by a list', async () => {
      const { id, key } = await create('api-keys');
      const list = JSON.stringify(await owner.get('./api-keys'));
      expect(list).toContain(id);
      expect(list).not.toContain(key);
      expect(list).not.toContain('hash');
      if (onCluster) return;
      expect(isStored(id)).toBe(true);
      expect(isStored(key)).toBe(false);
    });
  });

  describe('Write key', () => {
    it('write key `last_used_at`: the time of the last event', async () => {
      const { id, key } = await create('event-keys');
      const before = Date.now();
      await owner.with({ token: key }).post('./events/page', { user_id: 'u' });
      const used = await eventually(
        async () => (await owner.get<readonly Shown[]>('./event-keys')).find((each) => each.id === id),
        (listed) => listed?.last_used_at !== null,
      );
      expect(used?.last_used_at).toEqual(TIME);
      expect(Date.parse(String(used?.last_used_at))).toBeGreaterThanOrEqual(before);
      expect(Date.parse(String(used?.last_used_at))).toBeLessThanOrEqual(Date.now());
    });
  });

  describe('Event contract', () => {
    it('contract `status`: archived', async () => {
      const { id } = await create('event-contracts');
      await owner.ok('DELETE', `./event-contracts/${id}`);
      expect(await owner.get(`./event-contracts/${id}`)).toMatchObject({ status: 'archived' });
    });

    it.each([
      ['mode allow: informational; all events pass', 'allow', 'accepted', [], 2],
      ['mode warn: events pass; violations are recorded', 'warn', 'warned', ['warned'], 2],
      ['mode block: events that violate the schema are rejected', 'block', 'rejected', ['blocked'], 1],
    ])('%s', async (_, enforcement_mode, outcome, actions, passed) => {
      const event_name = `Mode ${enforcement_mode}`;
      const undeclared_fields = enforcement_mode === 'allow' ? 'block' : 'allow';
      const { id } = await create('event-contracts', { event_name, enforcement_mode, undeclared_fields });
      const send = (message_id: string, properties: object) =>
        producer.post('./events/track', { event: event_name, user_id: 'u', message_id, properties });
      // The first event after the response is judged already.
      await send(`bad ${outcome}`, { plan: 7, other: 1 });
      await send(`good ${outcome}`, { plan: 'pro' });
      expect((await seen(`bad ${outcome}`)).outcome).toBe(outcome);
      expect(await seen(`good ${outcome}`)).toMatchObject({ outcome: 'accepted', violations: [] });
      await counted('track', event_name, passed);
      const recorded = await eventually(
        () => owner.get<readonly Shown[]>(`./event-contracts/${id}/violations`),
        ({ length }) => length >= actions.length,
      );
      const of = { message_id: `bad ${outcome}`, event_type: 'track', event_name, contract_id: id };
      expect(recorded).toMatchObject(
        actions.map((action) => ({ ...of, action, kind: 'type', path: '/plan', contract_version: 1 })),
      );
      expect(recorded).toHaveLength(actions.length);
    });

    it('undeclared_fields allow: fields that the schema does not declare pass', async () => {
      await create('event-contracts', { event_name: 'Undeclared', enforcement_mode: 'block' });
      const properties = { plan: 'pro', other: 1 };
      const body = { event: 'Undeclared', user_id: 'u', message_id: 'undeclared', properties };
      await producer.post('./events/track', body);
      expect(await seen('undeclared')).toMatchObject({ outcome: 'accepted', properties });
    });
  });

  describe('Event transformation', () => {
    it.each([
      ['transformation `status`: draft without a test', { test_input: null, test_output: null }],
      ['transformation `status`: draft if its output is not the expected one', { test_output: SAMPLE }],
    ])('%s', async (_, changes) => {
      expect(await create('event-transformations', changes)).toMatchObject({ status: 'draft' });
    });

    it('transformation `status`: error while it fails on events, and active again by a PUT', async () => {
      const source_code =
        'function transform(event) { if (event.properties) throw new Error("no"); return event; }';
      const tested = { source_code, test_output: SAMPLE };
      const { id } = await create('event-transformations', tested);
      await create('event-forwarding-rules', {
        event_names: ['Fails'],
        transformation_id: id,
        enabled: true,
      });
      const batch = Array.from({ length: 20 }, () => ({ ...SAMPLE, event: 'Fails', properties: {} }));
      await producer.post('./events/batch', { batch });
      const failing = await eventually(
        () => owner.get<Shown>(`./event-transformations/${id}`),
        ({ status }) => status === 'error',
      );
      expect(failing.last_error).toContain('no');
      const put = bodyOf('POST event-transformations', tested);
      expect(await owner.put(`./event-transformations/${id}`, put)).toMatchObject({
        ...{ status: 'active', last_error: null },
      });
    });
  });

  describe('Event volume record', () => {
    it('its fields: `event_type`, `event_name`, `hour_bucket`, `event_count`', async () => {
      const before = Date.now();
      const batch = [1, 2, 3].map(() => ({ type: 'track', event: 'Counted', user_id: 'u' }));
      await producer.post('./events/batch', { batch });
      for (const record of await counted('track', 'Counted', 3)) {
        expect(record).toEqual({
          event_type: 'track',
          event_name: 'Counted',
          hour_bucket: expect.stringMatching(/^\d{4}-\d{2}-\d{2}T\d{2}:00:00\.000Z$/),
          event_count: expect.toSatisfy(Number.isInteger),
        });
        const hour = Date.parse(record.hour_bucket);
        expect(hour + HOUR_MS).toBeGreaterThan(before);
        expect(hour).toBeLessThanOrEqual(Date.now());
      }
    });
  });
});

describe('States and transitions', () => {
  it.each([
    ['an API key is active and shown once when it is created', 'api-keys'],
    ['a write key is active and shown once when it is created', 'event-keys'],
  ])('%s', async (_, list) => {
    const { id, key, status } = await create(list);
    expect(status).toBe('active');
    expect(JSON.stringify(await owner.get(`./${list}`))).not.toContain(key);
    expect((await owner.call('GET', `./${list}/${id}`)).status).toBe(405);
  });

  it.each([
    ['a revoked API key: permanent, later requests get 401', 'api-keys', 'GET event-contracts', 200],
    ['a revoked write key: permanent, later requests get 401', 'event-keys', 'POST events/page', 202],
  ])('%s', async (_, list, call, accepted) => {
    const { id, key } = await create(list);
    const holder = owner.with({ token: key });
    expect((await make(call, holder)).status).toBe(accepted);
    for (const spelling of [id, id.toUpperCase()])
      expect(await owner.call('DELETE', `./${list}/${spelling}`)).toMatchObject({
        status: 200,
        body: { id, status: 'revoked' },
      });
    expect(await make(call, holder)).toMatchObject(NOT_AUTHENTICATED);
    for (const method of ['PUT', 'POST', 'PATCH'])
      expect((await owner.call(method, `./${list}/${id}`, { body: { status: 'active' } })).status).toBe(405);
    const listed = (await owner.get<readonly Shown[]>(`./${list}`)).find((each) => each.id === id);
    expect(listed?.status).toBe('revoked');
    expect(await make(call, holder)).toMatchObject(NOT_AUTHENTICATED);
  });
});

describe('Endpoints', () => {
  describe('Workspaces and others', () => {
    it('GET workspaces: those of the caller, without a workspace header', async () => {
      const mine = await bare.get<readonly Shown[]>('/workspaces');
      expect(mine.map(({ id }) => id)).toEqual([tributary.workspaceId]);
    });

    it('POST workspaces: creates one, without a workspace header', async () => {
      const ada = new Client(tributary.url, await mint('ada@example.com'));
      const made = await ada.call<Shown>('POST', '/workspaces', { body: { name: 'Engines' } });
      expect(made).toMatchObject({ status: 201, body: { id: UUID, name: 'Engines' } });
      expect(await ada.get('/workspaces')).toMatchObject([{ id: made.body.id, name: 'Engines' }]);
    });

    it('organizations: without a workspace header', async () => {
      const [organization] = await bare.get<readonly Shown[]>('/organizations');
      expect(await bare.get(`/organizations/${organization?.id}`)).toMatchObject({ id: organization?.id });
    });

    it('GET sources: with an API key', async () => {
      const { key } = await create('api-keys');
      const made = await owner.post<Shown>('./sources', { name: 'Shop', type: 'web' });
      expect(await owner.with({ token: key }).get('./sources')).toMatchObject([{ id: made.id }]);
    });
  });

  describe('API keys', () => {
    it.each([
      ['GET api-keys: an array without `key`', 'api-keys'],
      ['GET event-keys: an array without the raw key', 'event-keys'],
    ])('%s', async (_, list) => {
      const listed = await owner.get<readonly Shown[]>(`./${list}`);
      expect(listed.length).toBeGreaterThan(1);
      for (const key of listed) expect(Object.keys(key)).not.toContain('key');
    });

    it.each(['api-keys', 'event-keys'])('DELETE %s/{keyId}: `status` is revoked', async (list) => {
      const { id } = await create(list);
      const answer = await owner.call('DELETE', `./${list}/${id}`);
      expect(answer).toMatchObject({ status: 200, body: { id, status: 'revoked' } });
    });

    it.each(['api-keys', 'event-keys'])(
      'DELETE %s/{keyId}: an unknown or foreign one is 404',
      async (list) => {
        const { id } = await stranger.post<Shown>(`./${list}`, bodyOf(`POST ${list}`));
        for (const missing of [id, randomUUID(), 'no-id'])
          expect(await owner.call('DELETE', `./${list}/${missing}`)).toMatchObject(NOT_FOUND);
        const listed = (await stranger.get<readonly Shown[]>(`./${list}`)).find((each) => each.id === id);
        expect(listed?.status).toBe('active');
      },
    );
  });

  describe('Event ingestion', () => {
    const LEAST = { track: { event: 'Least' }, identify: {}, page: {}, group: { group_id: 'g' } } as const;
    const TYPES = ['track', 'identify', 'page', 'group'] as const;
    const send = (type: string, body: object, client = producer) =>
      client.call('POST', `./events/${type}`, { body });

    it.each([
      ['POST events/track: records a user action', 'track', { event: 'Bought', properties: { total: 1.5 } }],
      ['POST events/identify: associates traits with a user', 'identify', { traits: { plan: 'pro' } }],
      ['POST events/page: records a page view', 'page', { name: 'Home', properties: { url: '/' } }],
      ['POST events/group: associates a user with a group', 'group', { group_id: 'g1', traits: { size: 3 } }],
    ])('%s', async (_, type, fields) => {
      const message_id = `purpose-${type}`;
      const common = {
        ...{ user_id: 'u1', anonymous_id: 'a1', timestamp: '2026-01-02T03:04:05+02:00' },
        context: { device: { type: 'phone' }, location: { country: 'IT' } },
      };
      expect(await send(type, { ...fields, ...common, message_id })).toMatchObject({
        status: 202,
        body: { message_id, status: 'received' },
      });
      expect(await seen(message_id)).toEqual({
        ...{ type, message_id, ...fields, ...common },
        ...{ environment: 'production', workspace_id: tributary.workspaceId },
        timestamp: '2026-01-02T01:04:05.000Z',
        context: { ...common.context, tributary: { timestamp: common.timestamp } },
        received_at: TIME,
        ...{ outcome: 'accepted', violations: [] },
      });
    });

    it.each(TYPES)('%s: authorized by a bearer write key, and by nothing else', async (type) => {
      const body = { ...LEAST[type], user_id: 'u' };
      const { key } = await create('api-keys');
      expect((await send(type, body)).status).toBe(202);
      for (const client of [owner, owner.with({ token: key })])
        expect(await send(type, body, client)).toMatchObject(DENIED);
    });

    it.each(TYPES)('%s: needs at least one of `user_id` and `anonymous_id`', async (type) => {
      for (const ids of [{ user_id: 'u' }, { anonymous_id: 'a' }, { user_id: 'u', anonymous_id: 'a' }])
        expect((await send(type, { ...LEAST[type], ...ids })).status).toBe(202);
      for (const none of [{}, { user_id: null, anonymous_id: null }])
        expect(await send(type, { ...LEAST[type], ...none })).toMatchObject({
          status: 400,
          body: { error: 'invalid request', details: [{ message: 'user_id or anonymous_id is required' }] },
        });
    });

    /** As in the specification; a field that it marks `-` is `refused`, or `optional` where the service accepts it as well. */
    const FIELDS = [
      // field, value, wrong value, then track, identify, page, group
      ['event', 'Least', 7, 'required', 'refused', 'refused', 'refused'],
      ['user_id', 'u1', 7, 'optional', 'optional', 'optional', 'optional'],
      ['anonymous_id', 'a1', 7, 'optional', 'optional', 'optional', 'optional'],
      ['properties', { url: '/', n: 1 }, [], 'optional', 'refused', 'optional', 'refused'],
      ['timestamp', '2026-01-02T03:04:05.678Z', 'now', 'optional', 'optional', 'optional', 'optional'],
      ['context', { device: { id: 'd' } }, 'x', 'optional', 'optional', 'optional', 'optional'],
      ['traits', { plan: 'pro' }, 'x', 'refused', 'optional', 'refused', 'optional'],
      ['name', 'Home', 7, 'refused', 'refused', 'optional', 'refused'],
      ['group_id', 'g1', 7, 'refused', 'refused', 'refused', 'required'],
    ] as const;

    it.each(
      FIELDS.flatMap(([field, value, wrong, ...marks]) =>
        marks.map((mark, at) => [field, TYPES[at] ?? 'track', mark, value, wrong] as const),
      ),
    )('`%s` of %s: %s', async (field, type, mark, value, wrong) => {
      const message_id = `field-${field}-${type}`;
      const { [field]: _, ...without }: Record<string, unknown> = {
        ...LEAST[type],
        ...(field === 'user_id' ? { anonymous_id: 'a' } : { user_id: 'u' }),
      };
      const answer = await send(type, { ...without, message_id, [field]: value });
      if (mark === 'refused') return expect(answer).toMatchObject(refusedFor(`/${field}`));
      expect(answer.status).toBe(202);
      expect((await seen(message_id))[field]).toEqual(value);
      expect(await send(type, { ...without, [field]: wrong })).toMatchObject(refusedFor(`/${field}`));
      expect(await send(type, without)).toMatchObject(
        mark === 'required' ? refusedFor(`/${field}`) : { status: 202 },
      );
    });

    it('`timestamp`: by default the time of the server', async () => {
      const before = Date.now();
      await send('track', { ...LEAST.track, user_id: 'u', message_id: 'timeless' });
      const after = Date.now();
      const { timestamp, received_at } = await seen('timeless');
      expect(timestamp).toEqual(TIME);
      expect(timestamp).toBe(received_at);
      expect(Date.parse(String(timestamp))).toBeGreaterThanOrEqual(before);
      expect(Date.parse(String(timestamp))).toBeLessThanOrEqual(after);
    });
  });

  describe('Contracts', () => {
    it('GET event-contracts/{contractId}/violations: an array, of this contract only', async () => {
      const { id } = await create('event-contracts', { event_name: 'Violated' });
      expect(await owner.get(`./event-contracts/${id}/violations`)).toEqual([]);
      await producer.post('./events/track', { event: 'Violated', user_id: 'u', message_id: 'violated' });
      const recorded = await eventually(
        () => owner.get<readonly Shown[]>(`./event-contracts/${id}/violations`),
        ({ length }) => length > 0,
      );
      expect(recorded).toMatchObject([{ contract_id: id, message_id: 'violated', path: '/plan' }]);
    });
  });

  describe.each(READABLE)('%s', (list) => {
    it('PUT replaces its fields, and those that it leaves out get their defaults', async () => {
      const { id, name } = await create(list);
      const body = bodyOf(`PUT ${list}/{id}`, list === 'event-contracts' ? { event_name: 'Put' } : {});
      const put = await owner.call<Shown>('PUT', `./${list}/${id}`, { body });
      const defaults = list === 'event-forwarding-rules' ? { event_names: [] } : { description: null };
      expect(put).toMatchObject({ status: 200, body: { id, ...body, ...defaults } });
      expect(put.body.name).not.toBe(name);
      expect(await owner.get(`./${list}/${id}`)).toEqual(put.body);
    });
  });

  describe('Volume and live stream', () => {
    it('GET event-volume: an array of hourly counts', async () => {
      await producer.post('./events/page', { user_id: 'u', name: 'Counted page' });
      await counted('page', 'Counted page', 1);
    });

    it('GET event-volume: `hours` looks back, 24 by default, only in the own workspace', async () => {
      const test = await openTestGateway();
      const person = await test.openWorkspace();
      const hour = Math.floor(test.clock.now() / HOUR_MS) * HOUR_MS;
      // Half past the hour, so that it does not change during the test.
      test.clock.pass(hour + HOUR_MS / 2 - test.clock.now());
      const workspaceId = String(person.workspaceId);
      await countAccepted(
        test.dependencies.counters,
        [0, 1, 23, 24].map((ago) => ({
          workspaceId,
          name: `${ago}`,
          minute: hour - ago * HOUR_MS,
          count: 2,
        })),
      );
      const hoursAgo = async (query: string) =>
        (await person.ok<readonly Volume[]>('GET', `./event-volume${query}`)).map(
          (record) => record.event_name,
        );
      expect(await hoursAgo('')).toEqual(['23', '1', '0']);
      expect(await hoursAgo('?hours=1')).toEqual(['0']);
      expect(await hoursAgo('?hours=2')).toEqual(['1', '0']);
      expect(await hoursAgo('?hours=25')).toEqual(['24', '23', '1', '0']);
      expect(await (await test.openWorkspace('other@example.com')).ok('GET', './event-volume')).toEqual([]);
      await test.close();
    });

    it.each(['x', '1.5', '0', '-1', ''])('GET event-volume: `hours` is an integer, not %j', async (hours) => {
      expect(await owner.call('GET', `./event-volume?hours=${hours}`)).toMatchObject(refusedFor('hours'));
    });

    it('GET events/live: Server-Sent Events of recent events', async () => {
      expect(live.status).toBe(200);
      expect(live.headers['content-type']).toMatch(/^text\/event-stream/);
      await producer.post('./events/track', { event: 'Recent', user_id: 'u', message_id: 'recent' });
      expect(await seen('recent')).toMatchObject({ type: 'track', event: 'Recent' });
      const { url, idToken: token, workspaceId } = tributary;
      const late = await openEventStream(url, { token, workspaceId });
      await eventually(
        () => late.events().some(({ message_id }) => message_id === 'recent'),
        (found) => found,
      );
      late.close();
    });
  });
});

describe('Authentication', () => {
  describe('an ID token', () => {
    it('expires after an hour', async () => {
      const { iat = 0, exp = 0 } = decodeJwt(tributary.idToken);
      expect(exp - iat).toBe(3_600);
      const minutesOld = async (minutes: number) => {
        const token = await mint('minutes@example.com', new Date(Date.now() - minutes * 60_000));
        return owner.with({ token }).call('GET', '/workspaces');
      };
      expect((await minutesOld(58)).status).toBe(200);
      const { status, body } = await minutesOld(62);
      expect({ status, body }).toEqual(NOT_AUTHENTICATED);
    });

    it('provisions an account on first use, and finds it again with a refreshed token', async () => {
      const signedIn = async () => new Client(tributary.url, await mint('first@example.com'));
      expect(await (await signedIn()).get('/workspaces')).toEqual([]);
      const { id } = await (await signedIn()).post<Shown>('/workspaces', { name: 'First' });
      expect(await (await signedIn()).get('/workspaces')).toMatchObject([{ id }]);
    });

    it('is verified with the identity platform: another signature is 401', async () => {
      const [head, claims, signature = ''] = tributary.idToken.split('.');
      const forged = [head, claims, signature.split('').reverse().join('')].join('.');
      expect(await owner.with({ token: forged }).call('GET', '/workspaces')).toMatchObject(NOT_AUTHENTICATED);
    });
  });

  it('an API key is scoped to one workspace', async () => {
    const { key } = await create('api-keys');
    const holder = owner.with({ token: key });
    expect((await make('GET event-contracts', holder)).status).toBe(200);
    const theirs = String((await stranger.get<readonly Shown[]>('/workspaces'))[0]?.id);
    const elsewhere = holder.with({ workspaceId: theirs });
    expect(await elsewhere.call('GET', './event-contracts')).toMatchObject(DENIED);
  });

  it('the token is verified first, then the membership, then the body', async () => {
    const wrong = (client: Client) => client.call('POST', './api-keys', { body: { colour: 'red' } });
    const outsider = owner.with({ token: await mint('outsider@example.com') });
    expect(await wrong(outsider.with({ token: 'nonsense' }))).toMatchObject(NOT_AUTHENTICATED);
    expect(await wrong(outsider)).toMatchObject(DENIED);
    expect(await wrong(owner)).toMatchObject({ status: 400, body: { error: 'invalid request' } });
  });
});

describe('Events', () => {
  it.each(['screen', 'alias', 'Track', 'tracks'])('ingestion does not accept the type %s', async (type) => {
    const body = { user_id: 'u', event: 'x' };
    expect([404, 405]).toContain((await producer.call('POST', `./events/${type}`, { body })).status);
    expect(await producer.post('./events/batch', { batch: [{ ...body, type }] })).toMatchObject({
      accepted: 0,
      rejected: [{ index: 0, details: [{ path: '/type' }] }],
    });
  });

  it('contracts match by `event_type` and `event_name`', async () => {
    const strict = { enforcement_mode: 'block' };
    const made = [
      await create('event-contracts', { ...strict, event_type: 'track', event_name: 'Matched' }),
      await create('event-contracts', { ...strict, event_type: 'page', event_name: 'Matched' }),
      await create('event-contracts', { ...strict, event_type: 'identify', event_name: '' }),
      await create('event-contracts', { ...strict, event_type: 'group', event_name: '' }),
    ];
    const isBlocked = async (type: string, body: object) => {
      const path = `./events/${type}?check=contract`;
      const answer = await producer.call('POST', path, { body: { user_id: 'u', ...body } });
      if (answer.status !== 202)
        expect(answer).toMatchObject({ status: 400, body: { error: 'event blocked' } });
      return answer.status === 400;
    };
    const good = { plan: 'pro' };
    for (const [type, named] of [
      ['track', { event: 'Matched' }],
      ['page', { name: 'Matched' }],
      ['identify', {}],
      ['group', { group_id: 'g' }],
    ] as const) {
      expect(await isBlocked(type, named), type).toBe(true);
      const subject = type === 'track' || type === 'page' ? { properties: good } : { traits: good };
      expect(await isBlocked(type, { ...named, ...subject }), type).toBe(false);
    }
    expect(await isBlocked('track', { event: 'Not Matched' })).toBe(false);
    expect(await isBlocked('page', { name: 'Not Matched' })).toBe(false);
    for (const { id } of made) await owner.ok('DELETE', `./event-contracts/${id}`);
  });

  it('rules route by `event_types` and `event_names`, through their transformation', async () => {
    const { id: transformation_id } = await create('event-transformations');
    const RULES: readonly (readonly [fields: object, ids: readonly string[]])[] = [
      [{ event_types: ['page'], event_names: [] }, ['routed-page']],
      [
        { event_types: [], event_names: [] },
        ['group', 'identify', 'other', 'page', 'track'].map((id) => `routed-${id}`),
      ],
      [{ event_types: ['identify', 'group'], event_names: [] }, ['routed-group', 'routed-identify']],
      [{ event_types: [], event_names: ['Routed'] }, ['routed-page', 'routed-track']],
      [{ event_types: ['track'], event_names: ['Routed', 'Unheard'] }, ['routed-track']],
      [{ event_types: ['track'], event_names: ['Routed'], transformation_id }, ['routed-track']],
      [{ event_types: ['track'], event_names: ['Routed'], enabled: false }, []],
    ];
    const made: string[] = [];
    for (const [fields] of RULES)
      made.push((await create('event-forwarding-rules', { enabled: true, ...fields })).id);
    const of = {
      track: { event: 'Routed' },
      identify: {},
      page: { name: 'Routed' },
      group: { group_id: 'g' },
    };
    for (const [type, fields] of Object.entries(of))
      await producer.post(`./events/${type}`, { ...fields, user_id: 'u', message_id: `routed-${type}` });
    await producer.post('./events/track', { event: 'Other', user_id: 'u', message_id: 'routed-other' });
    const arrived = () => made.map((id) => webhook.deliveries().filter(({ rule_id }) => rule_id === id));
    const expected = RULES.map(([, ids]) => ids);
    await eventually(arrived, (found) => found.flat().length >= expected.flat().length);
    expect(arrived().map((each) => each.map(({ event }) => event.message_id).toSorted())).toEqual(expected);
    const isMarked = arrived().map((each) =>
      each.some(({ event }) => JSON.stringify(event).includes('marked')),
    );
    expect(isMarked).toEqual(RULES.map(([fields]) => 'transformation_id' in fields));
    for (const id of made) await owner.ok('DELETE', `./event-forwarding-rules/${id}`);
  });
});

describe('Errors', () => {
  it.each<[string, () => Promise<string>]>([
    ['401: an invalid token', async () => 'nonsense'],
    ['401: an API key that was never issued', async () => `trb_api_${'x'.repeat(49)}`],
    ['401: an expired token', () => mint('late@example.com', new Date(Date.now() - 2 * HOUR_MS))],
    [
      '401: a revoked API key',
      async () => {
        const { id, key } = await create('api-keys');
        await owner.ok('DELETE', `./api-keys/${id}`);
        return key;
      },
    ],
  ])('%s', async (_, token) => {
    const { status, body } = await make('GET sources', owner.with({ token: await token() }));
    expect({ status, body }).toEqual(NOT_AUTHENTICATED);
  });
});

describe('Versioning', () => {
  it.each(['/workspaces', '/api/workspaces', '/api/v2/workspaces', '/v1/workspaces'])(
    'the version is a path segment: %s is 404',
    async (path) => {
      const headers = { authorization: `Bearer ${tributary.idToken}` };
      expect((await fetch(tributary.url + path, { headers })).status).toBe(404);
      expect((await fetch(`${tributary.url}/api/v1/workspaces`, { headers })).status).toBe(200);
    },
  );
});

/** Whether a file of the data folder contains the text. */
function isStored(text: string): boolean {
  return readdirSync(tributary.folder, { recursive: true, withFileTypes: true })
    .filter((file) => file.isFile())
    .some((file) => readFileSync(join(file.parentPath, file.name)).includes(text));
}
