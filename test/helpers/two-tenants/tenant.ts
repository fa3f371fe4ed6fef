import { randomUUID } from 'node:crypto';

/** A call as any client could send it. */
export interface Request {
  readonly method: string;
  /** Below the server's address, including the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

export interface Response {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

/** Sends a call to a gateway, in this process or over HTTP. */
export type Exchange = (request: Request) => Promise<Response>;

/** The kinds of objects that ids refer to; ids in paths have the name of the parameter. */
export const KINDS = [
  'workspaceId',
  'organizationId',
  'memberId',
  'keyId',
  'sourceId',
  'contractId',
  'transformationId',
  'ruleId',
  'destinationId',
  'deliveryId',
  'replayId',
  'alertId',
  'messageId',
  'accountId',
  'ucid',
  'identity',
  'cursor',
] as const;
export type Kind = (typeof KINDS)[number];

/** An organization with a workspace and one or more of each kind of object. */
export interface Tenant {
  /** Part of every name, event and profile of the tenant. */
  readonly canary: string;
  readonly orgId: number;
  readonly tokens: {
    readonly id_token: string;
    readonly api_key: string;
    readonly write_key: string;
    readonly client_key: string;
  };
  readonly ids: Readonly<Record<Kind, readonly string[]>>;
}

interface Made {
  readonly id: string;
  readonly key: string;
  readonly [field: string]: unknown;
}

const SOURCE = `function transform(event) {
  if (event.properties && event.properties.fails) throw new Error('fails on purpose');
  return event;
}`;

/** Creates a tenant for a signed-in person. */
export async function openTenant(exchange: Exchange, idToken: string, canary: string): Promise<Tenant> {
  const call = async <T = Made>(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ) => {
    const answer = await exchange({
      method,
      path,
      headers: { authorization: `Bearer ${idToken}`, ...headers },
      ...(body === undefined ? {} : { body }),
    });
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
    return { made: JSON.parse(answer.text) as T, link: answer.headers.link };
  };
  const { made: workspace } = await call('POST', '/api/v1/workspaces', { name: canary });
  const organizationId = String(workspace.organization_id);
  const organization = `/api/v1/organizations/${organizationId}`;
  const { made: home } = await call<{ org_id: number }>('GET', organization);
  const inside = `/api/v1/workspaces/${workspace.id}`;
  const here = { 'x-workspace-id': workspace.id };
  const make = async (path: string, body: object) =>
    (await call('POST', `${inside}/${path}`, { name: canary, ...body }, here)).made;
  const twice = async (path: string, bodies: readonly [object, object]) =>
    [await make(path, bodies[0]), await make(path, bodies[1])] as const;

  const api = await make('api-keys', { role: 'admin', may_manage: ['keys', 'members'] });
  const sources = await twice('sources', [{ type: 'web' }, { type: 'app' }]);
  const site = await make('event-keys', { environment: 'production', source_id: sources[0].id });
  const schema_definition = { properties: { canary: { type: 'integer' } } };
  const contracts = await twice('event-contracts', [
    { event_type: 'track', event_name: 'Paid', schema_definition, enforcement_mode: 'warn' },
    { event_type: 'track', event_name: 'Unused', schema_definition },
  ]);
  const sample = { type: 'track', event: 'Paid', user_id: 'u', properties: {} };
  const transformations = await twice('event-transformations', [
    { source_code: SOURCE, test_input: sample, test_output: sample },
    { source_code: SOURCE },
  ]);
  const destinations = await twice('destinations', [
    { type: 'ndjson', settings: { folder: 'out' } },
    { type: 'ndjson', settings: { folder: 'other' } },
  ]);
  const rules = await twice('event-forwarding-rules', [
    { destination_id: destinations[0].id, transformation_id: transformations[0].id },
    { destination_id: destinations[1].id, enabled: false },
  ]);
  const alert = await make('alerts', {
    watch: { kind: 'backlog', destination_id: destinations[0].id },
    destination_id: destinations[1].id,
  });
  const minutesAgo = (minutes: number) => new Date(Date.now() - minutes * 60_000).toISOString();
  const { made: replay } = await call(
    'POST',
    `${inside}/replays`,
    { since: minutesAgo(60), until: minutesAgo(59) },
    here,
  );
  const invited = { email: `guest-of-${canary}@example.com`, role: 'viewer' };
  const { made: guest } = await call('POST', `${inside}/members`, invited, here);
  const { made: member } = await call('POST', `${organization}/members`, { ...invited, role: 'member' });
  const { made: client } = await call('POST', `${organization}/client-keys`, {
    name: canary,
    scopes: ['profile.write', 'profile.read', 'profile.delete'],
  });

  const identity = `device-${randomUUID()}`;
  const profile = await exchange({
    method: 'POST',
    path: '/cdp/v1/users',
    headers: { apikey: client.key, scopes: 'profile.write,profile.read' },
    body: {
      orgId: home.org_id,
      region: 'eu',
      ids: { AdId: identity },
      upsert: { profile: { home: { canary } } },
    },
  });
  const [record] = JSON.parse(profile.text) as readonly { ucid: string }[];

  const events: string[] = [];
  for (const [type, event] of [
    ['track', { event: 'Paid', user_id: identity, properties: { canary } }],
    ['track', { event: 'Paid', user_id: identity, properties: { canary, fails: true } }],
    ['identify', { user_id: identity, traits: { canary } }],
  ] as const) {
    const { made } = await call<{ message_id: string }>('POST', `${inside}/events/${type}`, event, {
      authorization: `Bearer ${site.key}`,
    });
    events.push(made.message_id);
  }
  const cursors: string[] = [];
  for (const list of ['sources', 'event-contracts', 'destinations']) {
    const { link } = await call('GET', `${inside}/${list}?limit=1`, undefined, here);
    const cursor = /cursor=([^&>]+)/.exec(link ?? '')?.[1];
    if (cursor !== undefined) cursors.push(decodeURIComponent(cursor));
  }
  const idsOf = (...made: readonly Made[]) => made.map(({ id }) => id);
  return {
    canary,
    orgId: home.org_id,
    tokens: { id_token: idToken, api_key: api.key, write_key: site.key, client_key: client.key },
    ids: {
      workspaceId: [workspace.id],
      organizationId: [organizationId],
      memberId: idsOf(guest, member),
      keyId: idsOf(api, site, client),
      sourceId: idsOf(...sources),
      contractId: idsOf(...contracts),
      transformationId: idsOf(...transformations),
      ruleId: idsOf(...rules),
      destinationId: idsOf(...destinations),
      deliveryId: [],
      replayId: [replay.id],
      alertId: [alert.id],
      messageId: events,
      accountId: [String(api.created_by)],
      ucid: record === undefined ? [] : [record.ucid],
      identity: [identity],
      cursor: cursors,
    },
  };
}
