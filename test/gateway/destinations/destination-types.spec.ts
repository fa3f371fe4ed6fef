import { Ajv2020 } from 'ajv/dist/2020.js';
import { expect, it } from 'vitest';
import { suiteGateway } from '../suite-gateway.ts';

interface DestinationType {
  readonly type: string;
  readonly title: string;
  readonly summary: string;
  readonly secrets: readonly string[];
}

interface DestinationTypeDetails extends DestinationType {
  readonly connection_test: boolean;
  readonly settings_schema: { readonly properties: Readonly<Record<string, { writeOnly?: boolean }>> };
  readonly presets: readonly { readonly name: string; readonly subscribe: string; readonly action: string }[];
  readonly actions: readonly string[];
}

const test = await suiteGateway();
const owner = await test.openWorkspace();
const viewer = await owner.withApiKey('viewer');

const types = () => viewer.ok<DestinationType[]>('GET', './destination-types');

/** Each type as it is read by its name. The actions of each are read first. */
const READ_WITHIN_MS = 120_000;

it(
  'the list has every type of destination with what a list shows of it, as the one that is read by its name has it',
  async () => {
    const listed = await types();
    const names = listed.map(({ type }) => type);
    expect(names).toEqual([...test.dependencies.connectors.descriptions.keys()]);
    expect(names).toEqual(expect.arrayContaining(['webhook', 'ndjson', 'postgres', 'segment-amplitude']));
    expect(new Set(listed.map(({ summary }) => summary)).size).toBe(listed.length);
    expect(JSON.stringify(listed).length).toBeLessThan(100_000);
    for (const type of listed) {
      const read = await viewer.ok<DestinationTypeDetails>('GET', `./destination-types/${type.type}`);
      expect(read).toMatchObject(type);
      expect(type.summary).toMatch(/^[^`[\]]+\.$/);
      const marked = Object.entries(read.settings_schema.properties).filter(([, { writeOnly }]) => writeOnly);
      expect(
        marked.map(([name]) => name),
        type.type,
      ).toEqual(type.secrets);
    }
    expect(await viewer.call('GET', './destination-types/pigeon')).toMatchObject({
      status: 404,
      body: { error: 'not found' },
    });
  },
  READ_WITHIN_MS,
);

it('a type has a sentence without signs, its secrets and its limits', async () => {
  expect(await viewer.ok('GET', './destination-types/webhook')).toMatchObject({
    title: 'Webhook',
    summary: 'Sends each delivery as an HTTP POST of JSON, signed as Standard Webhooks says.',
    secrets: ['secret', 'previous_secrets', 'headers'],
    max_batch: 100,
    connection_test: true,
    presets: [],
    actions: [],
  });
});

it('the schema of a type accepts the same settings as the creation of a destination', async () => {
  const { settings_schema } = await viewer.ok<DestinationTypeDetails>('GET', './destination-types/webhook');
  const validate = new Ajv2020({ strict: true }).compile(settings_schema);
  const good = { url: 'https://hooks.example.com/in', batch_size: 10 };
  for (const settings of [good, {}, { ...good, batch_size: 101 }, { ...good, colour: 'red' }]) {
    const { status } = await owner.call('POST', './destinations', { name: 'A', type: 'webhook', settings });
    expect(status === 201, JSON.stringify(settings)).toBe(validate(settings));
  }
});

it('the types of the Segment pack have presets and actions, and state if a connection is not tested', async () => {
  const amplitude = await viewer.ok<DestinationTypeDetails>('GET', './destination-types/segment-amplitude');
  expect(amplitude.presets).toContainEqual({
    name: 'Page Calls',
    subscribe: 'type = "page"',
    action: 'logEventV2',
  });
  expect(amplitude.actions).toContain('logEventV2');
  expect(amplitude).toMatchObject({ max_batch: 1, connection_test: true });
  const braze = await viewer.ok<DestinationTypeDetails>('GET', './destination-types/segment-braze');
  expect(braze.connection_test).toBe(false);
});

it('a type of the Segment pack has the fields of its actions, and the subscriptions of a new destination', async () => {
  const braze = await viewer.ok<{
    action_details: object[];
    default_subscriptions: object[];
    category: string;
  }>('GET', './destination-types/segment-braze');
  expect(braze.category).toBe('Email and messaging');
  expect(braze.action_details).toContainEqual(
    expect.objectContaining({
      action: 'trackEvent',
      fields: expect.arrayContaining([
        expect.objectContaining({
          field: 'name',
          type: 'string',
          required: true,
          default: { '@path': '$.event' },
        }),
      ]),
    }),
  );
  expect(braze.default_subscriptions).toContainEqual(
    expect.objectContaining({
      name: 'Identify Calls',
      action: 'updateUserProfile',
      trigger: 'type = "identify"',
    }),
  );
});

it('a subscription that cannot be parsed, and an action that does not exist, were saved and took nothing', async () => {
  const settings = { api_key: 'phc_1', project_id: '7', endpoint: 'https://eu.i.posthog.com' };
  const body = (actions: readonly object[]) => ({
    name: 'P',
    type: 'segment-posthog',
    settings: { ...settings, actions },
  });
  const good = { action: 'event', subscribe: 'type = "track" and event = "Sold"' };
  const wrong = [
    [[good, { ...good, subscribe: 'type == "track"' }], '/settings/actions/1/subscribe'],
    [[{ ...good, action: 'sendEvent' }], '/settings/actions/0/action'],
  ] as const;
  const made = await owner.ok<{ id: string }>('POST', './destinations', body([good]));
  for (const [actions, path] of wrong)
    for (const [method, url] of [
      ['POST', './destinations'],
      ['PUT', `./destinations/${made.id}`],
      ['PATCH', `./destinations/${made.id}`],
    ] as const) {
      const { status, body: refused } = await owner.call(method, url, body(actions));
      expect([method, status, refused]).toMatchObject([method, 400, { details: [{ path }] }]);
    }
});

it('the list is complete and accepts no query', async () => {
  expect((await viewer.call('GET', './destination-types?limit=1')).status).toBe(400);
});
