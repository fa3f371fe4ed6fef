import { randomUUID } from 'node:crypto';
import { beforeAll, expect, it } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway();
let owner: Client;
let destination: { readonly id: string };
beforeAll(async () => {
  owner = await test.openWorkspace();
  destination = await owner.destination();
});

interface Made {
  readonly id: string;
  readonly created_by: string;
  readonly created_at: string;
  readonly updated_at: string;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const UTC_TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/;

const sample = { type: 'track', event: 'Paid', user_id: 'u', properties: { n: 1 } };

/** Every writable field, by list. */
const written: Readonly<Record<string, () => Readonly<Record<string, unknown>>>> = {
  'api-keys': () => ({ name: 'Server', role: 'viewer', expires_at: '2100-01-01T00:00:00.000Z' }),
  'event-keys': () => ({
    name: 'Site',
    environment: 'development',
    pubsub_topic: 'events.development',
    source_id: null,
  }),
  'event-contracts': () => ({
    name: 'Paid',
    event_type: 'track',
    event_name: 'Paid',
    description: 'A sale',
    schema_definition: { properties: { n: { type: 'number', required: true } } },
    enforcement_mode: 'block',
    undeclared_fields: 'omit',
  }),
  'event-transformations': () => ({
    name: 'Same',
    description: 'Changes nothing',
    source_code: 'function transform(event) { return event; }',
    test_input: sample,
    test_output: sample,
  }),
  alerts: () => ({
    name: 'Quiet',
    environment: 'development',
    watch: { kind: 'silence', source_id: null, event_type: 'page', event_name: 'Home', minutes: 45 },
    time_zone: 'Europe/Berlin',
    quiet_hours: [{ days: ['sat', 'sun'], from: '22:00', until: '08:00' }],
    enabled: false,
    destination_id: destination.id,
    email: 'ops@example.com',
  }),
  'event-forwarding-rules': () => ({
    name: 'Sales',
    destination_id: destination.id,
    event_types: ['track'],
    event_names: ['Paid'],
    environments: ['production'],
    transformation_id: null,
    enabled: false,
  }),
  sources: () => ({ name: 'Shop', type: 'web', description: 'The front' }),
  destinations: () => ({
    name: 'Files',
    type: 'ndjson',
    settings: { folder: 'out' },
    enabled: false,
    paused: true,
    environments: ['development'],
    max_concurrency: 100,
    rate_limit_per_second: 0.5,
    alerts: { enabled: false, destination_id: destination.id, email: 'ops@example.com' },
  }),
};

/** The least body of each list, the defaults of the fields that it leaves out, and what else is shown. */
const least: Readonly<Record<string, () => readonly [sent: object, defaults: object, shown?: object]>> = {
  'event-contracts': () => [
    { name: 'People', event_type: 'identify', schema_definition: { properties: {} } },
    { event_name: '', description: null, enforcement_mode: 'warn', undeclared_fields: 'allow' },
    { status: 'active' },
  ],
  'event-transformations': () => [
    { name: 'Same', source_code: 'function transform(event) { return event; }' },
    { description: null, test_input: null, test_output: null },
    { status: 'draft', test_error: expect.stringMatching(/^not tested: /), last_error: null },
  ],
  alerts: () => [
    { name: 'Orders', watch: { kind: 'volume' } },
    {
      environment: 'production',
      time_zone: 'UTC',
      quiet_hours: [],
      enabled: true,
      destination_id: null,
      email: null,
    },
    { watch: VOLUME, email_status: null, state: 'ok', state_since: null, measured: null },
  ],
  'event-forwarding-rules': () => [
    { name: 'All', destination_id: destination.id },
    {
      event_types: [],
      event_names: [],
      environments: ['production'],
      transformation_id: null,
      filter: null,
      enabled: true,
    },
  ],
  sources: () => [{ name: 'Shop', type: 'web' }, { description: null, webhook: null }, { status: 'active' }],
  destinations: () => [
    { name: 'Files', type: 'ndjson', settings: { folder: 'out' } },
    {
      enabled: true,
      paused: false,
      environments: ['production', 'development'],
      max_concurrency: null,
      rate_limit_per_second: null,
      alerts: null,
    },
    { paused_because: null, connection: null, alerts_email_status: null },
  ],
};
const EVENTS = { source_id: null, event_type: null, event_name: null };
const VOLUME = { kind: 'volume', ...EVENTS, direction: 'below', tolerance: 0.5, weeks: 4, minimum: 20 };

it.each(Object.keys(least))(
  '%s have defaults for fields that are absent or null, are read as they were created, and a PUT resets them',
  async (list) => {
    const [sent, defaults, shown] = least[list]?.() ?? [{}, {}];
    const nulls = Object.fromEntries(Object.keys(defaults).map((name) => [name, null]));
    const made = { id: expect.stringMatching(UUID), workspace_id: owner.workspaceId, version: 1 };
    const times = {
      created_by: expect.any(String),
      created_at: expect.any(String),
      updated_at: expect.any(String),
    };
    for (const body of [sent, { ...sent, ...nulls }]) {
      const created = await owner.call<Made>('POST', `./${list}`, body);
      expect(created).toMatchObject({ status: 201, headers: { etag: '"1"' } });
      expect(created.body).toEqual({ ...made, ...times, ...sent, ...defaults, ...shown });
      const path = `./${list}/${created.body.id}`;
      expect(await owner.call('GET', path)).toMatchObject({ status: 200, headers: { etag: '"1"' } });
      expect(await owner.ok('GET', path)).toEqual(created.body);
      expect(await owner.ok('GET', `./${list}?ids=${created.body.id}`)).toEqual([created.body]);
      await owner.ok('DELETE', path);
    }
    const { id } = await owner.ok<Made>('POST', `./${list}`, another(list));
    const reset = await owner.call('PUT', `./${list}/${id}`, sent);
    expect(reset).toMatchObject({ status: 200, headers: { etag: '"2"' } });
    expect(reset.body).toMatchObject({ id, ...sent, ...defaults, ...shown, version: 2 });
  },
);

it.each(Object.keys(written))(
  '%s have the fields that were sent, their account, also through an API key, and times of both changes',
  async (list) => {
    const { created_by } = await owner.ok<Made>('POST', './sources', { name: 'Shop', type: 'web' });
    for (const client of [owner, await owner.withApiKey('admin', ['keys'])]) {
      const sent = another(list);
      const made = await client.ok<Made>('POST', `./${list}`, sent);
      expect(made).toMatchObject({
        ...sent,
        id: expect.stringMatching(UUID),
        workspace_id: owner.workspaceId,
        created_by,
        created_at: expect.stringMatching(UTC_TIME),
        updated_at: made.created_at,
      });
      expect(Math.abs(Date.parse(made.created_at) - test.clock.now())).toBeLessThan(30_000);
      const shown = async () =>
        (await owner.ok<readonly Made[]>('GET', `./${list}`)).find(({ id }) => id === made.id);
      expect(await shown()).toMatchObject(sent);
      test.clock.pass(60_000);
      // The only change of a key is its revocation.
      if (list.endsWith('-keys')) await owner.ok('DELETE', `./${list}/${made.id}`);
      else await owner.ok('PUT', `./${list}/${made.id}`, { ...sent, name: 'Renamed' });
      const changed = await shown();
      expect(changed?.created_at).toBe(made.created_at);
      expect(Date.parse(changed?.updated_at ?? '')).toBeGreaterThanOrEqual(
        Date.parse(made.updated_at) + 60_000,
      );
    }
  },
);

it.each(Object.keys(written).filter((list) => !/-keys$|^destinations$/.test(list)))(
  '%s keep their version under an identical PUT, change at that of If-Match, and go once',
  async (list) => {
    const fields = another(list);
    const { id } = await owner.ok<Made>('POST', `./${list}`, fields);
    const at = (tag?: string) => (tag === undefined ? {} : { 'if-match': tag });
    const put = (name: unknown, tag?: string) =>
      owner.call('PUT', `./${list}/${id}`, { ...fields, name }, at(tag));
    const remove = (tag?: string) => owner.call('DELETE', `./${list}/${id}`, undefined, at(tag));
    const before = test.dependencies.catalog.position;
    expect(await put(fields.name)).toMatchObject({ status: 200, headers: { etag: '"1"' } });
    expect(test.dependencies.catalog.position).toBe(before);
    expect(await put('Renamed', '"1"')).toMatchObject({ status: 200, headers: { etag: '"2"' } });
    expect(await put('Again', '"1"')).toMatchObject({ status: 412, body: { error: 'version mismatch' } });
    expect((await remove('"1"')).status).toBe(412);
    const gone = { id, status: list === 'event-contracts' ? 'archived' : 'deleted' };
    for (const tag of ['"2"', undefined])
      expect(await remove(tag)).toMatchObject({ status: 200, body: gone });
    expect((await put('Late')).status).toBe(list === 'event-contracts' ? 409 : 404);
    expect(await owner.ok('GET', `./${list}?ids=${id}`)).toEqual([]);
    for (const none of [randomUUID(), 'no-id'])
      for (const [method, body] of [['GET'], ['PUT', fields], ['DELETE']] as const)
        expect((await owner.call(method, `./${list}/${none}`, body)).status).toBe(404);
  },
);

let others = 0;
/** Another object, because a name has only one contract. */
function another(list: string): Readonly<Record<string, unknown>> {
  const named = list === 'event-contracts' ? { event_name: `Paid ${++others}` } : {};
  return { ...written[list]?.(), ...named };
}
