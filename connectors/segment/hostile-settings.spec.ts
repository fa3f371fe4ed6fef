import { exposuresOf, isObject, type Json, type JsonObject } from '@tributary/core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DEFINITIONS, PARTNER_SECRETS, segmentEvent } from './connector.ts';
import { ANY_HOST, type Definition, isHostOf } from './definitions.ts';
import type { VendorCall } from './messages.ts';
import { loadDefinition, type PackDefinition } from './pack.ts';
import {
  callDirectly,
  type DirectRequest,
  eventFor,
  readDetails,
  recordFetch,
  runDirectly,
  sampleSubscriptions,
  settingsFor,
  startDirectly,
  testDirectly,
} from './pack-runs.fixture.ts';
import { describeDestination } from './settings.ts';

/*
 * A setting or a value of a mapping that leads a request to another host: the pack puts many into URLs as they are, so that
 * `evil.test/x?` as the id of an application took its key there. The rule of `hosts.ts` refuses such requests.
 */

let restoreFetch: () => void;
const secrets = Object.fromEntries(PARTNER_SECRETS.map((name) => [name, 'partner-secret']));
beforeAll(() => {
  restoreFetch = recordFetch();
  Object.assign(process.env, secrets);
});
afterAll(() => {
  restoreFetch();
  for (const name of PARTNER_SECRETS) delete process.env[name];
});

const HOSTILE = [
  ...'evil.test/x? a@evil.test/x? evil.test/x# evil.test\\x evil.test:443/ a@evil.test'.split(' '),
  ...'../../evil.test //evil.test/x? https://evil.test/x?'.split(' '),
  'evil.test\r\nx-evil: 1',
];

/** The default run tries the first at some destinations; at the first of these the pack lets it through. */
const IS_LONG = process.env.TRIBUTARY_TEST_LONG !== undefined;
const TRIED = IS_LONG ? HOSTILE : HOSTILE.slice(0, 1);
const CHOSEN = DEFINITIONS.filter(
  ({ destination }, at) => IS_LONG || destination === 'algolia-insights' || at % 12 === 0,
);

const isEvil = (host: string) => host === 'evil.test' || host.endsWith('.evil.test');

interface Found {
  readonly where: string;
  readonly url: string;
}

interface Strays {
  readonly let: readonly Found[];
  readonly refused: number;
}

/** Requests that reach another host under the rule, and those that it refuses. */
async function strays(definition: Definition, settings: JsonObject, value?: string): Promise<Strays> {
  const { destination } = definition;
  const running = startDirectly(destination, loadDefinition(destination));
  const requests = [...(await testDirectly(running, settings))];
  for (const { subscribe, partnerAction, mapping } of sampleSubscriptions(readDetails(destination), true)) {
    const event = eventFor(subscribe);
    if (event === undefined) continue;
    const sent = { ...segmentEvent(event), messageId: 'm-1' };
    for (const hostile of value === undefined ? [mapping] : withTexts(mapping, value)) {
      const subscription = { subscribe, partnerAction, mapping: hostile };
      requests.push(
        ...(await runDirectly(running, subscription, sent, settings, { patienceMs: IS_LONG ? 200 : 10_000 }))
          .requests,
      );
    }
  }
  return judged(definition, settings, requests);
}

/** The same for calls beside deliveries: every one that the definition has, with a value for all that users state. */
async function straysOfCalls(definition: Definition, settings: JsonObject, value: string): Promise<Strays> {
  const { destination } = definition;
  const pack = loadDefinition(destination);
  const started = { definition: pack, running: startDirectly(destination, pack) };
  const requests: DirectRequest[] = [];
  for (const call of callsOf(pack, value))
    requests.push(...(await callDirectly(started, call, settings, 'token')).requests);
  return judged(definition, settings, requests);
}

function callsOf({ actions, onDelete, audienceConfig, audienceFields = {} }: PackDefinition, value: string) {
  const textsOf = (fields: object): JsonObject =>
    Object.fromEntries(Object.keys(fields).map((name) => [name, value]));
  const calls: VendorCall[] = [];
  for (const [action, { fields = {}, dynamicFields = {}, hooks = {} }] of Object.entries(actions)) {
    const payload = textsOf(fields);
    for (const [name, member] of Object.entries(dynamicFields)) {
      const paths =
        typeof member === 'function' ? [name] : Object.keys(member).map((key) => `${name}.${key}`);
      for (const field of paths) calls.push({ kind: 'choices', action, field, payload, page: value });
    }
    for (const [hook, { inputFields = {} }] of Object.entries(hooks)) {
      const inputs = textsOf(inputFields);
      for (const [field, { dynamic }] of Object.entries(inputFields))
        if (typeof dynamic === 'function')
          calls.push({ kind: 'choices', action, field, payload, hook, inputs, query: value });
      calls.push({ kind: 'hook', action, hook, inputs, payload, outputs: { id: value } });
    }
  }
  if (onDelete !== undefined) calls.push({ kind: 'delete', user_id: value, anonymous_id: value });
  if (audienceConfig === undefined || !('createAudience' in audienceConfig)) return calls;
  const audience = { settings: textsOf(audienceFields) };
  calls.push({ kind: 'create-audience', id: value, key: value, name: value, ...audience });
  calls.push({ kind: 'find-audience', external_id: value, ...audience });
  return calls;
}

function judged(
  { hosts, type }: Definition,
  settings: JsonObject,
  requests: readonly DirectRequest[],
): Strays {
  const evil = requests.filter(({ url }) => isEvil(new URL(url).hostname));
  const isLet = evil.filter(({ url }) => isHostOf(hosts, settings, new URL(url).hostname));
  return {
    let: isLet.map(({ url }) => ({ where: type, url })),
    refused: evil.length - isLet.length,
  };
}

/**
 * Mappings with a value in each field whose name is that of a part of a URL, in each field, and in each member of an object:
 * which fields an action needs to make a request at all differs.
 */
function withTexts(mapping: JsonObject, value: string): readonly JsonObject[] {
  const replaced = (inner: (name: string, stated: Json) => Json) =>
    Object.fromEntries(Object.entries(mapping).map(([name, stated]) => [name, inner(name, stated)]));
  return [
    replaced((name, stated) =>
      /url|host|domain|region|endpoint|id$|key|list|account|channel/i.test(name) ? value : stated,
    ),
    replaced((_name, stated) =>
      isObject(stated) && !Object.keys(stated).some((key) => key.startsWith('@'))
        ? Object.fromEntries(Object.keys(stated).map((key) => [key, value]))
        : isObject(stated)
          ? value
          : stated,
    ),
  ];
}

test('no setting leads a key to a host that the definition does not name', async () => {
  const found: Found[] = [];
  let refused = 0;
  for (const definition of CHOSEN) {
    const settings = settingsFor(definition);
    const texts = Object.entries(definition.properties).filter(
      ([, { type, enum: values }]) => type === 'string' && values === undefined,
    );
    // A setting that names the receiver as a whole is the word of its user.
    const names = texts
      .map(([name]) => name)
      .filter(
        (name) => !definition.hosts.some((host) => host === `{${name}}` || host.endsWith(`.{${name}}`)),
      );
    const tried = TRIED.flatMap((value) => names.map((name) => ({ name, value })));
    await Promise.all(
      tried.map(async ({ name, value }) => {
        const result = await strays(definition, { ...settings, [name]: value });
        found.push(...result.let.map((one) => ({ ...one, where: `${one.where} ${name}` })));
        refused += result.refused;
      }),
    );
  }
  expect(found).toEqual([]);
  // The pack itself would have sent them.
  expect(refused).toBeGreaterThan(IS_LONG ? 5 : 0);
}, 600_000);

test('no value of a mapping leads a key to a host that the definition does not name', async () => {
  const found: Found[] = [];
  for (const definition of CHOSEN) {
    if (definition.hosts.includes(ANY_HOST)) continue;
    for (const value of TRIED) found.push(...(await strays(definition, settingsFor(definition), value)).let);
  }
  expect(found).toEqual([]);
}, 600_000);

test('no dynamic field, hook, deletion or audience leads a key to a host that the definition does not name', async () => {
  const found: Found[] = [];
  let calls = 0;
  for (const definition of DEFINITIONS) {
    const settings = settingsFor(definition);
    calls += callsOf(loadDefinition(definition.destination), '').length;
    for (const value of TRIED) {
      found.push(...(await straysOfCalls(definition, settings, value)).let);
      // A setting with such a value, and whatever it leads to.
      const texts = Object.entries(definition.properties).filter(
        ([name, { type, enum: values }]) =>
          type === 'string' &&
          values === undefined &&
          !definition.hosts.some((host) => host === `{${name}}` || host.endsWith(`.{${name}}`)),
      );
      const hostile = { ...settings, ...Object.fromEntries(texts.map(([name]) => [name, value])) };
      found.push(...(await straysOfCalls(definition, hostile, 'u-1')).let);
    }
  }
  expect(found).toEqual([]);
  expect(calls).toBeGreaterThan(150);
}, 600_000);

describe('a setting that names a host', () => {
  test('needs the secrets again when it is changed', () => {
    for (const definition of DEFINITIONS) {
      const description = describeDestination(definition);
      const named = definition.hosts.flatMap((host) =>
        [...host.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name),
      );
      // Those of a mapping and of the answer of a service are no settings of users.
      const ofUsers = named.filter((one) => Object.hasOwn(definition.properties, one));
      for (const name of ofUsers.filter((one) => !description.secrets.includes(one)))
        expect(exposuresOf({ [name]: 'a' }, { [name]: 'b' }, description), definition.type).not.toEqual([]);
    }
  });

  test.each<[string, string, string, boolean]>([
    ['{site}.example.com', 'ours', 'ours.example.com', true],
    ['{site}.example.com', 'OURS', 'ours.example.com', true],
    ['{site}.example.com', 'evil.test/x?', 'evil.test', false],
    ['{site}.example.com', 'evil.test#', 'evil.test', false],
    // URLs take this for a point.
    ['{site}.example.com', 'evil\u3002test/x?', 'evil.test', false],
    ['{site}.example.com', 'evil\tevil.test/x?', 'evilevil.test', false],
    ['{site}', 'https://hooks.test/in', 'hooks.test', true],
    ['{site}', 'hooks.test', 'hooks.test', true],
    ['{site}', 'https://hooks.test@evil.test/', 'evil.test', true],
    ['{site}', 'hooks.test/../evil.test', 'evil.test', false],
    ['*.example.com', '', 'eu.example.com', true],
    ['*.example.com', '', 'evil.test.example.com', false],
    ['*.example.com', '', 'example.com', false],
    ['*.example.com', '', 'eu.example.com.evil.test', false],
    ['api.example.com', '', 'api.example.com', true],
    ['api.example.com', '', 'api.example.com.evil.test', false],
    ['{absent}.example.com', '', '.example.com', false],
  ])('%s with %s reaches %s: %s', (pattern, site, host, expected) => {
    expect(isHostOf([pattern], { site }, host)).toBe(expected);
  });
});
