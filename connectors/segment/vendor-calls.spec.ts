import type {
  AudienceResult,
  Connector,
  ConnectorDestination,
  Json,
  JsonObject,
  PersonIdentity,
} from '@tributary/core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sampleDelivery } from '../delivery.fixture.ts';
import { DEFINITIONS, PARTNER_SECRETS } from './connector.ts';
import { foldersOfPack, propertyOf } from './definitions.fixture.ts';
import { ANY_HOST, type Definition } from './definitions.ts';
import { choiceOf } from './details.ts';
import { loadDefinition, type PackDefinition } from './pack.ts';
import { PackHost } from './pack-process.ts';
import { EVENTS, readDetails, sampleSubscriptions, settingsFor } from './pack-runs.fixture.ts';
import { definitionOf as offered, startVendors } from './vendors.fixture.ts';

/* What destinations ask their vendors beside deliveries: every deletion of people, and every audience. */

/** The shapes in which vendors answer with the id of an audience. */
const ID = '77077';
const LIST = { id: ID, name: 'Tea drinkers', audience_id: ID, value: ID, list_id: ID };
const ANSWER: JsonObject = {
  access_token: 'token',
  authToken: 'token',
  success: true,
  ...LIST,
  externalId: ID,
  segmentId: ID,
  cohortId: ID,
  audienceId: ID,
  CrmDataId: ID,
  listId: ID,
  firstPartyAndPartnerAudienceId: ID,
  AudienceIds: [ID],
  Audiences: [{ Id: ID }],
  lists: [],
  segments: [{ segment: { id: ID } }],
  result: [LIST],
  results: [{ resourceName: `customers/1/userLists/${ID}`, userList: { id: ID } }],
  Segments: [{ CrmDataId: ID }],
  data: { ...LIST, deleteProfilesWithExternalIds: { userErrors: [] }, contacts: [] },
};

const requests: string[] = [];
let answered: { status: number; body: Json } = { status: 200, body: ANSWER };
const vendors = startVendors((response, { method, url, text }) => {
  requests.push(`${method} ${url} ${text}`.trim());
  response.writeHead(answered.status, { 'content-type': 'application/json' });
  // A list of lists, without the one that is to be created.
  const isList = url.includes('/address-books?') && requests.length < 2;
  response.end(JSON.stringify(isList ? [] : answered.body));
});
/** Also of destinations that are not offered. */
const OTHER_SECRETS = [
  'ACTIONS_YAHOO_AUDIENCES_TAXONOMY_CLIENT_ID',
  'ACTIONS_YAHOO_AUDIENCES_TAXONOMY_CLIENT_SECRET',
];
const secrets = Object.fromEntries(
  [...PARTNER_SECRETS, ...OTHER_SECRETS].map((name) => [name, 'partner-secret']),
);
const host = new PackHost({ secrets });
const options = { signal: new AbortController().signal };

beforeAll(() => host.enter());
afterAll(() => host.leave());

/** Also those that are not offered, as when the secrets of partners or a sign-in at the vendor are missing. */
const ALL = foldersOfPack()
  .filter((folder) => folder !== 'example')
  .map((folder) => ({ folder, pack: loadDefinition(folder) }));

function definitionOf(folder: string, pack: PackDefinition): Definition {
  const offered = DEFINITIONS.find(({ destination }) => destination === folder);
  if (offered !== undefined) return offered;
  const { authentication, actions } = pack;
  const fields = Object.entries(authentication?.fields ?? {});
  const isToken = /^oauth/.test(authentication?.scheme ?? '');
  return {
    destination: folder,
    type: folder,
    title: folder,
    category: '',
    sentence: '',
    properties: {
      ...(isToken ? { accessToken: { type: 'string' } } : {}),
      ...Object.fromEntries(fields.map(([name, field]) => [name, propertyOf(name, field)])),
    },
    required: [],
    presets: [],
    actions: Object.keys(actions),
    hasTest: false,
    integrations: [],
    hosts: [ANY_HOST],
    deletes: ['user_id', 'anonymous_id'],
    hasAudiences: true,
    ...(isToken ? { authorization: 'token' } : {}),
  };
}

const connect = (definition: Definition) => vendors.connect(definition, host, 30_000);

const targetOf = (settings: JsonObject) => ({
  id: 'd',
  workspaceId: 'w',
  version: 1,
  settings,
  // Of those that a person connects.
  access: async () => ({ kind: 'token', token: 'token-of-the-account', settings: {} }) as const,
});

/** As some vendors say that all is well; others, that nothing was done. */
const AUDIENCE_ANSWER = { ...ANSWER, code: 0, message: 'OK', PagingToken: null };

/** A request without what differs at each run. */
function steady(request: string): string {
  return request
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, '<uuid>')
    .replace(/20[23]\d-\d\d-\d\dT[\d:.]+Z/g, '<time>')
    .replace(/\b1[78]\d{8}(\d{3})?\b/g, '<time>')
    .replace(/(hmac_sign=|oauth_signature="|jwt=)[^&"]+/g, '$1<signature>')
    .replace(/eyJ[\w.%-]+/g, '<token>')
    .replace(/\s+/g, ' ')
    .slice(0, 600);
}

const PERSON = { user_id: 'u-1', anonymous_id: 'a-1' };

test('a person is deleted at every vendor whose definition can, by the ids that it names', async () => {
  const lines: string[] = [];
  for (const { folder, pack } of ALL) {
    if (pack.onDelete === undefined) continue;
    const definition = definitionOf(folder, pack);
    const { deletes } = definition;
    const connector = connect(definition);
    requests.length = 0;
    const target = targetOf(settingsFor(definition));
    const [result] = (await connector.deletePeople?.(target, [PERSON], options)) ?? [];
    const is =
      result?.outcome === 'refused' ? result.reason : (result?.outcome ?? 'names nobody: not offered');
    lines.push(
      `${folder} (${deletes?.join(', ') ?? 'none'}): ${is}`,
      ...requests.map((sent) => `  ${steady(sent)}`),
    );
    if (result?.outcome !== 'accepted') continue;
    expect(requests.join(), folder).toMatch(/u-1|a-1/);
    answered = { status: 403, body: { error: 'no right to delete' } };
    expect(await connector.deletePeople?.(target, [PERSON], options), folder).toMatchObject([
      { outcome: 'refused', response: expect.stringContaining('no right') },
    ]);
    answered = { status: 503, body: {} };
    expect(await connector.deletePeople?.(target, [PERSON], options), folder).toMatchObject([
      { outcome: 'retry' },
    ]);
    answered = { status: 200, body: ANSWER };
  }
  await expect(`${lines.join('\n')}\n`).toMatchFileSnapshot('./deletions.requests.txt');
  expect(lines.filter((line) => line.endsWith(': accepted')).length).toBeGreaterThanOrEqual(20);
}, 120_000);

describe('an id of a person', () => {
  const deletion = async (folder: string, person: PersonIdentity) => {
    const definition = offered(folder);
    requests.length = 0;
    const [result] =
      (await connect(definition).deletePeople?.(targetOf(settingsFor(definition)), [person], options)) ?? [];
    return result;
  };

  test.each(['../teams/7', 'u-1/../u-2', 'u?x', 'u#x', '%2e%2e/teams', 'u\r\nx-evil: 1', '..'])(
    '%j leads no request elsewhere',
    async (user_id) => {
      for (const folder of ['app-fit', 'gleap', 'customerio', 'stackadapt-audiences', 'calliper']) {
        const result = await deletion(folder, { user_id });
        const isQuoted = requests.some((sent) => sent.includes(JSON.stringify(user_id)));
        if (!isQuoted) expect([folder, result, requests]).toMatchObject([folder, { outcome: 'refused' }, []]);
      }
      // As a value of its own it is what it is.
      expect(await deletion('amplitude', { user_id })).toMatchObject({ outcome: 'accepted' });
    },
  );

  test('that the vendor does not know by is refused, and nothing is sent', async () => {
    expect(await deletion('amplitude', { anonymous_id: 'a-1' })).toMatchObject({
      outcome: 'refused',
      reason: 'not sent: people are known by user_id',
    });
    expect(requests).toEqual([]);
  });

  test('of nobody there is not one that was deleted', async () => {
    expect(await deletion('intercom', { user_id: 'u-1' })).toMatchObject({ outcome: 'absent' });
    expect(requests).toHaveLength(1);
  });
});

describe('what only the vendor knows of a mapping', () => {
  /** The fields with choices of an action, by their paths. */
  const pathsIn = (fields: object, above = ''): readonly string[] =>
    Object.entries(fields).flatMap(([name, value]) =>
      typeof value === 'function' ? [`${above}${name}`] : pathsIn(value, `${above}${name}.`),
    );
  const OFFERED = DEFINITIONS.map((definition) => ({
    definition,
    actions: Object.entries(loadDefinition(definition.destination).actions),
  }));

  test('is asked of hosts of the destination, for each field, member and key', async () => {
    const counts = { choices: 0, errors: 0 };
    for (const { definition, actions } of OFFERED) {
      const connector = connect(definition);
      const target = targetOf(settingsFor(definition));
      for (const [action, { dynamicFields = {}, hooks = {} }] of actions) {
        const inputs = Object.entries(hooks).flatMap(([hook, { inputFields = {} }]) =>
          Object.entries(inputFields).flatMap(([field, { dynamic }]) =>
            typeof dynamic === 'function' ? [{ hook, field, inputs: {} }] : [],
          ),
        );
        const paths = pathsIn(dynamicFields);
        const inLists = paths
          .filter((path) => /\.[a-z]/.test(path))
          .map((path) => path.replace('.', '.[0].'));
        const fields = [...paths, ...inLists].map((path) => ({ field: path }));
        for (const query of [...fields, ...inputs]) {
          requests.length = 0;
          const found = await connector.choices?.(target, { action, payload: {}, ...query }, options);
          const about = `${definition.type} ${action} ${query.field}: ${JSON.stringify(found?.error)}`;
          expect(about).not.toMatch(/none of the destination|no dynamic field|there is no/i);
          if (found?.error === undefined) counts.choices += 1;
          else counts.errors += 1;
        }
      }
    }
    // Most errors are about the answer, which has the form of no vendor.
    expect(counts.choices).toBeGreaterThan(15);
    expect(counts.choices + counts.errors).toBeGreaterThan(80);
  }, 120_000);

  test('is read from the forms of answers of vendors', async () => {
    const definition = offered('braze');
    const connector = connect(definition);
    const choices = (payload: JsonObject, field: string) =>
      connector.choices?.(
        targetOf(settingsFor(definition)),
        { action: 'upsertCatalogItem', field, payload },
        options,
      );
    const fields = [{ name: 'id' }, { name: 'colour' }, { name: 'size' }];
    answered = { status: 200, body: { catalogs: [{ name: 'teas', fields }] } };
    const mapping = { onMappingSave: { inputs: {}, outputs: { catalog_name: 'teas' } } };
    expect(await choices(mapping, 'item.__keys__')).toEqual({
      choices: [
        { label: 'colour', value: 'colour' },
        { label: 'size', value: 'size' },
      ],
    });
    answered = { status: 401, body: { message: 'Invalid API key' } };
    expect(await choices(mapping, 'item.__keys__')).toEqual({
      choices: [],
      error: { code: '500', message: expect.stringContaining('answered 401') },
    });
    answered = { status: 200, body: ANSWER };
  });

  test('is changed by a hook that has outputs, where it can', async () => {
    const folder = 'linkedin-conversions';
    const definition = definitionOf(folder, loadDefinition(folder));
    const hook = {
      action: 'streamConversion',
      hook: 'onMappingSave',
      payload: {},
      inputs: {
        adAccountId: 'account',
        name: 'Tea',
        conversionType: 'LEAD',
        attribution_type: 'LAST_TOUCH_BY_CAMPAIGN',
      },
    };
    const run = async (outputs?: JsonObject) => {
      requests.length = 0;
      const target = targetOf(settingsFor(definition));
      await connect(definition).runHook?.(
        target,
        outputs === undefined ? hook : { ...hook, outputs },
        options,
      );
      return requests.map((sent) => sent.split('?')[0]?.split(' {')[0]);
    };
    expect(await run()).toEqual(['POST api.linkedin.com/rest/conversions']);
    expect(await run({ id: '7', name: 'Tea' })).toEqual(['POST api.linkedin.com/rest/conversions/7']);
  });

  test('is done by a hook at hosts of the destination', async () => {
    let done = 0;
    for (const { definition, actions } of OFFERED)
      for (const [action, { hooks = {} }] of actions)
        for (const [hook, { inputFields = {} }] of Object.entries(hooks)) {
          const inputs = Object.fromEntries(
            Object.entries(inputFields).map(([name, { choices, type }]): [string, Json] => {
              const [first] = choices ?? [];
              return [name, first === undefined ? (type === 'object' ? [] : 'text') : choiceOf(first).value];
            }),
          );
          const target = targetOf(settingsFor(definition));
          const result = await connect(definition).runHook?.(
            target,
            { action, hook, inputs, payload: {} },
            options,
          );
          expect(JSON.stringify(result)).not.toContain('none of the destination');
          done += 1;
        }
    expect(done).toBeGreaterThan(8);
  }, 120_000);
});

test('a vendor whose pages do not end gets 50 requests at most', async () => {
  const folder = 'the-trade-desk-crm';
  const connector = connect(definitionOf(folder, loadDefinition(folder)));
  requests.length = 0;
  answered = { status: 200, body: { Segments: [{ CrmDataId: 'other' }], PagingToken: 'next' } };
  const target = targetOf({ advertiser_id: 'a', auth_token: 't' });
  expect(await connector.findAudience?.(target, { external_id: ID, settings: {} }, options)).toMatchObject({
    outcome: 'refused',
    reason: expect.stringContaining('no end of pages'),
  });
  expect(requests).toHaveLength(50);
});

/** Settings of audiences that no rule makes of their fields. */
const AUDIENCES: Readonly<Record<string, JsonObject>> = {
  klaviyo: { listId: '' },
  'amplitude-cohorts': { owner_email: 'ann@example.com' },
  'webhook-audiences': { extras: '{}' },
};

function audienceSettings(folder: string, { audienceFields = {} }: PackDefinition): JsonObject {
  const own = AUDIENCES[folder] ?? {};
  return Object.fromEntries(
    Object.entries(audienceFields).map(([name, { type, choices }]): [string, Json] => {
      const [first] = choices ?? [];
      if (own[name] !== undefined) return [name, own[name]];
      if (first !== undefined) return [name, choiceOf(first).value];
      return [name, type === 'number' ? 1 : type === 'boolean' ? false : 'text'];
    }),
  );
}

test('an audience is created and found at every vendor whose definition can, and its id reaches the actions', async () => {
  const lines: string[] = [];
  const reached: string[] = [];
  answered = { status: 200, body: AUDIENCE_ANSWER };
  for (const { folder, pack } of ALL) {
    if (!('createAudience' in (pack.audienceConfig ?? {}))) continue;
    const definition = definitionOf(folder, pack);
    const connector = connect(definition);
    const target = targetOf(settingsFor(definition));
    const settings = audienceSettings(folder, pack);
    requests.length = 0;
    const audience = { id: 'aud-1', key: 'tea_drinkers', name: 'Tea drinkers', settings };
    const made = await connector.createAudience?.(target, audience, options);
    lines.push(`${folder} creates: ${shown(made)}`, ...requests.map((sent) => `  ${steady(sent)}`));
    requests.length = 0;
    const found = await connector.findAudience?.(target, { external_id: ID, settings }, options);
    lines.push(`${folder} finds: ${shown(found)}`, ...requests.map((sent) => `  ${steady(sent)}`));
    requests.length = 0;
    await deliverTo(connector, definition, target, settings);
    if (requests.some((sent) => sent.includes(ID))) reached.push(folder);
  }
  lines.push(`the id is in requests of the actions of: ${reached.join(', ')}`);
  await expect(`${lines.join('\n')}\n`).toMatchFileSnapshot('./audiences.requests.txt');
  expect(lines.filter((line) => line.includes(` creates: `)).length).toBeGreaterThanOrEqual(26);
}, 120_000);

function shown(result: AudienceResult | undefined): string {
  if (result?.outcome === 'found') return result.external_id;
  return result?.reason.replace(/\s+/g, ' ').slice(0, 200) ?? 'none';
}

/** Events of a member, with what Segment calls its personas, for every action. */
async function deliverTo(
  connector: Connector,
  definition: Definition,
  target: ConnectorDestination,
  settings: JsonObject,
): Promise<void> {
  const personas = {
    computation_class: 'audience',
    computation_id: 'aud-1',
    computation_key: 'tea_drinkers',
    external_audience_id: ID,
    audience_settings: settings,
    namespace: 'n',
    space_id: 's',
  };
  const subscriptions = sampleSubscriptions(readDetails(definition.destination), true).map(
    ({ name, partnerAction: action, mapping }) => ({ name, action, trigger: 'type = "track"', mapping }),
  );
  const { context } = EVENTS.track;
  const event = {
    ...EVENTS.track,
    event: 'Audience Entered',
    properties: { ...EVENTS.track.properties, audience_key: 'tea_drinkers', tea_drinkers: true },
    context: { ...context, personas },
  };
  for (const subscription of subscriptions)
    await connector.deliver(
      { ...target, settings: { ...target.settings, subscriptions: [subscription] } },
      [{ ...sampleDelivery('x1'), message_id: 'm-1', event }],
      options,
    );
}
