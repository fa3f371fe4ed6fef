import type { InjectOptions } from 'fastify';
import { expect, it } from 'vitest';
import { refusedFor } from '../../helpers/gateway.ts';
import { suiteGateway } from '../suite-gateway.ts';
import {
  type DescribedOperation,
  describedOperations,
  openSetup,
  type Schema,
  sent,
} from './filled-operations.ts';

/** A body or query with one fault, and the path that the answer has to name. */
interface Fault {
  readonly path: string;
  readonly value: unknown;
}

const test = await suiteGateway({
  env: { TRIBUTARY_CHANGE_RATE: '1000000', TRIBUTARY_CHANGE_RATE_PER_ACCOUNT: '1000000' },
});
const description = (await test.app.inject({ url: '/openapi.json' })).json();
/** Without the routes of SDKs and vendors, which take what they are sent, and two that answer before they read. */
const operations = (await describedOperations(test)).filter(
  ({ path }) => !/^\/(v1|beacon|webhooks)\/|\/loads$|event-contracts\/violations\/hourly$/.test(path),
);
const setup = await openSetup(test, 'owner@example.com');

const resolved = (schema: Schema): Schema =>
  schema.$ref === undefined
    ? schema
    : (schema.$ref
        .slice(2)
        .split('/')
        .reduce((part, name) => part[name], description) as Schema);

const UNKNOWN = '0198c5a2-7c1e-7b3a-9f60-2d1c5e8a4b70';
const URL = 'https://hooks.example.com/in';
const HMAC = { header: 'x-signature', algorithm: 'sha256', encoding: 'hex', prefix: '' };

/** Every value that has exactly one fault by the schema, made of a valid one. */
function* faultsOf(given: Schema, valid: unknown, path = ''): Generator<Fault> {
  const schema = resolved(given);
  const types = [schema.type ?? []].flat();
  if (types.length > 0) yield { path, value: types.includes('object') ? 7 : { made_up: 1 } };
  if (schema.enum !== undefined) yield { path, value: 'made_up' };
  if (schema.maxLength !== undefined) yield { path, value: 'x'.repeat(schema.maxLength + 1) };
  if (schema.minimum !== undefined) yield { path, value: schema.minimum - 1 };
  if (schema.maximum !== undefined) yield { path, value: schema.maximum + 1 };
  if (schema.minLength) yield { path, value: '' };
  if (schema.format !== undefined) yield { path, value: 'made up' };
  if (schema.pattern !== undefined) yield { path, value: '\n' };
  if (Array.isArray(valid)) {
    if (schema.minItems) yield { path, value: [] };
    if (schema.uniqueItems && valid.length > 0) yield { path, value: [valid[0], valid[0]] };
    if (schema.maxItems !== undefined && valid.length > 0)
      yield { path, value: Array.from({ length: schema.maxItems + 1 }, () => valid[0]) };
    if (schema.items !== undefined && valid.length > 0)
      for (const fault of faultsOf(schema.items, valid[0], `${path}/0`))
        yield { ...fault, value: [fault.value, ...valid.slice(1)] };
  } else if (typeof valid === 'object' && valid !== null) {
    if (schema.additionalProperties === false)
      yield { path: `${path}/made_up`, value: { ...valid, made_up: 1 } };
    for (const name of schema.required ?? []) {
      const { [name]: _, ...rest } = valid as Record<string, unknown>;
      yield { path: `${path}/${name}`, value: rest };
    }
    for (const [name, inner] of Object.entries(schema.properties ?? {}))
      for (const fault of faultsOf(inner, (valid as Record<string, unknown>)[name], `${path}/${name}`))
        yield { ...fault, value: { ...valid, [name]: fault.value } };
  }
}

/** The described query parameters of a call, each with values that it does not take. */
function faultsOfQuery({
  path,
  operation: { parameters = [] },
}: DescribedOperation): readonly (readonly [string, readonly string[]])[] {
  const read = parameters.filter(({ in: where }) => where === 'query');
  if (read.length === 0 || path.endsWith('/infer')) return [];
  return [
    ['made_up', ['1']],
    ...read.map(({ name, schema }): readonly [string, readonly string[]] => [
      name,
      [
        'twice',
        ...(schema.enum === undefined && schema.pattern === undefined ? [] : ['*']),
        ...(schema.format === undefined ? [] : ['made up']),
        ...(schema.type === 'boolean' ? ['yes'] : []),
        ...(schema.type === 'integer' ? ['x', '', '1.5', '%2B5', '1e1', '1000000000000', '-1'] : []),
        ...(schema.minimum === undefined ? [] : [String(schema.minimum - 1)]),
        ...(schema.maximum === undefined ? [] : [String(schema.maximum + 1)]),
        ...(schema.maxLength === undefined ? [] : ['x'.repeat(schema.maxLength + 1)]),
      ],
    ]),
  ];
}

/** What an answer says of its faults, unless it names exactly the one at this place. */
async function untold(request: InjectOptions, path: string): Promise<readonly string[]> {
  const answer = await test.app.inject(request);
  const { details } = answer.json<{ details?: readonly { path: string }[] }>();
  if (answer.statusCode === 400 && details?.length === 1 && details[0]?.path === path) return [];
  return [`${request.method} ${request.url} ${path}: ${answer.statusCode} ${answer.body.slice(0, 300)}`];
}

it('every field of every body is refused with its place if it is missing, unknown or of another type', async () => {
  const faults: string[] = [];
  let requests = 0;
  for (const call of operations) {
    const { schema } = call.operation.requestBody?.content['application/json'] ?? {};
    if (schema === undefined) continue;
    const request = sent(call, setup);
    for (const { path, value } of faultsOf(schema, JSON.parse(request.payload ?? '{}'))) {
      requests++;
      faults.push(...(await untold({ ...request, payload: JSON.stringify(value) }, path)));
    }
  }
  expect(faults).toEqual([]);
  expect(requests).toBeGreaterThan(1_000);
});

it('every query parameter is refused with its name if it is unknown, given twice or none of its values', async () => {
  const faults: string[] = [];
  for (const call of operations) {
    const { query, ...request } = sent(call, setup);
    for (const [name, values] of faultsOfQuery(call))
      for (const value of values) {
        const { [name]: _, ...others } = query;
        const given = `${name}=${value}${value === 'twice' ? `&${name}=twice` : ''}`;
        const url = `${request.url}?${new URLSearchParams(others)}&${given}`;
        faults.push(...(await untold({ ...request, url }, name)));
      }
  }
  expect(faults).toEqual([]);
});

/** What a schema cannot say, or says by `oneOf`: the body is otherwise the example of the description. */
const BY_CODE: Readonly<Record<string, readonly (readonly [body: object, path: string])[]>> = {
  './api-keys': [[{ expires_at: '2020-01-01T00:00:00Z' }, '/expires_at']],
  './event-keys': [
    [{ pubsub_topic: 'catalog' }, '/pubsub_topic'],
    [{ pubsub_topic: 'events.development' }, '/pubsub_topic'],
  ],
  '/workspaces': [[{ region: 'mars' }, '/region']],
  '/organizations': [
    [{ regions: ['EU west'] }, '/regions/0'],
    [{ notification_email: 'nobody' }, '/notification_email'],
  ],
  './members': [[{ email: 'nobody' }, '/email']],
  './destinations': [
    [{ type: 'pigeon' }, '/type'],
    [{ settings: undefined }, '/settings/url'],
    [{ settings: null }, '/settings/url'],
    [{ settings: { url: 'ftp://x' } }, '/settings/url'],
    [{ settings: { url: 'https://user:pass@example.com' } }, '/settings/url'],
    [{ settings: { url: URL, batch_size: 0 } }, '/settings/batch_size'],
    [{ settings: { url: URL, batch_size: '5' } }, '/settings/batch_size'],
    [{ settings: { url: URL, colour: 'red' } }, '/settings/colour'],
    [{ settings: { url: URL, secret: 'short' } }, '/settings/secret'],
    [{ type: 'ndjson', settings: {} }, '/settings/folder'],
    [{ type: 'ndjson', settings: { folder: '../up' } }, '/settings/folder'],
    [{ alerts: { email: 'nobody' } }, '/alerts/email'],
    [{ alerts: { email: 'a@b.example\r\nBcc: c@d.example' } }, '/alerts/email'],
    [{ alerts: { destination_id: UNKNOWN } }, '/alerts/destination_id'],
  ],
  './event-forwarding-rules': [
    [{ destination_id: UNKNOWN }, '/destination_id'],
    [{ transformation_id: UNKNOWN }, '/transformation_id'],
    [{ event_names: ['Paid', 'Order*'] }, '/event_names/1'],
    [{ event_names: ['*'] }, '/event_names/0'],
    [{ event_types: ['group'], event_names: ['Acme'] }, '/event_names'],
    [{ event_types: ['track', 'identify'], event_names: ['Signed Up'] }, '/event_names'],
  ],
  './event-contracts': [
    [{ event_type: 'identify' }, '/event_name'],
    [{ event_name: '*' }, '/event_name'],
    [{ event_name: 'Order *' }, '/event_name'],
    [{ schema_definition: null }, '/schema_definition'],
    [{ schema_definition: [] }, '/schema_definition'],
  ],
  './event-contracts/infer': [[{ event_type: 'identify', event_name: 'x' }, '/event_name']],
  './event-transformations': [
    [{ source_code: 'function transform(event) {' }, '/source_code'],
    [{ source_code: 'const other = 1;' }, '/source_code'],
    [{ source_code: '}{' }, '/source_code'],
    [{ test_input: [] }, '/test_input'],
    [{ test_output: 'text' }, '/test_output'],
    [{ test_output: [1] }, '/test_output/0'],
  ],
  './alerts': [
    [{ watch: { kind: 'noise' } }, '/watch/kind'],
    [{ quiet_hours: [{ days: ['mon'], from: '24:00', until: '08:00' }] }, '/quiet_hours/0/from'],
    [{ watch: { kind: 'volume', tolerance: 1 } }, '/watch/tolerance'],
    [{ watch: { kind: 'silence', minutes: 4 } }, '/watch/minutes'],
    [{ watch: { kind: 'silence', share: 0.5 } }, '/watch/share'],
    [{ watch: { kind: 'silence', event_type: 'identify', event_name: 'x' } }, '/watch/event_name'],
    [{ watch: { kind: 'silence', event_type: 'track', event_name: 'Order*' } }, '/watch/event_name'],
    [{ watch: { kind: 'silence', source_id: UNKNOWN } }, '/watch/source_id'],
    [{ watch: { kind: 'backlog', destination_id: UNKNOWN } }, '/watch/destination_id'],
    [{ time_zone: 'Mars/Olympus' }, '/time_zone'],
    [{ destination_id: UNKNOWN }, '/destination_id'],
  ],
  './sources': [
    ...[
      '   ',
      '\u00a0\u2003',
      '\u200b\u2060',
      '\ufeff',
      '\u3164',
      'two\nlines',
      'bell\u0007',
      'a\u202eb',
      '\u0085x',
    ].map((name) => [{ name }, '/name'] as const),
    [{ type: 'Web Site' }, '/type'],
    ...(
      [
        [{ kind: 'gitlab' }, '/kind'],
        [{ kind: 'github' }, '/secrets'],
        [{ kind: 'github', secrets: [] }, '/secrets'],
        [{ kind: 'github', secrets: [''] }, '/secrets/0'],
        [{ kind: 'github', secrets: ['********'] }, '/secrets/0'],
        [{ kind: 'github', secrets: ['a', 'b', 'c'] }, '/secrets'],
        [{ kind: 'none', secrets: ['a'] }, '/secrets'],
        [{ kind: 'github', secrets: ['copied\n'] }, '/secrets/0'],
        [{ kind: 'standard', secrets: ['whsec_'] }, '/secrets/0'],
        [{ kind: 'standard', secrets: ['whsec_***'] }, '/secrets/0'],
        [{ kind: 'standard', secrets: [`whsec_${'A'.repeat(32)}`, 'plain'] }, '/secrets/1'],
        [{ kind: 'hmac', secrets: ['a'] }, '/hmac'],
        [{ kind: 'hmac', secrets: ['a'], hmac: { ...HMAC, algorithm: 'md5' } }, '/hmac/algorithm'],
        [{ kind: 'hmac', secrets: ['a'], hmac: { ...HMAC, header: 'a b' } }, '/hmac/header'],
        [{ kind: 'github', secrets: ['a'], hmac: HMAC }, '/hmac'],
        [{ kind: 'none', user_id: 'a/b' }, '/user_id'],
        [{ kind: 'none', user_id: '/a~2' }, '/user_id'],
        [{ kind: 'none', event: '' }, '/event'],
      ] as const
    ).map(([webhook, path]) => [{ webhook }, `/webhook${path}`] as const),
  ],
};

it('what a schema cannot say is refused with its place as well', async () => {
  const faults: string[] = [];
  for (const [place, rows] of Object.entries(BY_CODE)) {
    const path = `/api/v1${place.replace('./', '/workspaces/{workspaceId}/')}`;
    const call = operations.find((one) => one.path === path && one.method === 'post');
    if (call === undefined) throw new Error(`no route ${path}`);
    const request = sent(call, setup);
    for (const [fields, at] of rows) {
      const payload = JSON.stringify({ ...JSON.parse(request.payload ?? '{}'), ...fields });
      faults.push(...(await untold({ ...request, payload }, at)));
    }
  }
  expect(faults).toEqual([]);
});

it.each([
  ['GET', '/workspaces', 'cursor=zzz'],
  ['GET', './audit-log', 'cursor=x'],
  ['GET', './audit-log', 'since=yesterday'],
  ['GET', './audit-log', 'until=2026-02-30'],
  ['GET', './audit-log', 'actor='],
  ['GET', './deliveries', 'cursor=%00'],
  ['GET', './deliveries', 'since=yesterday'],
  ['GET', './deliveries', 'group='],
  ['POST', './deliveries/discard', 'group='],
  ['POST', './deliveries/discard', 'until='],
  ['POST', './deliveries/redrive', 'rule_id=x'],
  ['POST', './deliveries/redrive', 'until='],
  ['GET', './funnel', 'from=yesterday'],
  ['GET', './funnel', 'from=2020-01-01'],
  ['GET', './funnel', 'from=2026-01-02&to=2026-01-01'],
  ['GET', './funnel', 'group_by=name,source,key,rule'],
  ['GET', './funnel/samples', 'measure=dead&limit=101', 'limit'],
  ['GET', './funnel/samples', 'measure=dead&interval=hour', 'interval'],
  ['GET', './sources', 'q='],
  ['GET', './event-contracts/violations/hourly', 'ids=x'],
] as const)('%s %s with %s is refused', async (method, path, query, name = query.split('=')[0]) => {
  const { client } = setup;
  expect(await client.call(method, `${path}?${query}`)).toMatchObject(refusedFor(name));
});
