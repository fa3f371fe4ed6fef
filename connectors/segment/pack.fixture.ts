import type { JsonObject } from '@tributary/core';
import type { OF_0_2_0 } from './settings.ts';

export type Chosen = (typeof OF_0_2_0)[number];

/** Credentials in the settings. */
export const KEY = 'key-0123456789abcdef';
export const SECRET = 'secret-0123456789abcdef';
const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`;

interface Sent {
  readonly method?: string;
  /** Host, path and query. */
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Some fields of the body, which is JSON or a form. */
  readonly body: unknown;
}

/** For each chosen destination: settings, and what it sends for a `track` and an `identify` event. */
export const SAMPLES: Readonly<
  Record<Chosen, { settings: JsonObject; track: readonly Sent[]; identify: readonly Sent[] }>
> = {
  amplitude: {
    settings: { apiKey: KEY, secretKey: SECRET, endpoint: 'europe' },
    track: [
      {
        url: 'api.eu.amplitude.com/2/httpapi',
        body: {
          api_key: KEY,
          events: [
            {
              user_id: 'u-1',
              device_id: 'a-1',
              insert_id: 'm-1',
              event_type: 'Tea Poured',
              event_properties: { cups: 2 },
            },
          ],
        },
      },
    ],
    identify: [{ url: 'api.eu.amplitude.com/identify', body: { api_key: KEY } }],
  },
  braze: {
    settings: { api_key: KEY, app_id: 'app', endpoint: 'https://rest.fra-01.braze.eu' },
    track: [
      {
        url: 'rest.fra-01.braze.eu/users/track',
        headers: { authorization: `Bearer ${KEY}` },
        body: {
          events: [{ external_id: 'u-1', app_id: 'app', name: 'Tea Poured', properties: { cups: 2 } }],
        },
      },
    ],
    identify: [
      {
        url: 'rest.fra-01.braze.eu/users/track',
        body: { attributes: [{ external_id: 'u-1', email: 'ann@example.com' }] },
      },
    ],
  },
  'canny-functions': {
    settings: { apiKey: KEY },
    track: [],
    identify: [
      {
        url: 'canny.io/api/segment/v2/identify',
        headers: { authorization: basic(`${KEY}:`) },
        body: { type: 'identify', userId: 'u-1', traits: { email: 'ann@example.com' } },
      },
    ],
  },
  customerio: {
    settings: { siteId: 'site-0123456789', apiKey: KEY, accountRegion: 'EU 🇪🇺' },
    track: [
      {
        url: 'track-eu.customer.io/api/v2/entity',
        headers: { authorization: basic(`site-0123456789:${KEY}`) },
        body: { type: 'person', action: 'event', name: 'Tea Poured', id: 'm-1', identifiers: { id: 'u-1' } },
      },
    ],
    identify: [
      { url: 'track-eu.customer.io/api/v2/entity', body: { action: 'identify', identifiers: { id: 'u-1' } } },
    ],
  },
  drip: {
    settings: { accountId: '42', apiKey: KEY },
    track: [
      {
        url: 'api.getdrip.com/v2/42/events',
        body: { events: [{ email: 'ann@example.com', action: 'Tea Poured' }] },
      },
    ],
    identify: [
      { url: 'api.getdrip.com/v2/42/subscribers', body: { subscribers: [{ email: 'ann@example.com' }] } },
    ],
  },
  encharge: {
    settings: { apiKey: KEY },
    track: [
      {
        url: 'ingest.encharge.io/v1',
        headers: { 'x-encharge-token': KEY },
        body: { type: 'track', event: 'Tea Poured', userId: 'u-1', messageId: 'm-1' },
      },
    ],
    identify: [{ url: 'ingest.encharge.io/v1', body: { type: 'identify', email: 'ann@example.com' } }],
  },
  iterable: {
    settings: { apiKey: KEY, dataCenterLocation: 'europe' },
    track: [
      {
        url: 'api.eu.iterable.com/api/events/track',
        headers: { 'api-key': KEY },
        body: { userId: 'u-1', eventName: 'Tea Poured', id: 'm-1', dataFields: { cups: 2 } },
      },
    ],
    identify: [{ url: 'api.eu.iterable.com/api/users/update', body: { email: 'ann@example.com' } }],
  },
  mixpanel: {
    settings: { projectToken: KEY, apiSecret: SECRET, apiRegion: 'EU 🇪🇺' },
    track: [
      {
        url: 'api-eu.mixpanel.com/import?strict=1',
        headers: { authorization: basic(`${SECRET}:`) },
        body: [{ event: 'Tea Poured', properties: { distinct_id: 'u-1', $insert_id: 'm-1', cups: 2 } }],
      },
    ],
    identify: [
      {
        url: 'api-eu.mixpanel.com/track',
        body: { data: { event: '$identify', properties: { $identified_id: 'u-1', $anon_id: 'a-1' } } },
      },
      {
        url: 'api-eu.mixpanel.com/engage',
        body: { data: { $distinct_id: 'u-1', $set: { $email: 'ann@example.com' } } },
      },
    ],
  },
  outfunnel: {
    settings: { userId: 'me', apiToken: KEY },
    track: [
      {
        url: `sink.outfunnel.com/events/segment/me?api_token=${KEY}`,
        body: { action: 'track', event_name: 'Tea Poured', user_id: 'u-1' },
      },
    ],
    identify: [
      { url: `sink.outfunnel.com/events/segment/me?api_token=${KEY}`, body: { action: 'identify' } },
    ],
  },
  posthog: {
    settings: { api_key: KEY, project_id: '7', endpoint: 'https://eu.i.posthog.com' },
    track: [
      {
        url: 'eu.i.posthog.com/batch/',
        body: { api_key: KEY, batch: [{ event: 'Tea Poured', properties: { distinct_id: 'u-1', cups: 2 } }] },
      },
    ],
    identify: [
      { url: 'eu.i.posthog.com/i/v0/e/', body: { event: '$identify', api_key: KEY, distinct_id: 'u-1' } },
    ],
  },
  pushwoosh: {
    settings: { pushwooshAPIKey: KEY, pushwooshAppCode: 'APP' },
    track: [
      {
        url: 'integration-segment.svc-nue.pushwoosh.com/integration-segment/v1/post-events',
        headers: { authorization: `Token ${KEY}`, 'x-pw-appcode': 'APP' },
        body: { events: [{ user_id: 'u-1', name: 'Tea Poured', attributes: { cups: 2 } }] },
      },
    ],
    identify: [
      {
        url: 'integration-segment.svc-nue.pushwoosh.com/integration-segment/v1/track-user',
        body: { user_id: 'u-1', email: 'ann@example.com' },
      },
    ],
  },
  schematic: {
    settings: { apiKey: KEY },
    track: [
      {
        url: 'c.schematichq.com/e',
        headers: { authorization: `Bearer ${KEY}` },
        body: { type: 'track', body: { event: 'tea_poured', user: { userId: 'u-1' } } },
      },
    ],
    identify: [{ url: 'c.schematichq.com/e', body: { type: 'identify', body: { keys: { userId: 'u-1' } } } }],
  },
  usermaven: {
    settings: { api_key: KEY, server_token: SECRET },
    track: [
      {
        url: `events.usermaven.com/api/v1/s2s/event?token=${KEY}.${SECRET}`,
        body: { event_type: 'Tea Poured', event_id: 'm-1', event_attributes: { cups: 2 } },
      },
    ],
    identify: [
      {
        url: `events.usermaven.com/api/v1/s2s/event?token=${KEY}.${SECRET}`,
        body: { event_type: 'user_identify', user: { id: 'u-1' } },
      },
    ],
  },
};
