import { exposuresOf, type JsonObject } from '@tributary/core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DEFINITIONS, PARTNER_SECRETS, segmentEvent } from './connector.ts';
import type { Definition } from './definitions.ts';
import { ANY_HOST, isHostOf } from './hosts.ts';
import { loadDefinition } from './pack.ts';
import {
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
  'evil.test/x?',
  'a@evil.test/x?',
  'evil.test/x#',
  'evil.test\\x',
  'evil.test:443/',
  'a@evil.test',
  '../../evil.test',
  '//evil.test/x?',
  'https://evil.test/x?',
  'evil.test\r\nx-evil: 1',
];

/** The default run tries the first of each kind. */
const TRIED = process.env.TRIBUTARY_TEST_LONG === undefined ? HOSTILE.slice(0, 2) : HOSTILE;

const isEvil = (host: string) => host === 'evil.test' || host.endsWith('.evil.test');

interface Found {
  readonly where: string;
  readonly url: string;
}

/** Requests that reach another host under the rule, and those that it refuses. */
async function strays(
  definition: Definition,
  settings: JsonObject,
  value?: string,
): Promise<{ readonly let: readonly Found[]; readonly refused: number }> {
  const { destination, hosts } = definition;
  const running = startDirectly(destination, loadDefinition(destination));
  const requests = [...(await testDirectly(running, settings))];
  for (const { subscribe, partnerAction, mapping } of sampleSubscriptions(readDetails(destination), true)) {
    const event = eventFor(subscribe);
    if (event === undefined) continue;
    const hostile = value === undefined ? mapping : withTexts(mapping, value);
    const subscription = { subscribe, partnerAction, mapping: hostile };
    const sent = { ...segmentEvent(event), messageId: 'm-1' };
    requests.push(
      ...(await runDirectly(running, subscription, sent, settings, { patienceMs: 200 })).requests,
    );
  }
  const evil = requests.filter(({ url }) => isEvil(new URL(url).hostname));
  const isLet = evil.filter(({ url }) => isHostOf(hosts, settings, new URL(url).hostname));
  return {
    let: isLet.map(({ url }) => ({ where: definition.type, url })),
    refused: evil.length - isLet.length,
  };
}

/** The mapping with a value in each field whose name is that of a part of a URL. */
function withTexts(mapping: JsonObject, value: string): JsonObject {
  return Object.fromEntries(
    Object.entries(mapping).map(([name, stated]) => [
      name,
      /url|host|domain|region|endpoint|id$|key|list|account|channel/i.test(name) ? value : stated,
    ]),
  );
}

test('no setting leads a key to a host that the definition does not name', async () => {
  const found: Found[] = [];
  let refused = 0;
  for (const definition of DEFINITIONS) {
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
  expect(refused).toBeGreaterThan(5);
}, 600_000);

test('no value of a mapping leads a key to a host that the definition does not name', async () => {
  const found: Found[] = [];
  for (const definition of DEFINITIONS) {
    if (definition.hosts.includes(ANY_HOST)) continue;
    for (const value of TRIED) found.push(...(await strays(definition, settingsFor(definition), value)).let);
  }
  expect(found).toEqual([]);
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
