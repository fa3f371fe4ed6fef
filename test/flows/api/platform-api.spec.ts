import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { openDevIssuer } from '@tributary/infra';
import { decodeJwt } from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Client, eventually } from '../../helpers/client.ts';
import { type EventStream, openEventStream } from '../../helpers/event-stream.ts';
import { onCluster, startTributary, type Tributary } from '../../helpers/tributary.ts';
import { startWebhook, type Webhook } from '../../helpers/webhook.ts';

type Shown = Readonly<Record<string, unknown>> & { readonly id: string };

const TIME = expect.stringMatching(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/);
const NOT_AUTHENTICATED = { status: 401, body: { error: 'not authenticated' } };
const DENIED = { status: 403, body: { error: 'permission denied' } };
const refusedFor = (path: string) => ({
  status: 400,
  body: { error: 'invalid request', details: [{ path }] },
});

const SAMPLE = { type: 'track', event: 'E', user_id: 'u' };
const MARKING =
  'function transform(event) { event.context = { ...event.context, marked: true }; return event; }';

/** A valid body for each list. */
const BODIES = {
  'api-keys': { name: 'Server' },
  'event-contracts': {
    name: 'Signed Up',
    event_type: 'track',
    schema_definition: { properties: { plan: { type: 'string', required: true } } },
  },
  'event-transformations': {
    name: 'Mark',
    source_code: MARKING,
    test_input: SAMPLE,
    test_output: { ...SAMPLE, context: { marked: true } },
  },
  'event-forwarding-rules': { name: 'Sign-ups', event_types: ['track'] },
};

let tributary: Tributary;
let owner: Client;
let producer: Client;
let webhook: Webhook;
let live: EventStream;
let destinationId: string;
let mint: (email: string, at?: Date) => Promise<string>;

beforeAll(async () => {
  tributary = await startTributary();
  ({ owner, producer } = tributary);
  mint = openDevIssuer({ dataFolder: tributary.folder, devIssuerKey: '' }).mint;
  webhook = await startWebhook();
  const { url, idToken: token, workspaceId } = tributary;
  live = await openEventStream(url, { token, workspaceId });
  const place = { name: 'Hook', type: 'webhook', settings: { url: webhook.url } };
  destinationId = (await owner.post<Shown>('./destinations', place)).id;
});
afterAll(async () => {
  live.close();
  await tributary.remove();
  await webhook.close();
});

let names = 0;
/** Another object of the list; a name of events has only one contract. */
function create(list: keyof typeof BODIES, more: object = {}) {
  const missing = {
    ...(list === 'event-contracts' && { event_name: `Unique ${++names}` }),
    ...(list === 'event-forwarding-rules' && { destination_id: destinationId }),
  };
  return owner.post<Shown & { readonly key: string }>(`./${list}`, {
    ...BODIES[list],
    ...missing,
    ...more,
  });
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

  describe('Event contract', () => {
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
  });

  describe('Event transformation', () => {
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
      const put = { ...BODIES['event-transformations'], ...tested };
      expect(await owner.put(`./event-transformations/${id}`, put)).toMatchObject({
        ...{ status: 'active', last_error: null },
      });
    });
  });
});

describe('Endpoints', () => {
  describe('Event ingestion', () => {
    const LEAST = { track: { event: 'Least' }, identify: {}, page: {}, group: { group_id: 'g' } } as const;
    const TYPES = ['track', 'identify', 'page', 'group'] as const;
    const send = (type: string, body: object, client = producer) =>
      client.call('POST', `./events/${type}`, body);

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
  });

  it('the token is verified first, then the membership, then the body', async () => {
    const wrong = (client: Client) => client.call('POST', './api-keys', { colour: 'red' });
    const outsider = owner.with({ token: await mint('outsider@example.com') });
    expect(await wrong(outsider.with({ token: 'nonsense' }))).toMatchObject(NOT_AUTHENTICATED);
    expect(await wrong(outsider)).toMatchObject(DENIED);
    expect(await wrong(owner)).toMatchObject({ status: 400, body: { error: 'invalid request' } });
  });
});

describe('Events', () => {
  it.each(['screen', 'alias', 'Track', 'tracks'])('ingestion does not accept the type %s', async (type) => {
    const body = { user_id: 'u', event: 'x' };
    expect([404, 405]).toContain((await producer.call('POST', `./events/${type}`, body)).status);
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
      const answer = await producer.call('POST', path, { user_id: 'u', ...body });
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
