import { afterAll, beforeAll, expect, it } from 'vitest';
import { type InjectClient, openTestGateway, type TestGateway } from '../../helpers/gateway.ts';

interface Parameter {
  readonly in: 'path' | 'query' | 'header';
  readonly name: string;
  readonly example?: unknown;
  readonly schema: { readonly default?: unknown };
}

interface Operation {
  readonly operationId: string;
  readonly security: readonly Readonly<Record<string, unknown>>[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly example: unknown }>> };
}

/** Entities that a reader has created before: ids by the names of parameters and fields, and a key of each kind. */
interface Setup {
  readonly client: InjectClient;
  readonly ids: Readonly<Record<string, string>>;
  readonly orgId: number;
  readonly writeKey: string;
}

/** Calls that need what a reader cannot have made by hand in a moment, with how they answer instead. */
const ELSEWHERE: Readonly<Record<string, number>> = {
  findEvent: 404, // no stage runs here that could have carried the event on
  readDelivery: 404,
  redriveDelivery: 404,
  discardDelivery: 404,
  splitProfile: 400, // needs the ucid of a profile that became part of another one
  readSystem: 403, // for operators
};

let test: TestGateway;
let operations: readonly { readonly path: string; readonly method: string; readonly operation: Operation }[];
let place: Setup;
let other: Setup;
beforeAll(async () => {
  test = await openTestGateway();
  const { paths } = (await test.app.inject({ url: '/openapi.json' })).json<{
    paths: Record<string, Record<string, Operation>>;
  }>();
  operations = Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method, operation })),
  );
  place = await openSetup('owner@example.com');
  other = await openSetup('other@example.com');
});
afterAll(() => test.close());

async function openSetup(email: string): Promise<Setup> {
  const client = await test.openWorkspace(email);
  const make = async (path: string, body: object) =>
    client.ok<{ id: string; key: string }>('POST', path, body);
  const [organization] = await client.ok<{ id: string; org_id: number }[]>('GET', '/organizations');
  const organizationId = organization?.id ?? '';
  const source = await make('./sources', { name: 'Made before', type: 'web' });
  const destination = await make('./destinations', {
    name: 'Made before',
    type: 'webhook',
    settings: { url: 'https://hooks.example.com/made-before' },
  });
  const contract = await make('./event-contracts', {
    name: 'Made before',
    event_type: 'track',
    event_name: 'Made before',
    schema_definition: { properties: {} },
  });
  const transformation = await make('./event-transformations', {
    name: 'Made before',
    source_code: 'function transform(event) { return event; }',
    test_input: { type: 'track', event: 'Made before', user_id: 'u' },
  });
  const rule = await make('./event-forwarding-rules', {
    name: 'Made before',
    destination_id: destination.id,
  });
  const alert = await make('./alerts', { name: 'Made before', watch: { kind: 'silence', minutes: 45 } });
  const key = await make('./event-keys', { name: 'Made before', environment: 'production' });
  const member = await make('./members', { email: 'guest@example.com', role: 'viewer' });
  const ofOrganization = await make(`/organizations/${organizationId}/members`, {
    email: 'guest@example.com',
    role: 'member',
  });
  const clientKey = await make(`/organizations/${organizationId}/client-keys`, {
    name: 'Made before',
    scopes: ['profile.read'],
  });
  const since = new Date(test.clock.now() - 3_600_000).toISOString();
  const replay = await make('./replays', { since });
  const apiKey = await make('./api-keys', { name: 'Made before' });
  return {
    client,
    orgId: organization?.org_id ?? 0,
    writeKey: key.key,
    ids: {
      organizationId,
      workspaceId: String(client.workspaceId),
      sourceId: source.id,
      source_id: source.id,
      destinationId: destination.id,
      destination_id: destination.id,
      contractId: contract.id,
      transformationId: transformation.id,
      transformation_id: transformation.id,
      ruleId: rule.id,
      alertId: alert.id,
      replayId: replay.id,
      'event-keys': key.id,
      'api-keys': apiKey.id,
      'client-keys': clientKey.id,
      workspaces: member.id,
      organizations: ofOrganization.id,
      organization_id: organizationId,
      type: 'webhook',
      version: '1',
      writeKey: key.key,
    },
  };
}

/** A path as a reader fills it in: an id of what was made before. Keys and members have one name on several paths. */
function filled(path: string, { ids }: Setup): string {
  const segments = path.split('/');
  return segments
    .map((segment, at) => {
      const name = /^\{(\w+)\}$/.exec(segment)?.[1];
      if (name === undefined) return segment;
      const owner = name === 'memberId' ? segments[3] : name === 'keyId' ? segments[at - 1] : name;
      return ids[owner ?? ''] ?? '0198c5a2-7c1e-7b3a-9f60-2d1c5e8a4b70';
    })
    .join('/');
}

/** The call as the page sends it when a reader changes nothing but ids. */
async function tried(
  call: (typeof operations)[number],
  at: Setup,
): Promise<{ status: number; text: string }> {
  const { path, method, operation } = call;
  const parameters = operation.parameters ?? [];
  const query = parameters.flatMap(({ in: where, name, schema, example = schema.default }) =>
    where === 'query' && example !== undefined ? [[name, String(example)] as [string, string]] : [],
  );
  const headers = parameters.flatMap(({ in: where, name, example }) =>
    where === 'header' && example !== undefined
      ? [[name, String(name === 'orgId' ? at.orgId : example)]]
      : [],
  );
  const [type, body] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
  const isOfProducer = operation.security.some((scheme) => 'writeKey' in scheme);
  const payload = JSON.stringify(body?.example, (name, value: unknown) => {
    if (name === 'orgId') return at.orgId;
    return typeof value === 'string' && name.endsWith('_id') ? (at.ids[name] ?? value) : value;
  });
  const answer = await test.app.inject({
    method: method.toUpperCase() as 'GET',
    url: `${filled(path, at)}?${new URLSearchParams(Object.fromEntries(query))}`,
    headers: {
      ...Object.fromEntries(headers),
      ...(operation.security.length === 0
        ? {}
        : { authorization: `Bearer ${isOfProducer ? at.writeKey : at.client.token}` }),
      'x-workspace-id': String(at.client.workspaceId),
      ...(type === undefined ? {} : { 'content-type': type }),
    },
    ...(body === undefined ? {} : { payload }),
  });
  return { status: answer.statusCode, text: answer.body };
}

/** Removals come last: those of rules before those of what they name, that of the workspace at the end. */
function turnOf({ method, path }: { readonly method: string; readonly path: string }): number {
  if (method !== 'delete') return 0;
  if (path.endsWith('/{workspaceId}')) return 3;
  return path.includes('event-forwarding-rules') ? 1 : 2;
}

it('"Try it out" works as it is filled in, for every operation that needs nothing else', async () => {
  const faults: string[] = [];
  for (const call of operations.toSorted((left, right) => turnOf(left) - turnOf(right))) {
    const { operationId } = call.operation;
    if (operationId === 'followEvents') continue; // a stream does not end; `events-live.spec.ts` reads it
    const isCreation = call.method === 'post' && !/\{(?!workspaceId|organizationId)/.test(call.path);
    const { status, text } = await tried(call, isCreation ? other : place);
    const expected = ELSEWHERE[operationId];
    const works = expected === undefined ? status < 300 : status === expected;
    if (!works) faults.push(`${operationId} ${status} ${text.slice(0, 300)}`);
  }
  expect(faults).toEqual([]);
});
