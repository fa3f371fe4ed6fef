import { AsyncLocalStorage } from 'node:async_hooks';
import { createRequire } from 'node:module';
import {
  type ActionField,
  type CanonicalEvent,
  type Json,
  type JsonObject,
  objectIn,
  type PersonIdentity,
} from '@tributary/core';
import { segmentEvent } from './connector.ts';
import type { Definition } from './definitions.ts';
import { type Details, detailsIn, keepDetails } from './details.ts';
import type { VendorCall } from './messages.ts';
import {
  loadDefinition,
  type PackDefinition,
  type PackDestination,
  replaceFetch,
  type Started,
  startDestination,
} from './pack.ts';
import { callVendor } from './vendor-calls.ts';

/* Runs destinations of the pack in this process, without sending: what their own code makes of an event. */

export interface DirectRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** As `ConnectorCatalog.prepare`, in this process. */
export function readDetails(destination: string): Details {
  const details = detailsIn(loadDefinition(destination));
  keepDetails(destination, details);
  return details;
}

const recording = new AsyncLocalStorage<DirectRequest[]>();
/** With a token, in the forms of the vendors. */
export const ANSWER = '{"access_token":"token","authToken":"token"}';

const ofProcess = globalThis.fetch;
const record: typeof globalThis.fetch = async (input, init) => {
  const request = new Request(input, init);
  const { method, url, headers } = request;
  recording
    .getStore()
    ?.push({ method, url, headers: Object.fromEntries(headers), body: await request.text() });
  return new Response(ANSWER, { headers: { 'content-type': 'application/json' } });
};
// Before anything of the pack is loaded, which keeps the `fetch` that it finds then: specs share a process.
replaceFetch(record);
globalThis.fetch = ofProcess;

/** Replaces the global `fetch`, which some of the pack calls; returns a function that restores it. */
export function recordFetch(): () => void {
  globalThis.fetch = record;
  return () => {
    globalThis.fetch = ofProcess;
  };
}

const AUTH = { accessToken: 'token', refreshToken: '' };

export interface DirectOutcome {
  /** Undefined where the event does not match. */
  readonly matches: boolean;
  readonly requests: readonly DirectRequest[];
  readonly error?: string;
}

interface DirectSubscription {
  readonly subscribe: string;
  readonly partnerAction: string;
  readonly mapping: JsonObject;
  readonly batch?: boolean;
}

/** What the definition makes of an event, called directly. */
export async function runDirectly(
  running: PackDestination,
  subscription: DirectSubscription,
  event: JsonObject,
  settings: JsonObject,
  { accessToken = 'token', patienceMs = 2_000 } = {},
): Promise<DirectOutcome> {
  const requests: DirectRequest[] = [];
  return recording.run(requests, async () => {
    try {
      const late = Promise.withResolvers<never>();
      const timer = setTimeout(() => late.reject(new Error('timed out')), patienceMs);
      const own = structuredClone(event);
      const run = running.onSubscription(
        structuredClone(subscription),
        subscription.batch === true ? [own] : own,
        settings,
        { ...AUTH, accessToken },
      );
      const [result] = await Promise.race([run, late.promise]).finally(() => clearTimeout(timer));
      const { output } = result ?? {};
      const isNotRun =
        result?.multistatus === undefined &&
        (output === undefined || (typeof output === 'string' && /subscri/.test(output)));
      return { matches: !isNotRun, requests };
    } catch (error) {
      const { name, message } = error instanceof Error ? error : new Error(String(error));
      return { matches: true, requests, error: `${message} (${name})` };
    }
  });
}

/** The requests of the test of its settings. */
export async function testDirectly(
  running: PackDestination,
  settings: JsonObject,
): Promise<readonly DirectRequest[]> {
  const requests: DirectRequest[] = [];
  await recording.run(requests, () => running.testAuthentication(settings).catch(() => undefined));
  await recording.run(requests, () => running.refreshAccessToken(settings, AUTH).catch(() => undefined));
  return requests;
}

/** The requests of a call to the vendor, made by the definition. */
export async function callDirectly(
  started: Started,
  call: VendorCall,
  settings: JsonObject,
  accessToken = '',
): Promise<{ readonly requests: readonly DirectRequest[]; readonly output?: Json; readonly error?: string }> {
  const requests: DirectRequest[] = [];
  return recording.run(requests, async () => {
    try {
      return { requests, output: await callVendor(started, call, settings, accessToken) };
    } catch (error) {
      return { requests, error: error instanceof Error ? error.message : String(error) };
    }
  });
}

/** The ids of a person that a deletion puts into a request. */
export async function idsDeletedBy(
  described: Definition,
  definition: PackDefinition,
): Promise<readonly (keyof PersonIdentity)[]> {
  const running = startDirectly(described.destination, definition);
  const named: (keyof PersonIdentity)[] = [];
  for (const name of ['user_id', 'anonymous_id'] as const) {
    const call = { kind: 'delete', [name]: 'mk-person-mk' } as const;
    const { requests } = await callDirectly({ definition, running }, call, settingsFor(described), 'token');
    if (JSON.stringify(requests).includes('mk-person-mk')) named.push(name);
  }
  return named;
}

export function startDirectly(destination: string, definition: PackDefinition): PackDestination {
  return startDestination(destination, definition);
}

const require = createRequire(import.meta.url);
const {
  parseFql,
  validate,
}: {
  parseFql(text: string): { error?: unknown };
  validate(parsed: object, event: object): boolean;
} = require('@segment/destination-subscriptions');

export function meets(trigger: string, event: JsonObject): boolean {
  const parsed = parseFql(trigger);
  return parsed.error === undefined && validate(parsed, event);
}

const TIME = '2026-01-02T03:04:05.000Z';
const EMAIL = 'ann@example.com';
const ADDRESS = { street: '1 High Street', city: 'Kettle', state: 'CA', postalCode: '94000', country: 'US' };
const TRAITS = {
  email: EMAIL,
  name: 'Ann Lee',
  firstName: 'Ann',
  lastName: 'Lee',
  first_name: 'Ann',
  last_name: 'Lee',
  phone: '+14155550100',
  birthday: '1990-05-06',
  gender: 'female',
  createdAt: TIME,
  address: ADDRESS,
  company: { id: 'c-1', name: 'Kettle Ltd' },
  plan: 'pro',
  domain: 'example.com',
};
const PRODUCT = {
  product_id: 'p-1',
  sku: 's-1',
  name: 'Teapot',
  brand: 'Kettle',
  category: 'Kitchen',
  variant: 'blue',
  price: 12.5,
  quantity: 2,
  currency: 'USD',
  url: 'https://shop.example.com/p-1',
  image_url: 'https://shop.example.com/p-1.png',
};
const PROPERTIES = {
  ...PRODUCT,
  email: EMAIL,
  phone: '+14155550100',
  cups: 2,
  value: 25,
  total: 25,
  revenue: 25,
  subtotal: 25,
  order_id: 'o-1',
  checkout_id: 'k-1',
  cart_id: 'k-1',
  query: 'tea',
  list_id: 'l-1',
  message: 'Hello',
  products: [PRODUCT],
  event_id: 'e-1',
  objectID: 'p-1',
  search_id: 'q-1',
};
const COMMON = {
  message_id: 'm-1',
  user_id: 'u-1',
  anonymous_id: 'a-1',
  timestamp: TIME,
  received_at: TIME,
  environment: 'production',
  workspace_id: 'w1',
  context: {
    ip: '203.0.113.7',
    userAgent:
      'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 Chrome/120.0 Safari/537.36',
    locale: 'en-US',
    timezone: 'Europe/London',
    traits: TRAITS,
    page: {
      url: 'https://shop.example.com/tea?utm_source=mail',
      path: '/tea',
      title: 'Tea',
      referrer: 'https://search.example.com/',
      search: '?utm_source=mail',
    },
    campaign: { name: 'spring', source: 'mail', medium: 'email', term: 'tea', content: 'a' },
    device: {
      id: 'd-1',
      type: 'ios',
      model: 'iPhone15,2',
      manufacturer: 'Apple',
      advertisingId: '7A3CBBA0-BDF5-11E4-8DFC-AA02A5B093DB',
      adTrackingEnabled: true,
      token: 'push-1',
    },
    app: { name: 'Tea', version: '1.2.3', build: '4', namespace: 'com.example.tea' },
    os: { name: 'iOS', version: '17.1' },
    library: { name: 'analytics.js', version: '2.1' },
    screen: { width: 320, height: 568 },
    network: { carrier: 'T', wifi: true },
    externalIds: [{ id: EMAIL, type: 'email', collection: 'users', encoding: 'none' }],
  },
} as const;

export const EVENTS: Readonly<Record<'track' | 'identify' | 'page' | 'group', CanonicalEvent>> = {
  track: { ...COMMON, type: 'track', event: 'Tea Poured', properties: PROPERTIES },
  identify: { ...COMMON, type: 'identify', traits: TRAITS },
  page: {
    ...COMMON,
    type: 'page',
    name: 'Tea',
    category: 'Kitchen',
    properties: { ...PROPERTIES, url: COMMON.context.page.url, path: '/tea', title: 'Tea' },
  },
  group: {
    ...COMMON,
    type: 'group',
    group_id: 'g-1',
    traits: { name: 'Kettle Ltd', domain: 'example.com', industry: 'Tea', employees: 7, email: EMAIL },
  },
};

/** An event that meets a trigger, made of its texts; undefined where none of the attempts does. */
export function eventFor(trigger: string): CanonicalEvent | undefined {
  const type = /\btype\s*=\s*"(\w+)"/.exec(trigger)?.[1] ?? 'track';
  const base = baseOf(type);
  if (base === undefined) return undefined;
  const names = [
    undefined,
    ...[...trigger.matchAll(/\b(?:event|name)\s*=\s*"([^"]*)"/g)].map(([, name]) => name),
  ];
  const stated = [
    ...trigger.matchAll(/\b(properties|traits|context)\.([\w.]+)\s*(=|!=|>|<)\s*("?)([^"\s)]*)\4/g),
  ];
  for (const name of names) {
    const named = name === undefined ? base : { ...base, [base.type === 'track' ? 'event' : 'name']: name };
    const made = stated.reduce<JsonObject>(
      (event, [, root = '', path = '', sign = '=', quote, text = '']) =>
        withValue(event, [root, ...path.split('.')], statedValue(sign, quote === '"', text)),
      { ...named },
    ) as JsonObject & CanonicalEvent;
    if (meets(trigger, segmentEvent(made))) return made;
  }
  return undefined;
}

function baseOf(type: string): CanonicalEvent | undefined {
  if (type === 'track' || type === 'identify' || type === 'page' || type === 'group') return EVENTS[type];
  if (type === 'screen') return { ...EVENTS.page, type: 'screen' };
  return type === 'alias' ? { ...COMMON, type: 'alias', previous_id: 'u-0' } : undefined;
}

function statedValue(sign: string, isText: boolean, text: string): Json {
  if (sign !== '=') return sign === '!=' ? 'other' : 5;
  if (isText) return text;
  return text === 'true' ? true : text === 'false' ? false : text === 'null' ? null : Number(text);
}

function withValue(target: JsonObject, [name = '', ...rest]: readonly string[], value: Json): JsonObject {
  return { ...target, [name]: rest.length === 0 ? value : withValue(objectIn(target[name]), rest, value) };
}

/** Settings that no rule makes of their names. */
const SETTINGS: Readonly<Record<string, JsonObject>> = {
  ortto: { api_key: 'sau-0123456789' },
  'ortto-audiences': { api_key: 'sau-0123456789' },
  singlestore: { port: '443' },
  trubrics: { url: 'app.trubrics.test' },
};

/** The host of URLs that mappings give. */
export const MAPPED_HOST = 'hooks.slack.com';
const MAPPED_URL = `https://${MAPPED_HOST}/services`;

/** Settings of a destination that a test can use: each text is made by `textOf`, unless it is a choice. */
export function settingsFor(
  { destination, properties }: Definition,
  textOf: (name: string) => string = sampleText,
): JsonObject {
  const own = SETTINGS[destination] ?? {};
  return Object.fromEntries(
    Object.entries(properties).map(([name, schema]) => [name, own[name] ?? settingOf(name, schema, textOf)]),
  );
}

function settingOf(name: string, schema: JsonObject, textOf: (name: string) => string): Json {
  const { type, enum: values, default: byDefault } = schema;
  if (Array.isArray(values)) return byDefault ?? values[0] ?? '';
  if (type === 'boolean') return byDefault ?? false;
  if (type === 'number') return byDefault ?? 1;
  return textOf(name);
}

export function sampleText(name: string): string {
  if (/url|endpoint|webhook|uri/i.test(name)) return 'https://hooks.example.com/in';
  if (/host|domain$/i.test(name)) return 'data.example.com';
  return `${name.replace(/[^A-Za-z0-9]/g, '').toLowerCase()}0123456789`;
}

/**
 * Mappings of all actions that a test can run: those of presets, and the defaults of the fields of others; `isFilled`: with
 * values for the fields that are for users to fill.
 */
export function sampleSubscriptions(
  { actions, presets }: Details,
  isFilled: boolean,
): readonly (DirectSubscription & { name: string })[] {
  const sampled = new Map(actions.map(({ action, fields }) => [action, mappingOf(fields)]));
  const ofPresets = presets.map(({ name, action, trigger, mapping }) => ({
    name,
    subscribe: trigger,
    partnerAction: action,
    mapping: isFilled ? { ...sampled.get(action), ...mapping } : mapping,
  }));
  const others = actions
    .filter(({ action }) => !presets.some((preset) => preset.action === action))
    .map(({ action, trigger, fields }) => ({
      name: action,
      subscribe: trigger ?? 'type = "track"',
      partnerAction: action,
      mapping: mappingOf(fields),
    }));
  return [...ofPresets, ...others];
}

function mappingOf(fields: readonly ActionField[]): JsonObject {
  return Object.fromEntries(
    fields.flatMap((field): [string, Json][] => {
      const isUrl = /url/i.test(field.field);
      const value = isUrl
        ? MAPPED_URL
        : (field.default ?? (field.required ? sampleOf(field.type, field.choices) : undefined));
      return value === undefined ? [] : [[field.field, value]];
    }),
  );
}

function sampleOf(type: string, choices: readonly { readonly value: Json }[] = []): Json {
  const [first] = choices;
  if (first !== undefined) return first.value;
  if (type === 'object') return { '@path': '$.properties' };
  if (type === 'number' || type === 'integer') return 1;
  if (type === 'boolean') return true;
  return type === 'datetime' ? TIME : MAPPED_URL;
}
