import { readFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { type CanonicalEvent, type Connector, type Delivery, type JsonObject, nameId } from '@tributary/core';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { sampleDelivery } from '../delivery.fixture.ts';
import { type Chosen, KEY, SAMPLES, SECRET } from './pack.fixture.ts';
import { PackHost } from './pack-process.ts';
import { VENDOR_ANSWERS } from './pack-run.ts';
import { describeDestination, OF_0_2_0 } from './settings.ts';
import { definitionOf, startVendors, type VendorRequest } from './vendors.fixture.ts';

type Request = VendorRequest & { readonly body: unknown };

const requests: Request[] = [];
const answering = { with: (response: ServerResponse) => void response.writeHead(200).end('{}') };
const ok = answering.with;
const vendors = startVendors((response, request) => {
  requests.push({ ...request, body: parsed(request.text) });
  answering.with(response);
});
const { rewritten } = vendors;
const unhurried = { signal: new AbortController().signal };
const EVENT: CanonicalEvent = {
  message_id: 'm-1',
  type: 'track',
  event: 'Tea Poured',
  user_id: 'u-1',
  anonymous_id: 'a-1',
  properties: { cups: 2 },
  context: { traits: { email: 'ann@example.com' } },
  timestamp: '2026-01-02T03:04:05.000Z',
  received_at: '2026-01-02T03:04:05.000Z',
  environment: 'production',
  workspace_id: 'w1',
};
const { event: _event, properties: _properties, ...common } = EVENT;
const IDENTIFY: CanonicalEvent = {
  ...common,
  type: 'identify',
  traits: { email: 'ann@example.com', name: 'Ann' },
};
const UUID = nameId('message', 'm-1', '0');
/** To start a process takes longer than most of these tests. */
const shared = new PackHost();
let host: PackHost;

beforeAll(() => shared.enter());
afterAll(() => shared.leave());
beforeEach(() => {
  host = shared;
  requests.length = 0;
  answering.with = ok;
  vendors.rewritten = rewritten;
});
afterEach(() => vendors.close());

/** The body is JSON, or a form whose values may themselves be JSON. */
function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    if (!body.includes('=')) return body;
    return Object.fromEntries([...new URLSearchParams(body)].map(([name, value]) => [name, parsed(value)]));
  }
}

const connect = (destination: string, timeoutMs?: number) =>
  vendors.connect(definitionOf(destination), host, timeoutMs);

function destinationFor(destination: Chosen, settings: JsonObject = SAMPLES[destination].settings) {
  return { id: `d-${destination}`, workspaceId: 'w1', version: 1, settings };
}

function delivery(event: CanonicalEvent = EVENT, id = 'x1'): Delivery {
  return { ...sampleDelivery(id), message_id: event.message_id, created_at: EVENT.received_at, event };
}

interface Sending {
  readonly events?: readonly Delivery[];
  readonly settings?: JsonObject;
  readonly by?: Connector;
}

const send = (
  destination: Chosen,
  { events = [delivery()], settings, by = connect(destination) }: Sending = {},
) => by.deliver(destinationFor(destination, settings), events, unhurried);

describe('the requests that reach each destination', () => {
  test.each(OF_0_2_0)('%s', async (destination) => {
    const connector = connect(destination);
    const { track, identify } = SAMPLES[destination];
    for (const [event, expected] of [
      [EVENT, track],
      [IDENTIFY, identify],
    ] as const) {
      requests.length = 0;
      const results = await send(destination, { events: [delivery(event)], by: connector });
      expect(results).toMatchObject([{ outcome: expected.length > 0 ? 'delivered' : 'unwanted' }]);
      expect(requests).toMatchObject(expected.map((sent) => ({ method: 'POST', ...sent })));
      for (const { headers } of requests) expect(headers['user-agent']).toBe('Segment (Actions)');
    }
  });
});

describe('properties and traits with the names that objects inherit are sent like others', () => {
  const names = Object.getOwnPropertyNames(Object.prototype).filter((name) => name !== '__proto__');
  const values = ['McLaren', null, { constructor: null }];
  test.each(OF_0_2_0)('%s', async (destination) => {
    const connector = connect(destination);
    for (const value of values) {
      const odd = Object.fromEntries([...names, 'then', 'length'].map((name) => [name, value]));
      const events = [
        { ...EVENT, properties: { ...EVENT.properties, ...odd } },
        { ...IDENTIFY, traits: { ...IDENTIFY.traits, ...odd } },
      ];
      for (const event of events) {
        const isTaken = event.type !== 'track' || SAMPLES[destination].track.length > 0;
        expect(await send(destination, { events: [delivery(event)], by: connector })).toMatchObject([
          { outcome: isTaken ? 'delivered' : 'unwanted' },
        ]);
      }
    }
  });
});

const SCREEN: CanonicalEvent = {
  ...common,
  type: 'screen',
  name: 'Kettle',
  category: 'Kitchen',
  properties: { cups: 3 },
};
const ALIAS: CanonicalEvent = { ...common, type: 'alias', previous_id: 'u-0' };

describe('a screen and an alias were a page and an identify, so no preset for them ran', () => {
  const sentBefore = { channel: 'mobile', category: 'Kitchen', integrations: { All: true } };
  const before = {
    screen: { ...SCREEN, type: 'page', context: { segment: { ...sentBefore, type: 'screen' } } },
    alias: {
      ...common,
      type: 'identify',
      context: { alias: { previous_id: 'u-0' }, segment: { type: 'alias' } },
    },
  } as const;
  test.each<[string, Chosen, CanonicalEvent, JsonObject]>([
    ['screen', 'amplitude', SCREEN, { events: [{ event_type: 'Viewed Kettle' }] }],
    ['screen', 'customerio', SCREEN, { action: 'screen', name: 'Kettle' }],
    ['screen', 'posthog', SCREEN, { batch: [{ event: '$screen', properties: { $screen_name: 'Kettle' } }] }],
    ['screen', 'pushwoosh', SCREEN, { events: [{ name: 'Kettle' }] }],
    ['screen stored by 0.2.0', 'customerio', before.screen, { action: 'screen', name: 'Kettle' }],
    ['alias', 'customerio', ALIAS, { action: 'merge', primary: { id: 'u-1' }, secondary: { id: 'u-0' } }],
    ['alias', 'encharge', ALIAS, { type: 'alias', userId: 'u-1', previousUserId: 'u-0' }],
    ['alias stored by 0.2.0', 'encharge', before.alias, { type: 'alias', previousUserId: 'u-0' }],
  ])('%s, at %s', async (_, destination, event, body) => {
    const results = await send(destination, { events: [delivery(event)] });
    expect(results).toMatchObject([{ outcome: 'delivered', status: 200 }]);
    expect(requests).toMatchObject([{ body }]);
  });
});

test.each(OF_0_2_0)('the settings of %s can be stated, and no key is shown again', (destination) => {
  const definition = definitionOf(destination);
  const { settingsSchema, secrets } = describeDestination(definition);
  const validate = new Ajv2020({ strict: true, allErrors: true }).compile(settingsSchema);
  const { settings } = SAMPLES[destination];
  expect(validate(settings), JSON.stringify(validate.errors)).toBe(true);
  expect(validate({ ...settings, other: 1 })).toBe(false);
  expect(validate({ ...settings, presets: ['no such preset'] })).toBe(false);
  expect(validate({ ...settings, actions: [{ action: 'none', subscribe: 'type = "page"' }] })).toBe(false);
  const keys = Object.entries(settings).filter(([, value]) => value === KEY || value === SECRET);
  expect([...secrets]).toEqual(expect.arrayContaining(keys.map(([name]) => name)));
});

test('presets can be chosen, and actions added with a mapping of their own', async () => {
  const connector = connect('iterable');
  const mapping = { eventName: 'Poured', userId: { '@path': '$.anonymousId' } };
  const own = {
    ...SAMPLES.iterable.settings,
    presets: [],
    actions: [{ action: 'trackEvent', subscribe: 'type = "track" and event = "Tea Poured"', mapping }],
  };
  const results = await send('iterable', {
    events: [delivery(), delivery(IDENTIFY)],
    settings: own,
    by: connector,
  });
  expect(results).toEqual([
    { outcome: 'delivered', status: 200, response: '{}', recorded: true },
    { outcome: 'unwanted', reason: 'not sent: no action takes it' },
  ]);
  expect(requests).toMatchObject([{ body: { eventName: 'Poured', userId: 'a-1' } }]);
});

test('options of the producer for a destination, by its name, reached no preset', async () => {
  const event = { ...EVENT, integrations: { All: false, Ours: { session_id: 8 } } };
  const ours = { ...destinationFor('amplitude'), name: 'Ours' };
  await connect('amplitude').deliver(ours, [delivery(event)], unhurried);
  expect(requests).toMatchObject([{ body: { events: [{ session_id: 8 }] } }]);
});

describe('a retry that a vendor took for another event carries its key of deduplication', () => {
  const own = (action: string, mapping: JsonObject) => ({
    presets: [],
    actions: [{ action, subscribe: 'type = "track"', mapping }],
  });
  const user = { '@path': '$.userId' };
  test.each<[Chosen, CanonicalEvent, string, unknown]>([
    ['amplitude', EVENT, 'events.0.insert_id', 'm-1'],
    ['amplitude', { ...EVENT, event: 'Order Completed' }, 'events.0.insert_id', 'm-1'],
    ['customerio', EVENT, 'id', 'm-1'],
    ['encharge', EVENT, 'messageId', 'm-1'],
    ['iterable', EVENT, 'id', 'm-1'],
    ['mixpanel', EVENT, '0.properties.$insert_id', 'm-1'],
    ['posthog', EVENT, 'batch.0.uuid', UUID],
    ['posthog', { ...EVENT, message_id: UUID }, 'batch.0.uuid', UUID],
    ['posthog', IDENTIFY, 'uuid', UUID],
    ['schematic', EVENT, 'idempotency_key', 'm-1'],
    ['usermaven', EVENT, 'event_id', 'm-1'],
  ])('%s', async (destination, event, path, key) => {
    await send(destination, { events: [delivery(event)] });
    const [{ body } = { body: undefined }] = requests;
    const valueAt = (value: unknown, name: string) => (value as JsonObject | undefined)?.[name];
    expect(path.split('.').reduce(valueAt, body)).toBe(key);
  });

  test('Amplitude, by an action with a key of its own, which stays', async () => {
    const mapping = { event_type: 'E', user_id: user, insert_id: { '@path': '$.properties.cups' } };
    const settings = { ...SAMPLES.amplitude.settings, ...own('logEventV2', mapping) };
    await send('amplitude', { settings });
    expect(requests).toMatchObject([{ body: { events: [{ insert_id: '2' }] } }]);
  });

  test('an iterable purchase without its order has the id of the message, and one with it that of the order', async () => {
    const mapping = {
      id: { '@path': '$.properties.order_id' },
      user: { userId: user },
      items: [{ id: 'i', name: 'n', price: 1, quantity: 1 }],
      total: 1,
    };
    const settings = { ...SAMPLES.iterable.settings, ...own('trackPurchase', mapping) };
    const bought = { ...EVENT, properties: { order_id: 'o-5' } };
    await send('iterable', { events: [delivery(), delivery(bought)], settings });
    expect(requests.map(({ body }) => (body as JsonObject).id).sort()).toEqual(['m-1', 'o-5']);
  });

  test('the outputs of one transformation, and a replay with new ids, are events of their own', async () => {
    const sent = [
      delivery(),
      { ...delivery(), index: 1 },
      { ...delivery(), replay: 'r-1' },
      { ...delivery(), index: 2, replay: 'r-1', idempotency_key: 'x1' },
    ];
    for (const one of sent) await send('mixpanel', { events: [one] });
    expect(requests.map(({ body }) => body)).toMatchObject(
      ['m-1', 'm-1:1', 'm-1:r-1', 'm-1:2'].map(($insert_id) => [{ properties: { $insert_id } }]),
    );
  });
});

describe('verdicts', () => {
  test.each([
    [500, { outcome: 'retry', status: 500 }],
    [429, { outcome: 'retry', status: 429, afterMs: 7_000 }],
    [400, { outcome: 'dead', status: 400 }],
    [401, { outcome: 'dead', status: 401 }],
  ])('an answer of %d', async (status, expected) => {
    answering.with = (response) => void response.writeHead(status, { 'retry-after': '7' }).end('no');
    expect(await send('posthog')).toMatchObject([expected]);
    expect(requests).toHaveLength(1);
  });

  test('an event that an action cannot be made of is dead, with its reason', async () => {
    const { context: _, ...bare } = EVENT;
    const results = await send('drip', { events: [delivery(bare), delivery()] });
    expect(results).toMatchObject([
      { outcome: 'dead', reason: expect.stringMatching(/^not sent: .*email/), local: true },
      { outcome: 'delivered' },
    ]);
    expect(requests).toHaveLength(1);
  });

  test('a subscription and an action that 0.2.0 took, and that take nothing, were delivered', async () => {
    const actions = [
      { action: 'trackEvent', subscribe: 'type == "track"' },
      { action: 'trackEvent', subscribe: 'banana' },
    ];
    const settings = { ...SAMPLES.iterable.settings, presets: [], actions };
    expect(await send('iterable', { settings })).toEqual([
      { outcome: 'unwanted', reason: 'not sent: no action takes it' },
    ]);
    // A preset of the pack for an action that it does not have.
    const { settings: own } = SAMPLES.amplitude;
    const session = { ...own, presets: ['Browser Session Tracking'] };
    expect(await send('amplitude', { settings: session })).toEqual([
      { outcome: 'unwanted', reason: 'not sent: no action takes it' },
    ]);
    expect(requests).toEqual([]);
  });

  /** What the documents of `VENDOR_ANSWERS` call a refusal, and an answer of a vendor that stored the event. */
  const BODIES: Readonly<Partial<Record<Chosen, { stored: string; refused: readonly string[] }>>> = {
    amplitude: {
      stored: '{"code":200,"events_ingested":1,"payload_size_bytes":50,"server_upload_time":1396381378123}',
      refused: ['{"code":400,"error":"Invalid"}', '{"code":200,"events_ingested":0}'],
    },
    braze: {
      stored: '{"message":"success","events_processed":1}',
      refused: [
        '{"message":"success","errors":[{"type":"bad","input_array":"events","index":0}]}',
        '{"message":"Valid data must be provided"}',
      ],
    },
    customerio: { stored: '{}', refused: ['{"errors":[{"reason":"invalid","field":"name"}]}'] },
    iterable: {
      stored: '{"msg":"","code":"Success","params":null}',
      refused: ['{"msg":"no","code":"BadParams"}', '{"successCount":0,"failCount":1}'],
    },
    mixpanel: {
      stored: '{"code":200,"num_records_imported":1,"status":"OK"}',
      refused: [
        '0',
        '{"status":0,"error":"token missing"}',
        '{"code":200,"num_records_imported":0,"status":"OK"}',
        '{"code":400,"failed_records":[{"index":0}]}',
        '{"code":200,"num_records_imported":1,"failed_records":[{"index":0}]}',
      ],
    },
    posthog: {
      stored: '{"status":"Ok"}',
      refused: ['{"status":"Ok","quota_limited":["events"]}'],
    },
    pushwoosh: {
      stored: '{"status_code":200,"status_message":"OK","response":null}',
      refused: ['{"status_code":210,"status_message":"no such event"}'],
    },
  };

  test.each(OF_0_2_0.map((destination) => [destination, BODIES[destination]] as const))(
    'an answer of %s that says "not stored" with a status of 2xx was delivered',
    async (destination, bodies) => {
      // A vendor with a document has bodies here, and one without is believed by its status.
      expect(bodies === undefined).toBe(VENDOR_ANSWERS[destination]?.document === undefined);
      const connector = connect(destination);
      const answerOf = async (body: string, status = 200) => {
        answering.with = (response) => void response.writeHead(status).end(body);
        const event = SAMPLES[destination].track.length > 0 ? EVENT : IDENTIFY;
        const [result] = await send(destination, { events: [delivery(event)], by: connector });
        return result;
      };
      expect(await answerOf(bodies?.stored ?? '{"error":"?"}')).toMatchObject({
        outcome: 'delivered',
        response: bodies?.stored ?? '{"error":"?"}',
      });
      for (const body of bodies?.refused ?? [])
        for (const status of [200, 201, 207])
          expect(await answerOf(body, status)).toMatchObject({
            outcome: 'dead',
            status,
            reason: expect.stringContaining(`answered ${status}, but stored nothing`),
            response: body,
          });
    },
  );

  test('a status of the rate or of an outage in the body of a 200 is tried again', async () => {
    const results = [];
    for (const code of [429, 503]) {
      answering.with = (response) => void response.writeHead(200).end(JSON.stringify({ status_code: code }));
      const sent = send('pushwoosh');
      results.push(...(await sent));
    }
    expect(results).toMatchObject([
      { outcome: 'retry', throttled: true },
      { outcome: 'retry', status: 200 },
    ]);
  });

  test('a redirect is not followed, and an address that is refused is not reached', async () => {
    answering.with = (response) => void response.writeHead(302, { location: '/elsewhere' }).end();
    const connector = connect('posthog');
    const [redirected] = await send('posthog', { by: connector });
    expect(redirected?.outcome).toBe('dead');
    expect(requests).toHaveLength(1);
    vendors.rewritten = () => 'http://169.254.169.254/latest/meta-data';
    const [refused] = await send('posthog', { by: connector });
    expect(refused).toEqual({ outcome: 'dead', reason: 'address not allowed' });
    vendors.rewritten = () => 'http://127.0.0.1:1/';
    const [closed] = await send('posthog', { by: connector });
    expect(closed).toMatchObject({ outcome: 'retry', reason: 'connection refused' });
  });

  test('a connection test calls the destination and exposes no key', async () => {
    const connector = connect('iterable');
    expect(await connector.test(destinationFor('iterable'), unhurried)).toEqual({ ok: true, status: 200 });
    answering.with = (response) => void response.writeHead(401).end(KEY);
    const told = await connector.test(destinationFor('iterable'), unhurried);
    expect(told.ok).toBe(false);
    expect(JSON.stringify(told)).not.toContain(KEY);
  });
});

describe('settings that are exchanged for a token', () => {
  const settings = {
    client_id: 'id-0123456789',
    client_secret: SECRET,
    subscriptions: [
      {
        action: 'updateEmailContactProfileFields',
        trigger: 'type = "track"',
        mapping: {
          listId: 1,
          emailAddress: 'ann@example.com',
          profileFieldValues: { 1: 'on' },
          enable_batching: false,
        },
      },
    ],
  };
  const listrak = { id: 'd-listrak', workspaceId: 'w1', version: 1, settings };
  const isGrant = ({ url }: Pick<Request, 'url'>) => url.includes('/OAuth2/Token');
  let grants: number;
  let valid: string;
  beforeEach(() => {
    // Tokens are kept in the process.
    host = new PackHost();
    grants = 0;
    valid = 'token-1';
    answering.with = (response) => {
      const request = requests.at(-1);
      if (request !== undefined && isGrant(request)) {
        grants += 1;
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(JSON.stringify({ access_token: `token-${grants}` }));
      } else response.writeHead(request?.headers.authorization === `Bearer ${valid}` ? 200 : 401).end('{}');
    };
  });

  test('one token serves many deliveries, and one that expired is renewed once', async () => {
    const connector = connect('listrak');
    const send = () => connector.deliver(listrak, [delivery()], unhurried);
    expect(await send()).toMatchObject([{ outcome: 'delivered' }]);
    expect(await send()).toMatchObject([{ outcome: 'delivered' }]);
    expect(grants).toBe(1);
    valid = 'token-2';
    const results = await Promise.all([send(), send(), send()]);
    expect(results).toMatchObject(Array(3).fill([{ outcome: 'delivered' }]));
    expect(grants).toBe(2);
  });

  test('a grant that fails is the failure of its delivery, and of those that waited for it a reason to try again', async () => {
    answering.with = (response) => void setTimeout(() => response.writeHead(503).end('no'), 300);
    const connector = connect('listrak');
    const send = () => connector.deliver(listrak, [delivery()], unhurried);
    const results = await Promise.all([send(), send(), send()]);
    expect(results).toMatchObject(Array(3).fill([{ outcome: 'retry' }]));
    expect(requests.filter(isGrant).length).toBeLessThanOrEqual(3);
  });

  test('a grant that is refused is dead, and no token is shown', async () => {
    answering.with = (response) => void response.writeHead(401).end(`{"access_token":"${SECRET}"}`);
    const [result] = await connect('listrak').deliver(listrak, [delivery()], unhurried);
    expect(result).toMatchObject({ outcome: 'dead', status: 401 });
    expect(JSON.stringify(result)).not.toContain(SECRET);
    expect(requests).toHaveLength(1);
  });
});

describe('the process of the pack', () => {
  beforeEach(() => {
    host = new PackHost();
  });
  /** The process of the workspace `w1`. Signals must never go to 0: that is the group of this process. */
  const pidInUse = (): number => {
    const pid = host.pidOf('w1');
    if (pid === undefined) throw new Error('the pack has no process');
    return pid;
  };

  test('begins with the first delivery, inherits nothing, and ends with the connectors', async () => {
    const connector = connect('posthog');
    expect(host.pidOf('w1')).toBeUndefined();
    await send('posthog', { by: connector });
    const pid = pidInUse();
    // Contains only the markers that the child uses to find its channel.
    const environment = (await readFile(`/proc/${pid}/environ`, 'utf8'))
      .split('\0')
      .filter((one) => one !== '');
    expect(environment.every((one) => one.startsWith('NODE_CHANNEL_'))).toBe(true);
    await connector.close();
    expect(() => process.kill(pid, 0)).toThrow('ESRCH');
  });

  test('killed under a delivery: tried again, by another process', async () => {
    const connector = connect('posthog');
    await send('posthog', { by: connector });
    const pid = pidInUse();
    answering.with = () => void process.kill(pid, 'SIGKILL');
    const [killed] = await send('posthog', { by: connector });
    expect(killed).toMatchObject({ outcome: 'retry' });
    answering.with = ok;
    const [again] = await send('posthog', { by: connector });
    expect(again).toMatchObject({ outcome: 'delivered' });
    expect(host.pidOf('w1')).not.toBe(pid);
  });

  test('a process that does not answer is killed at the deadline; one whose destination does not answer is not', async () => {
    const connector = connect('posthog');
    const impatient = connect('posthog', 1_500);
    await send('posthog', { by: connector });
    const pid = pidInUse();
    answering.with = () => undefined;
    const [slow] = await send('posthog', { by: impatient });
    expect(slow).toMatchObject({ outcome: 'retry', reason: 'timed out' });
    answering.with = ok;
    await send('posthog', { by: connector });
    expect(host.pidOf('w1')).toBe(pid);
    process.kill(pid, 'SIGSTOP');
    const [stuck] = await send('posthog', { by: impatient });
    expect(stuck).toMatchObject({ outcome: 'retry', reason: 'timed out' });
    const [again] = await send('posthog');
    expect(again).toMatchObject({ outcome: 'delivered' });
    expect(host.pidOf('w1')).not.toBe(pid);
  });

  test('one workspace delayed the deliveries of all: its mappings delay its own process alone', async () => {
    host = new PackHost({ maxProcesses: 2 });
    const connector = connect('iterable');
    const theirs = { ...destinationFor('iterable'), id: 'd-theirs', workspaceId: 'w2' };
    await connector.deliver(theirs, [delivery()], unhurried);
    const tenfold = { replacement: 'b'.repeat(10), pattern2: 'b', replacement2: 'a'.repeat(10) };
    const long = ['T', 'a', 'a'].reduce<JsonObject>(
      (value, pattern) => ({ '@replace': { pattern, ...tenfold, value } }),
      { '@path': '$.event' },
    );
    const none = { '@replace': { pattern: 'a', replacement: '', value: long } };
    const fields = Object.fromEntries(Array.from({ length: 40 }, (_, n) => [`k${n}`, none]));
    const mapping = { eventName: 'e', userId: 'u', dataFields: fields };
    const actions = Array.from({ length: 20 }, () => ({
      action: 'trackEvent',
      subscribe: 'type = "track"',
      mapping,
    }));
    const hostile = destinationFor('iterable', { ...SAMPLES.iterable.settings, presets: [], actions });
    const enough = new AbortController();
    let isOver = false;
    const held = connector.deliver(hostile, [delivery()], { signal: enough.signal }).finally(() => {
      isOver = true;
    });
    expect(await connector.deliver(theirs, [delivery()], unhurried)).toMatchObject([
      { outcome: 'delivered' },
    ]);
    expect(isOver).toBe(false);
    const pid = host.pidOf('w1');
    expect(pid).toBeDefined();
    expect(host.pidOf('w2')).not.toBe(pid);
    enough.abort();
    await Promise.allSettled([held]);
    await expect.poll(() => alive(pid ?? 0)).toBe(false);
  });

  test('lost to the kill of another: a job was an attempt of its destination, and is run again', async () => {
    const connector = connect('posthog');
    await send('posthog', { by: connector });
    const pid = pidInUse();
    const impatient = connect('posthog', 1_000);
    process.kill(pid, 'SIGSTOP');
    const stuck = send('posthog', { by: impatient });
    const other = send('posthog', { by: connector });
    expect(await stuck).toMatchObject([{ outcome: 'retry', reason: 'timed out' }]);
    expect(await other).toMatchObject([{ outcome: 'delivered' }]);
    expect(requests).toHaveLength(2);
  });

  test('are bounded in number, and end when they are idle', async () => {
    host = new PackHost({ maxProcesses: 2, idleMs: 200 });
    const connector = connect('posthog');
    const of = (workspaceId: string) => ({
      ...destinationFor('posthog'),
      id: `d-${workspaceId}`,
      workspaceId,
    });
    answering.with = (response) => void setTimeout(() => ok(response), 500);
    const results = await Promise.all([
      ...['w1', 'w2', 'w3'].map((id) => connector.deliver(of(id), [delivery()], unhurried)),
      expect
        .poll(() => requests.length)
        .toBe(3)
        .then(() => {
          const pids = new Set(['w1', 'w2', 'w3'].map((id) => host.pidOf(id)));
          expect(pids.size).toBe(2);
          return [{ outcome: 'delivered' }];
        }),
    ]);
    expect(results).toMatchObject(Array(4).fill([{ outcome: 'delivered' }]));
    await expect.poll(() => host.pidOf('w1') ?? host.pidOf('w2') ?? host.pidOf('w3')).toBeUndefined();
  });

  test('gives way to a new one after its share of jobs, and ends when its own are done', async () => {
    host = new PackHost({ jobsAProcess: 2 });
    const connector = connect('posthog');
    const pids = new Set<number | undefined>();
    for (let n = 0; n < 5; n++) {
      const [result] = await send('posthog', { by: connector });
      expect(result).toMatchObject({ outcome: 'delivered' });
      pids.add(host.pidOf('w1'));
    }
    expect(pids.size).toBe(3);
    const [first = 0] = pids;
    await expect.poll(() => alive(first)).toBe(false);
  });
});

function alive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
