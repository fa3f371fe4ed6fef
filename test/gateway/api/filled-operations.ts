import type { Client } from '../../helpers/client.ts';
import type { TestGateway } from '../../helpers/gateway.ts';

/** What these tests read of a JSON schema. */
export interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly maxItems?: number;
  readonly minItems?: number;
  readonly minLength?: number;
  readonly format?: string;
  readonly pattern?: string;
  readonly uniqueItems?: boolean;
  readonly default?: unknown;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: boolean | Schema;
  readonly items?: Schema;
}

interface Parameter {
  readonly in: 'path' | 'query' | 'header';
  readonly name: string;
  readonly example?: unknown;
  readonly schema: Schema;
}

export interface Operation {
  readonly operationId: string;
  readonly security: readonly Readonly<Record<string, unknown>>[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: {
    readonly content: Readonly<Record<string, { readonly schema: Schema; readonly example: unknown }>>;
  };
}

/** Entities that a reader has created before: ids by the names of parameters and fields, and a key of each kind. */
export interface Setup {
  readonly client: Client;
  readonly ids: Readonly<Record<string, string>>;
  readonly orgId: number;
  readonly writeKey: string;
}

/** An operation of the description of the API. */
export interface DescribedOperation {
  readonly path: string;
  readonly method: string;
  readonly operation: Operation;
}

export async function describedOperations(test: TestGateway): Promise<readonly DescribedOperation[]> {
  const { paths } = (await test.app.inject({ url: '/openapi.json' })).json<{
    paths: Record<string, Record<string, Operation>>;
  }>();
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method, operation })),
  );
}

export async function openSetup(test: TestGateway, email: string): Promise<Setup> {
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

/** A call as `inject` takes it. */
export interface Sent {
  readonly method: 'GET';
  readonly url: string;
  readonly query: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly payload?: string;
}

/** The id for a parameter of a path. Keys and members have one name on several paths. */
function idFor(path: string, name: string, { ids }: Setup): string | undefined {
  const segments = path.split('/');
  const at = segments.indexOf(`{${name}}`);
  const owner = name === 'memberId' ? segments[3] : name === 'keyId' ? segments[at - 1] : name;
  return ids[owner ?? ''];
}

/** A path as a reader fills it in: with ids of what was made before. */
function filled(path: string, setup: Setup): string {
  return path.replaceAll(
    /\{(\w+)\}/g,
    (_, name: string) => idFor(path, name, setup) ?? '0198c5a2-7c1e-7b3a-9f60-2d1c5e8a4b70',
  );
}

/** Whether a path names something of a kind that nothing was made of before, such as a delivery. */
export function namesUnknown({ path }: Pick<DescribedOperation, 'path'>, setup: Setup): boolean {
  return [...path.matchAll(/\{(\w+)\}/g)].some(([, name = '']) => idFor(path, name, setup) === undefined);
}

/** The call as the page sends it when a reader changes nothing but ids, and what `change` changes. */
export function sent(
  call: DescribedOperation,
  at: Setup,
  change: (name: string, value: unknown) => unknown = (_name, value) => value,
): Sent {
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
    const filledIn = typeof value === 'string' && name.endsWith('_id') ? (at.ids[name] ?? value) : value;
    return change(name, filledIn);
  });
  return {
    method: method.toUpperCase() as 'GET',
    url: filled(path, at),
    query: Object.fromEntries(query),
    headers: {
      ...Object.fromEntries(headers),
      ...(operation.security.length === 0
        ? {}
        : { authorization: `Bearer ${isOfProducer ? at.writeKey : at.client.token}` }),
      'x-workspace-id': String(at.client.workspaceId),
      ...(type === undefined ? {} : { 'content-type': type }),
    },
    ...(body === undefined ? {} : { payload }),
  };
}

/** The answer to the call as {@link sent} makes it. */
export async function tried(
  test: TestGateway,
  ...call: Parameters<typeof sent>
): Promise<{ readonly status: number; readonly text: string; readonly requestId: string }> {
  const answer = await test.app.inject(sent(...call));
  const requestId = String(answer.headers['x-request-id']);
  return { status: answer.statusCode, text: answer.body, requestId };
}

/** Removals come last: those of rules before those of what they name, that of the workspace at the end. */
export function turnOf({ method, path }: { readonly method: string; readonly path: string }): number {
  if (method !== 'delete') return 0;
  if (path.endsWith('/{workspaceId}')) return 3;
  return path.includes('event-forwarding-rules') ? 1 : 2;
}

/** Whether the call creates something, and needs nothing of what was made before. */
export function isCreation({ method, path }: DescribedOperation): boolean {
  return method === 'post' && !/\{(?!workspaceId|organizationId)/.test(path);
}
