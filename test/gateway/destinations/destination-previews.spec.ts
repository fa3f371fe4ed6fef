import { iso } from '@tributary/core';
import { expect, it } from 'vitest';
import { putJudged, trackEvent } from '../../helpers/judged-events.ts';
import { suiteGateway } from '../suite-gateway.ts';

interface Preview {
  readonly subscription: string;
  readonly action: string;
  readonly matches: boolean;
  readonly payload: unknown;
  readonly requests: readonly {
    readonly method: string;
    readonly url: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string;
  }[];
  readonly error: string | null;
}

interface Created {
  readonly id: string;
  readonly settings: {
    readonly subscriptions: readonly { readonly name: string; readonly enabled: boolean }[];
  };
}

const test = await suiteGateway();
const owner = await test.openWorkspace();

const KEY = 'key-0123456789abcdef';
const EVENT = {
  type: 'track',
  event: 'Tea Poured',
  user_id: 'u-1',
  message_id: 'm-1',
  properties: { cups: 2, note: KEY },
};
const braze = { api_key: KEY, app_id: 'app', endpoint: 'https://rest.fra-01.braze.eu' };

it('a destination without subscriptions gets those of its presets, and a preview shows what they make of an event', async () => {
  const made = await owner.ok<Created>('POST', './destinations', {
    name: 'Braze',
    type: 'segment-braze',
    settings: braze,
  });
  expect(made.settings.subscriptions.length).toBeGreaterThan(3);
  const shown = await owner.ok<Preview[]>('POST', `./destinations/${made.id}/preview`, { event: EVENT });
  expect(shown.map(({ subscription }) => subscription)).toEqual(
    made.settings.subscriptions.filter(({ enabled }) => enabled).map(({ name }) => name),
  );
  const [taken, ...others] = shown.filter(({ matches }) => matches);
  expect(others).toEqual([]);
  expect(taken).toMatchObject({
    subscription: 'Track Calls',
    action: 'trackEvent',
    payload: { external_id: 'u-1', name: 'Tea Poured' },
    requests: [
      {
        method: 'POST',
        url: 'https://rest.fra-01.braze.eu/users/track',
        headers: { authorization: 'Bearer ***' },
      },
    ],
    error: null,
  });
  expect(taken?.requests[0]?.body).toContain('"cups":2');
  // Neither the key of the destination, nor an event that holds it.
  expect(JSON.stringify(shown)).not.toContain(KEY);
  expect(shown.find(({ matches }) => !matches)).toMatchObject({ payload: null, requests: [], error: null });
});

it('an event that was received is previewed by its id', async () => {
  const producer = owner.with({ token: await owner.writeKey() });
  const sent = await producer.call('POST', './events/track', {
    event: 'Kettle Boiled',
    user_id: 'u-9',
    message_id: 'm-9',
  });
  expect(sent.status).toBe(202);
  const accepted = trackEvent(String(owner.workspaceId), { received_at: iso(test.clock.now()) });
  await putJudged(test.dependencies.log, [accepted, { ...accepted, message_id: 'm-10', type: 'page' }]);
  const settings = { settings: braze, message_id: 'm-9', recent_events: 10 };
  const shown = await owner.ok<Preview[]>('POST', './destination-types/segment-braze/preview', settings);
  expect(shown.filter(({ matches }) => matches)).toMatchObject([
    {
      payload: { external_id: 'u-9', name: 'Kettle Boiled' },
      error: null,
      recent: { events: 2, matched: 1 },
    },
  ]);
  const stranger = await test.openWorkspace();
  expect((await stranger.call('POST', './destination-types/segment-braze/preview', settings)).status).toBe(
    404,
  );
});

it('an event is sent for a trial where its type can, through the guard', async () => {
  const made = await owner.ok<Created>('POST', './destinations', {
    name: 'Klime',
    type: 'segment-klime',
    settings: { apiEndpoint: 'http://127.0.0.1:9', writeKey: KEY },
  });
  const tried = await owner.ok('POST', `./destinations/${made.id}/test`, { event: EVENT });
  expect(tried).toMatchObject({ ok: false, status: null, requests: [{ method: 'POST', response: null }] });
  expect(JSON.stringify(tried)).not.toContain(KEY);
  const files = { name: 'Files', type: 'ndjson', settings: { folder: 'trial' } };
  const { id } = await owner.ok<Created>('POST', './destinations', files);
  const refused = await owner.call('POST', `./destinations/${id}/test`, { event: EVENT });
  expect(refused).toMatchObject({ status: 400, body: { details: [{ path: '/event' }] } });
});

it('settings that are not saved are previewed, also with a masked secret, and a mapping that fails says why', async () => {
  const preview = (subscriptions: readonly object[]) =>
    owner.ok<Preview[]>('POST', './destination-types/segment-braze/preview', {
      settings: { ...braze, api_key: '********', subscriptions },
      event: EVENT,
    });
  const subscription = { name: 'Own', action: 'trackEvent', trigger: 'type = "track"' };
  const mapping = {
    external_id: { '@path': '$.userId' },
    name: { '@template': 'Own {{event}}' },
    time: { '@path': '$.timestamp' },
  };
  expect(await preview([{ ...subscription, mapping }])).toMatchObject([
    { subscription: 'Own', payload: { name: 'Own Tea Poured' }, error: null },
  ]);
  const absent = { ...mapping, time: { '@path': '$.properties.at' } };
  expect(await preview([{ ...subscription, mapping: absent }])).toMatchObject([
    {
      matches: true,
      payload: { name: 'Own Tea Poured' },
      requests: [],
      error: expect.stringContaining("missing the required field 'time'"),
    },
  ]);
});

it('a trigger and a mapping that cannot run are refused with their place, at each change', async () => {
  const good = {
    action: 'trackEvent',
    trigger: 'type = "track"',
    mapping: { name: 'Sold', time: { '@path': '$.timestamp' } },
  };
  const settings = (subscription: object) => ({ ...braze, subscriptions: [good, subscription] });
  const body = (subscription: object) => ({
    name: 'B',
    type: 'segment-braze',
    settings: settings(subscription),
  });
  const made = await owner.ok<Created>('POST', './destinations', body(good));
  const refusals: readonly (readonly [object, string])[] = [
    [{ ...good, trigger: 'type == "track"' }, '/settings/subscriptions/1/trigger'],
    [{ ...good, action: 'sendEvent' }, '/settings/subscriptions/1/action'],
    [
      { ...good, mapping: { ...good.mapping, name: { '@upper': 'a' } } },
      '/settings/subscriptions/1/mapping/name/@upper',
    ],
    [{ ...good, mapping: { time: good.mapping.time } }, '/settings/subscriptions/1/mapping/name'],
    [{ ...good, mapping: { ...good.mapping, colour: 1 } }, '/settings/subscriptions/1/mapping/colour'],
    [
      { ...good, mapping: { ...good.mapping, properties: 'none' } },
      '/settings/subscriptions/1/mapping/properties',
    ],
  ];
  for (const [subscription, path] of refusals) {
    for (const [method, url] of [
      ['POST', './destinations'],
      ['PUT', `./destinations/${made.id}`],
    ] as const) {
      const refused = await owner.call(method, url, body(subscription));
      expect([path, refused]).toMatchObject([path, { status: 400, body: { details: [{ path }] } }]);
    }
    const refused = await owner.call('POST', './destination-types/segment-braze/preview', {
      settings: settings(subscription),
      event: EVENT,
    });
    expect(refused).toMatchObject({ status: 400, body: { details: [{ path }] } });
  }
  // A draft may lack what its action requires.
  const draft = { ...good, mapping: {}, enabled: false };
  expect((await owner.call('PUT', `./destinations/${made.id}`, body(draft))).status).toBe(200);
  // The earlier form and the new one are not mixed.
  const mixed = { ...body(good), settings: { ...settings(good), presets: [] } };
  expect(await owner.call('POST', './destinations', mixed)).toMatchObject({
    status: 400,
    body: { details: [{ path: '/settings/presets' }] },
  });
});

it('a destination whose last subscription was removed ran all presets of the earlier form: it has none', async () => {
  const body = { name: 'B', type: 'segment-braze', settings: braze };
  const made = await owner.ok<Created>('POST', './destinations', body);
  const changed = await owner.ok<Created>('PUT', `./destinations/${made.id}`, body);
  expect(changed.settings.subscriptions).toEqual([]);
  expect(await owner.ok<Preview[]>('POST', `./destinations/${made.id}/preview`, { event: EVENT })).toEqual(
    [],
  );
});

it('a preview of an event that is large is bounded, whatever the number of subscriptions', async () => {
  const subscription = {
    action: 'trackEvent',
    trigger: 'type = "track"',
    mapping: {
      external_id: 'u',
      name: 'n',
      time: { '@path': '$.timestamp' },
      properties: { '@path': '$.properties' },
    },
  };
  const settings = { ...braze, subscriptions: Array.from({ length: 100 }, () => subscription) };
  const event = { ...EVENT, properties: { text: 'x'.repeat(30_000) } };
  const shown = await owner.ok<Preview[]>('POST', './destination-types/segment-braze/preview', {
    settings,
    event,
  });
  expect(shown).toHaveLength(100);
  expect(shown[0]).toMatchObject({ error: null, requests: [{ method: 'POST' }] });
  expect(shown.at(-1)).toMatchObject({
    payload: null,
    requests: [],
    error: expect.stringContaining('more requests'),
  });
  expect(JSON.stringify(shown).length).toBeLessThan(5_000_000);
});

it('a preview needs one event, and a type with subscriptions', async () => {
  const made = await owner.ok<Created>('POST', './destinations', {
    name: 'B',
    type: 'segment-braze',
    settings: braze,
  });
  const url = `./destinations/${made.id}/preview`;
  for (const body of [{}, { event: EVENT, message_id: 'm-1' }, { event: { colour: 'red' } }])
    expect(await owner.call('POST', url, body)).toMatchObject({
      status: 400,
      body: { details: [{ path: '/event' }] },
    });
  expect((await owner.call('POST', url, { message_id: 'none' })).status).toBe(404);
  const webhook = { settings: { url: 'https://hooks.example.com/in' }, event: EVENT };
  expect((await owner.call('POST', './destination-types/webhook/preview', webhook)).status).toBe(400);
  expect((await owner.call('POST', './destination-types/pigeon/preview', webhook)).status).toBe(404);
});
