import { readFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { setTimeout } from 'node:timers/promises';
import { type Connector, type Delivery, type JsonObject, nameId } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sampleDelivery } from '../delivery.fixture.ts';
import { SAMPLES } from './pack.fixture.ts';
import { PackHost } from './pack-process.ts';
import { readDetails } from './pack-runs.fixture.ts';
import { describeDestination } from './settings.ts';
import { definitionOf, startVendors, type VendorRequest } from './vendors.fixture.ts';

type Request = VendorRequest & { readonly body: JsonObject & { readonly [name: string]: unknown } };

type Answer = readonly [status: number, body?: unknown];

const requests: Request[] = [];
let answer: (request: Request) => Answer;
/** In place of an answer. */
let behave: ((response: ServerResponse) => void) | undefined;
const vendors = startVendors((response, request) => {
  const { text } = request;
  const received = { ...request, body: /^[{[]/.test(text) ? JSON.parse(text) : {} };
  requests.push(received);
  if (behave !== undefined) return behave(response);
  const [status, body = {}] = answer(received);
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
});
const unhurried = { signal: new AbortController().signal };
// One process for all.
const host = new PackHost();

beforeEach(() => {
  answer = () => [200];
  behave = undefined;
});
afterEach(() => {
  requests.length = 0;
});

const connect = (destination: string, { timeoutMs = 60_000, on = host } = {}) =>
  vendors.connect(definitionOf(destination), on, timeoutMs);

function deliveryOf(id: string, event: JsonObject = {}): Delivery {
  const sample = sampleDelivery(id);
  const { properties = {} } = event;
  return {
    ...sample,
    message_id: id,
    event: {
      ...sample.event,
      message_id: id,
      event: 'Tea Poured',
      user_id: `u-${id}`,
      context: { traits: { email: `${id}@example.com` } },
      ...event,
      properties: properties as JsonObject,
    },
  };
}

const numbered = (count: number) => Array.from({ length: count }, (_, n) => deliveryOf(`m${n}`));

function targetOf(settings: JsonObject, ...subscriptions: readonly JsonObject[]) {
  const stated = subscriptions.map((one) => ({ trigger: 'type = "track"', batch: true, ...one }));
  return { id: 'd1', workspaceId: 'w1', version: 1, settings: { ...settings, subscriptions: stated } };
}

const ITERABLE = {
  action: 'trackEvent',
  mapping: {
    eventName: { '@path': '$.event' },
    userId: { '@path': '$.userId' },
    id: { '@path': '$.messageId' },
    dataFields: { '@path': '$.properties' },
  },
};
const iterable = (subscription: JsonObject = {}) =>
  targetOf(SAMPLES.iterable.settings, { ...ITERABLE, ...subscription });
const MIXPANEL = {
  action: 'trackEvent',
  mapping: {
    event: { '@path': '$.event' },
    distinct_id: { '@path': '$.userId' },
    time: { '@path': '$.timestamp' },
  },
};
const mixpanel = targetOf(SAMPLES.mixpanel.settings, MIXPANEL);

const outcomes = (results: readonly { readonly outcome: string }[]) => results.map(({ outcome }) => outcome);
const deliver = (
  connector: Connector,
  target: ReturnType<typeof targetOf>,
  deliveries: readonly Delivery[],
) => connector.deliver(target, deliveries, unhurried);

describe('a batch of one ran the code of single events, of another kind: the settings choose', () => {
  test.each([1, 2])('events: %d', async (count) => {
    const connector = connect('iterable');
    expect(outcomes(await deliver(connector, iterable(), numbered(count)))).toEqual(
      Array(count).fill('delivered'),
    );
    expect(requests.map(({ url }) => url)).toEqual(['api.eu.iterable.com/api/events/trackBulk']);
    requests.length = 0;
    expect(outcomes(await deliver(connector, iterable({ batch: false }), numbered(count)))).toEqual(
      Array(count).fill('delivered'),
    );
    expect(requests.map(({ url }) => url)).toEqual(Array(count).fill('api.eu.iterable.com/api/events/track'));
  });

  test('a preview shows the batch of the one event', async () => {
    const [shown] =
      (await connect('iterable').preview?.(iterable(), deliveryOf('m1').event, unhurried)) ?? [];
    expect(shown).toMatchObject({
      matches: true,
      error: null,
      payload: { eventName: 'Tea Poured', enable_batching: true },
      requests: [{ url: 'https://api.eu.iterable.com/api/events/trackBulk' }],
    });
  });
});

describe('the bounds of a batch', () => {
  const limitsOf = (...subscriptions: readonly JsonObject[]) =>
    connect('iterable').batchLimits(targetOf(SAMPLES.iterable.settings, ...subscriptions));
  const { mapping } = ITERABLE;

  test('are those of the mapping, else those of the action', () => {
    expect(limitsOf({ ...ITERABLE, batch: false })).toEqual({ events: 1 });
    expect(limitsOf(ITERABLE)).toEqual({ events: 1_000, bytes: 262_144 });
    expect(limitsOf({ ...ITERABLE, mapping: { ...mapping, batch_size: 30, batch_bytes: 9_000 } })).toEqual({
      events: 30,
      bytes: 9_000,
    });
    // The others make a request of each event, in the time of one call.
    expect(limitsOf(ITERABLE, { ...ITERABLE, batch: false })).toMatchObject({ events: 50 });
    expect(limitsOf(ITERABLE, { ...ITERABLE, batch: false, enabled: false })).toMatchObject({
      events: 1_000,
    });
  });

  test('`enable_batching` of a mapping counts where the subscription says nothing', () => {
    const on = { ...ITERABLE, mapping: { ...mapping, enable_batching: true } };
    const { batch: _, ...unsaid } = { ...on, batch: true };
    const settings = (one: JsonObject) => ({
      ...SAMPLES.iterable.settings,
      subscriptions: [{ trigger: 'type = "track"', ...one }],
    });
    const of = (one: JsonObject) =>
      connect('iterable').batchLimits({ id: 'd1', workspaceId: 'w1', version: 1, settings: settings(one) });
    expect(of(unsaid)).toMatchObject({ events: 1_000 });
    expect(of({ ...on, batch: false })).toEqual({ events: 1 });
  });

  test('an action without batches is refused with its place, also in a draft', () => {
    readDetails('amplitude');
    const { check } = describeDestination(definitionOf('amplitude'));
    const subscription = { action: 'logEventV2', trigger: 'type = "track"', batch: true, enabled: false };
    expect(check?.({ ...SAMPLES.amplitude.settings, subscriptions: [subscription] })).toEqual([
      {
        path: '/subscriptions/0/batch',
        message: 'is not possible: the action logEventV2 takes one event at a time',
      },
    ]);
  });

  test('events with other values of its keys, or of another audience, go into batches of their own', async () => {
    const mapping = {
      list_id: { '@path': '$.properties.list' },
      email: { '@path': '$.context.traits.email' },
      batch_keys: ['list_id'],
    };
    const target = targetOf({ api_key: 'key-0123456789' }, { action: 'removeProfileFromList', mapping });
    const lists = ['a', 'b', 'a', 'b'].map((list, n) => deliveryOf(`m${n}`, { properties: { list } }));
    answer = ({ url }) => [200, url.includes('/profiles') ? { data: [{ id: 'p-1' }] } : {}];
    await deliver(connect('klaviyo'), target, lists);
    const posted = requests.filter(({ url }) => url.includes('/relationships/'));
    expect(posted.map(({ url }) => url.replace(/\?.*/, '')).sort()).toEqual([
      'a.klaviyo.com/api/lists/a/relationships/profiles/',
      'a.klaviyo.com/api/lists/b/relationships/profiles/',
    ]);
  });
});

/** To the cohort, or out of it. */
const cohort = (id: string, isMember: boolean, audience = 'vip') =>
  deliveryOf(id, {
    properties: { [audience]: isMember },
    context: {
      personas: {
        computation_class: 'audience',
        computation_key: audience,
        computation_id: audience,
        external_audience_id: `cohort-${audience}`,
        audience_settings: { id_type: 'BY_USER_ID' },
      },
    },
  });

describe('one outcome for each event, by its id', () => {
  const amplitude = targetOf(
    {
      api_key: 'key-0123456789',
      secret_key: 'secret-0123456789',
      app_id: 'app',
      default_owner_email: 'ann@example.com',
      endpoint: 'north_america',
    },
    {
      action: 'syncAudience',
      mapping: {
        segment_external_audience_id: { '@path': '$.context.personas.external_audience_id' },
        user_id: { '@path': '$.userId' },
        batch_size: 100,
      },
    },
  );

  test('an event that a schema refuses made removals of the adds behind it', async () => {
    const invalid = cohort('m1', true);
    const { external_audience_id: _, ...personas } = (invalid.event.context?.personas ?? {}) as JsonObject;
    const without = { ...invalid, event: { ...invalid.event, context: { personas } } };
    answer = () => [200, { memberships_result: [{ skipped_ids: [] }] }];
    const results = await deliver(connect('amplitude-cohorts'), amplitude, [
      cohort('m0', true),
      without,
      cohort('m2', false),
      cohort('m3', true),
      cohort('m4', true, 'new'),
    ]);
    expect(outcomes(results)).toEqual(['delivered', 'dead', 'delivered', 'delivered', 'delivered']);
    const sent = requests.map(({ body }) => [body.cohort_id, body.memberships]);
    expect(sent).toEqual(
      expect.arrayContaining([
        ['cohort-vip', [{ ids: ['u-m0', 'u-m3'], id_type: 'BY_NAME', operation: 'ADD' }]],
        ['cohort-vip', [{ ids: ['u-m2'], id_type: 'BY_NAME', operation: 'REMOVE' }]],
        ['cohort-new', [{ ids: ['u-m4'], id_type: 'BY_NAME', operation: 'ADD' }]],
      ]),
    );
    expect(sent).toHaveLength(3);
  });

  test('the refusal of a vendor went to another event where the action had left one out', async () => {
    const product = { product_id: 'p', product_name: 'Tea', variant_id: 'v', price: 1, quantity: 1 };
    const order = (id: string, over: JsonObject = {}) =>
      deliveryOf(id, {
        properties: {
          customer: `u-${id}`,
          order_id: id,
          total_value: 5,
          currency: 'USD',
          source: 'web',
          products: [product],
          ...over,
        },
      });
    answer = ({ body }) => {
      const events = body.events as readonly { readonly external_id?: string }[];
      const index = events.findIndex(({ external_id: id }) => id === 'u-m2');
      return [201, { message: 'success', ...(index === -1 ? {} : { errors: [{ type: 'bad', index }] }) }];
    };
    const mapping = {
      name: 'ecommerce.order_placed',
      external_id: { '@path': '$.properties.customer' },
      batch_size: 75,
      time: { '@path': '$.timestamp' },
      currency: { '@path': '$.properties.currency' },
      source: { '@path': '$.properties.source' },
      order_id: { '@path': '$.properties.order_id' },
      total_value: { '@path': '$.properties.total_value' },
      products: { '@path': '$.properties.products' },
      __segment_internal_sync_mode: 'add',
    };
    const results = await deliver(
      connect('braze'),
      targetOf(SAMPLES.braze.settings, { action: 'ecommerce', mapping }),
      [order('m0'), order('m1', { customer: '' }), order('m2'), order('m3')],
    );
    expect(outcomes(results)).toEqual(['delivered', 'dead', 'dead', 'delivered']);
  });

  test.each([400, 200])('some of a batch are refused, in an answer of %d', async (status) => {
    answer = () => [status, { code: status, failed_records: [{ index: 2, message: 'too old' }] }];
    const results = await deliver(connect('mixpanel'), mixpanel, numbered(4));
    expect(outcomes(results)).toEqual(['delivered', 'delivered', 'dead', 'delivered']);
    expect(results[2]).toMatchObject({ response: expect.stringContaining('too old') });
    expect(requests).toHaveLength(1);
  });

  test('a 2xx names the events of a batch that were not stored', async () => {
    answer = () => [207, { errors: [{ batch_index: 1, reason: 'invalid', field: 'name' }] }];
    const mapping = { person_id: { '@path': '$.userId' }, id: { '@path': '$.userId' }, name: 'e' };
    const target = targetOf(SAMPLES.customerio.settings, { action: 'trackEvent', mapping });
    expect(outcomes(await deliver(connect('customerio'), target, numbered(3)))).toEqual([
      'delivered',
      'dead',
      'delivered',
    ]);
    expect(requests).toHaveLength(1);
  });

  test('an error that an action swallowed, or took for a success, was delivered', async () => {
    for (const [status, expected] of [
      [500, 'retry'],
      [400, 'dead'],
    ] as const) {
      answer = () => [status, { code: 400 }];
      expect(outcomes(await deliver(connect('mixpanel'), mixpanel, numbered(1)))).toEqual([expected]);
      const single = targetOf(SAMPLES.mixpanel.settings, { ...MIXPANEL, batch: false });
      expect(outcomes(await deliver(connect('mixpanel'), single, numbered(1)))).toEqual([expected]);
    }
  });
});

describe('a batch that is refused as a whole', () => {
  const isPoisoned = ({ body }: Request) => JSON.stringify(body).includes('u-m40');

  test.each<[string, () => Answer]>([
    ['by a 400', () => [400, { message: 'bad' }]],
    ['by a 500', () => [500]],
    ['in a 200', () => [200, { code: 'Success', failCount: 1 }]],
  ])('%s is narrowed down to its event', async (_, refusal) => {
    answer = (request) => (isPoisoned(request) ? refusal() : [200, { code: 'Success' }]);
    const results = await deliver(connect('iterable'), iterable(), numbered(64));
    expect(results.flatMap(({ outcome }, at) => (outcome === 'delivered' ? [] : [at]))).toEqual([40]);
    expect(requests.length).toBeLessThanOrEqual(2 * Math.log2(64) + 1);
  });

  test('where the action says so of each of its events', async () => {
    answer = (request) => (isPoisoned(request) ? [400, { message: 'Valid data must be provided' }] : [201]);
    const mapping = {
      name: 'e',
      external_id: { '@path': '$.userId' },
      time: { '@path': '$.timestamp' },
      __segment_internal_sync_mode: 'add',
    };
    const target = targetOf(SAMPLES.braze.settings, { action: 'trackEvent2', mapping });
    const results = await deliver(connect('braze'), target, numbered(64));
    expect(results.flatMap(({ outcome }, at) => (outcome === 'delivered' ? [] : [at]))).toEqual([40]);
    expect(requests.length).toBeLessThanOrEqual(2 * Math.log2(64) + 1);
  });

  test.each([401, 429, 503])('with %d is about the destination: nothing is sent again', async (status) => {
    answer = () => [status];
    const results = await deliver(connect('iterable'), iterable(), numbered(8));
    expect(new Set(outcomes(results))).toEqual(new Set([status === 401 ? 'dead' : 'retry']));
    expect(requests).toHaveLength(1);
  });

  test('sends no other subscription of its events again', async () => {
    answer = (request) => (request.url.endsWith('/trackBulk') && isPoisoned(request) ? [400] : [200]);
    const updates = { action: 'updateUser', mapping: { userId: { '@path': '$.userId' } } };
    const target = targetOf(SAMPLES.iterable.settings, ITERABLE, updates);
    const results = await deliver(connect('iterable'), target, numbered(64));
    expect(results.flatMap(({ outcome }, at) => (outcome === 'delivered' ? [] : [at]))).toEqual([40]);
    expect(requests.filter(({ url }) => url.includes('/users/'))).toHaveLength(1);
  });
});

test('events of a subject keep their order over subscriptions, and subscriptions share batches', async () => {
  const page = {
    action: 'trackPageView',
    trigger: 'type = "page"',
    mapping: { id: { '@path': '$.userId' }, name: { '@path': '$.name' }, url: { '@path': '$.name' } },
  };
  const track = {
    action: 'trackEvent',
    mapping: { id: { '@path': '$.userId' }, name: { '@path': '$.event' } },
  };
  const target = targetOf(SAMPLES.customerio.settings, page, track);
  const of = (user: string, type: 'page' | 'track', name: string) =>
    deliveryOf(name, { type, user_id: user, ...(type === 'page' ? { name } : { event: name }) });
  await deliver(connect('customerio'), target, [
    of('a', 'track', 't1'),
    of('b', 'page', 'p1'),
    of('a', 'page', 'p2'),
    of('b', 'track', 't2'),
    of('a', 'page', 'p3'),
  ]);
  const names = requests.map(({ body }) => (body.batch as readonly JsonObject[]).map(({ name }) => name));
  expect(names).toEqual([['p1'], ['t1', 't2'], ['p2', 'p3']]);
});

describe('what a repeat carries', () => {
  test('the ids of its events, where the process died before their outcome was known', async () => {
    const posthog = targetOf(SAMPLES.posthog.settings, {
      action: 'event',
      mapping: {
        event_type: 'track',
        event_name: { '@path': '$.event' },
        distinct_id: { '@path': '$.userId' },
        anonymous_event_capture: false,
        enable_batching: true,
        properties: {},
      },
    });
    const connector = connect('posthog');
    answer = () => {
      const pid = host.pidOf('w1');
      if (pid !== undefined) process.kill(pid, 'SIGKILL');
      return [200];
    };
    expect(outcomes(await deliver(connector, posthog, numbered(3)))).toEqual(Array(3).fill('retry'));
    answer = () => [200];
    expect(outcomes(await deliver(connector, posthog, numbered(3)))).toEqual(Array(3).fill('delivered'));
    const uuids = requests.map(({ body }) => (body.batch as readonly JsonObject[]).map(({ uuid }) => uuid));
    expect(uuids).toEqual(Array(2).fill(['m0', 'm1', 'm2'].map((id) => nameId('message', id, '0'))));
  });

  test('values as they were sent', async () => {
    const properties = {
      a: '+4412345',
      b: '007',
      c: '1e5',
      d: 0,
      e: false,
      f: '',
      g: [],
      h: 'null',
      i: null,
    };
    const sent = [deliveryOf('m0', { properties }), deliveryOf('m1', { properties })];
    await deliver(connect('iterable'), iterable(), sent);
    await deliver(connect('iterable'), iterable({ batch: false }), sent.slice(0, 1));
    const sentFields = requests.flatMap(({ body }) => (body.events ?? [body]) as readonly JsonObject[]);
    expect(sentFields.map(({ dataFields }) => dataFields)).toEqual(Array(3).fill(properties));
  });
});

describe('an answer that does not end', () => {
  test.each<[string, (response: ServerResponse) => void, string]>([
    ['has no body', (response) => response.writeHead(200).flushHeaders(), 'retry'],
    [
      'has a long body, which no action reads',
      (response) => response.writeHead(200).end('x'.repeat(1_048_576)),
      'delivered',
    ],
  ])('held its deliveries: it %s', async (_, reply, outcome) => {
    behave = reply;
    const connector = connect('iterable', { timeoutMs: 3_000 });
    expect(outcomes(await deliver(connector, iterable(), numbered(2)))).toEqual([outcome, outcome]);
  });
});

test('batches of many destinations at a time stay within the memory of their process', async () => {
  behave = (response) => void setTimeout(1_000).then(() => response.end('{}'));
  const connector = connect('iterable');
  const filler = 'x'.repeat(600);
  const calls = Array.from({ length: 96 }, async (_, n) => {
    const target = { ...iterable(), id: `d${n % 6}` };
    // One after the other, as the queues of destinations ask.
    await setTimeout(n * 2);
    const { events } = connector.batchLimits(target);
    const part = Array.from({ length: Math.min(events, 250) }, (_one, m) =>
      deliveryOf(`m${m}`, { properties: { filler } }),
    );
    return outcomes(await deliver(connector, target, part));
  });
  const results = await Promise.all(calls);
  expect(new Set(results.flat())).toEqual(new Set(['delivered']));
  expect(results.filter(({ length }) => length === 250).length).toBeGreaterThanOrEqual(16);
  const status = readFileSync(`/proc/${host.pidOf('w1')}/status`, 'utf8');
  // The process is killed at 512 MiB, and its heap ends at 256.
  expect(Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) / 1_024).toBeLessThan(400);
}, 30_000);

test('an event whose mapping does not end held its batch for a day: it is alone at the next attempt', async () => {
  const tenfold = { replacement: 'b'.repeat(10), pattern2: 'b', replacement2: 'a'.repeat(10) };
  const long = Array.from({ length: 4 }).reduce<JsonObject>(
    (value) => ({ '@replace': { pattern: 'a', ...tenfold, value } }),
    { '@path': '$.properties.text' },
  );
  const dataFields = Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`k${n}`, long]));
  const target = iterable({ mapping: { ...ITERABLE.mapping, dataFields } });
  const texts = ['x', 'a'.repeat(100), 'y'].map((text, n) => deliveryOf(`m${n}`, { properties: { text } }));
  const connector = connect('iterable', { timeoutMs: 2_000 });
  await deliver(connector, target, texts.slice(0, 1));
  expect(connector.batchLimits(target)).toMatchObject({ events: 1_000 });
  expect(outcomes(await deliver(connector, target, texts))).toEqual(Array(3).fill('retry'));
  expect(connector.batchLimits(target)).toEqual({ events: 1 });
  const patient = connect('iterable');
  for (const good of [0, 2])
    expect(outcomes(await deliver(patient, target, texts.slice(good, good + 1)))).toEqual(['delivered']);
});

describe('a process that misbehaves costs its deliveries one attempt', () => {
  const unit = { subscription: 0, action: 'trackEvent', events: [0, 1] };
  test.each([
    ['tells nothing', {}],
    ['tells no outcome', { units: [unit], outcomes: [] }],
    ['names events that there are not', { units: [{ ...unit, events: [0, 7] }], outcomes: [{ unit: 0 }] }],
    ['names other units', { units: [unit], outcomes: [{ unit: 5 }] }],
  ])('it %s', async (_, told) => {
    const odd = new PackHost();
    odd.run = async (_workspace, job) => {
      job.progress?.({ outcomes: [], ...told });
      return { previews: [] };
    };
    const results = await deliver(connect('iterable', { on: odd }), iterable(), numbered(2));
    expect(outcomes(results)).toEqual(['retry', 'retry']);
  });

  test('it has a status that is no number, and a header with a line break', async () => {
    const odd = new PackHost();
    odd.run = async (_workspace, job) => {
      job.progress?.({ units: [unit], outcomes: [] });
      const sent = {
        method: 'POST',
        url: 'https://api.iterable.com/',
        headers: [['x', 'a\nb']] as const,
        body: '',
      };
      await job.send({ unit: 0, events: [0, 1], sent }).catch(() => undefined);
      job.progress?.({ outcomes: [{ unit: 0, each: [{ status: Number.NaN, message: '' }, null] }] });
      return { previews: [] };
    };
    const results = await deliver(connect('iterable', { on: odd }), iterable(), numbered(2));
    expect(outcomes(results)).toEqual(['dead', 'dead']);
    expect(requests).toEqual([]);
  });
});
