import { randomBytes, randomUUID } from 'node:crypto';
import {
  CLIENT_KEY_SCOPES,
  type ClientKeyScope,
  type CredentialKind,
  type KeyGrant,
  makeKey,
  type Operation,
  ORGANIZATION_ROLES,
  type OrganizationRole,
  permissionOf,
  WORKSPACE_ROLES,
  type WorkspaceRole,
} from '@tributary/core';
import { openDevIssuer } from '@tributary/infra';
import type { RouteOptions } from 'fastify';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Client, eventually } from '../../helpers/client.ts';
import { openTestGateway } from '../../helpers/gateway.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';

/** A caller, with its roles in the terms of the matrix. */
interface Actor {
  readonly token: string | undefined;
  /** The kind that the credential authenticates as; undefined when it is not valid. */
  readonly kind: CredentialKind | undefined;
  /** The caller's role in the workspace; a write key of it has no role and is `own`. */
  readonly workspace?: WorkspaceRole | 'own';
  /** The grants of an API key beyond its role. */
  readonly manages?: readonly KeyGrant[];
  /** The caller's role in the organization; a client key of it has no role and is `own`. */
  readonly organization?: OrganizationRole | 'own';
  /** Named by `TRIBUTARY_OPERATORS`. */
  readonly operator?: true;
}

const ACTORS = [
  'nobody',
  'nonsense',
  'an expired ID token',
  'a stranger',
  'an operator of the installation',
  'somebody who was removed',
  'an owner of the organization',
  'an admin of the organization',
  'a member of the organization',
  'an admin of the workspace',
  'an editor of the workspace',
  'a viewer of the workspace',
  'a member of the organization who edits',
  'an admin’s API key',
  'an admin’s API key that may make keys',
  'an admin’s API key that may change members',
  'an editor’s API key',
  'a viewer’s API key',
  'an API key of another workspace',
  'a revoked API key',
  'an expired API key',
  'an API key that nobody made',
  'a write key',
  'a write key for development',
  'a write key of another workspace',
  'a revoked write key',
  'a client key',
  'a client key of another organization',
  'a revoked client key',
] as const;

type ActorName = (typeof ACTORS)[number];

const MAX_PARAMETER = 200;

/**
 * Calls every route with every kind of caller, against the permission table. The calls carry a version that
 * no object has, ids of nothing, and no body or one about a nonexistent profile, so an authorized call
 * changes nothing.
 */
describe('Permissions of every route', () => {
  let tributary: Tributary;
  let routes: readonly RouteOptions[];
  let actors: Record<ActorName, Actor>;
  let organizationId: string;
  let orgId: number;

  beforeAll(async () => {
    // The same plugin that the server runs, so the routes it registers are all there are.
    const gateway = await openTestGateway();
    routes = gateway.routes;
    await gateway.close();
    tributary = await startTributary({
      env: { TRUST_PROXY: '127.0.0.0/8', TRIBUTARY_OPERATORS: 'operator@example.com' },
    });
    const { organization_id } = await tributary.owner.get<{ organization_id: string }>(
      `/workspaces/${tributary.workspaceId}`,
    );
    organizationId = organization_id;
    orgId = (await tributary.owner.get<{ org_id: number }>(`/organizations/${organizationId}`)).org_id;
    actors = await gather();
  });
  afterAll(() => tributary.remove());

  it('every route has an operation and a source of its roles', () => {
    expect(routes.length).toBeGreaterThan(50);
    for (const { method, url, config } of routes) {
      const { credentials, role, organizationRole, scope } = permissionOf(config?.operation as Operation);
      const route = `${String(method)} ${url}`;
      const verb = config?.operation?.split('.')[1] ?? '';
      expect(scope !== undefined, route).toBe(isOfProfiles(url));
      if (!isOfProfiles(url) && verb in METHODS)
        expect(method === 'PATCH' ? 'PUT' : method, `${route} is ${config?.operation}`).toBe(METHODS[verb]);
      if (url.includes(':organizationId')) expect(organizationRole, route).toBeDefined();
      else expect(organizationRole, route).toBeUndefined();
      if (!url.includes(':workspaceId')) expect(role, route).toBeUndefined();
      else if (!credentials.includes('write_key')) expect(role, route).toBeDefined();
    }
  });

  it.each(ACTORS)('%s', async (name) => {
    const actor = actors[name];
    const expected: Record<string, string> = {};
    const answered: Record<string, string> = {};
    for (const route of routes) {
      // No path has a parameter as long as an ID token.
      if (route.config?.credentialIn === 'path' && (actor.token?.length ?? 0) > MAX_PARAMETER) continue;
      const key = `${String(route.method)} ${route.url}`;
      expected[key] = expectedOf(actor, route);
      answered[key] = await call(actor, route);
    }
    expect(answered).toEqual(expected);
  });

  it('the calls cover an allowed and a refused answer for every operation', () => {
    for (const route of routes) {
      const answers = new Set(ACTORS.map((name) => expectedOf(actors[name], route)));
      const all = isPublic(route) ? [ALLOWED] : [NOT_KNOWN, DENIED, ALLOWED];
      expect(answers, `${String(route.method)} ${route.url}`).toEqual(new Set(all));
    }
  });

  /** Calls from another address each time: failed authentication is throttled by address. */
  async function call({ token, kind }: Actor, { method, url, config }: RouteOptions): Promise<string> {
    const path = url
      .replace(':writeKey', (config?.credentialIn === 'path' && token) || randomUUID())
      .replace(':workspaceId', tributary.workspaceId)
      .replace(':organizationId', organizationId)
      .replaceAll(/:[a-zA-Z]+/g, () => randomUUID());
    const response = await fetch(tributary.url + path, {
      method: String(method),
      headers: {
        ...(token === undefined
          ? {}
          : kind === 'client_key' && isOfProfiles(url)
            ? { apikey: token }
            : { authorization: `Bearer ${token}` }),
        ...(isOfProfiles(url)
          ? { scopes: CLIENT_KEY_SCOPES.join(','), orgId: String(orgId), 'content-type': 'application/json' }
          : { 'x-workspace-id': tributary.workspaceId, 'if-match': '"0"' }),
        'x-forwarded-for': nextAddress(),
      },
      ...(isOfProfiles(url) && method !== 'GET'
        ? { body: JSON.stringify({ orgId, ...aboutNobody(url) }) }
        : {}),
    });
    if (response.status === 401 || response.status === 403)
      return `${response.status} ${inShort(await response.text())}`;
    await response.body?.cancel(); // a stream would never end
    return response.status < 500 && response.status !== 429 ? ALLOWED : String(response.status);
  }

  async function gather(): Promise<Record<ActorName, Actor>> {
    const { owner, workspaceId } = tributary;
    const issuer = openDevIssuer({ dataFolder: tributary.folder, devIssuerKey: '' });
    const signIn = (name: string) => issuer.mint(`${name}@example.com`);
    const add = (place: string, name: string, role: string) =>
      owner.post<{ id: string }>(`${place}/members`, { email: `${name}@example.com`, role });
    const person = async (name: string, is: Omit<Actor, 'token' | 'kind'> = {}): Promise<Actor> => ({
      token: await signIn(name),
      kind: 'id_token',
      ...is,
    });
    const organization = `/organizations/${organizationId}`;
    const workspace = `/workspaces/${workspaceId}`;
    for (const role of ORGANIZATION_ROLES) await add(organization, `organization-${role}`, role);
    for (const role of WORKSPACE_ROLES) await add(workspace, `workspace-${role}`, role);
    await add(organization, 'both', 'member');
    await add(workspace, 'both', 'editor');

    const stranger = owner.with({ token: await signIn('stranger') });
    const { id: elsewhere, organization_id: abroad } = await stranger.post<{
      id: string;
      organization_id: string;
    }>('/workspaces', { name: 'Elsewhere' });
    const foreign = stranger.with({ workspaceId: elsewhere });

    for (const place of [organization, workspace]) {
      const { id } = await add(place, 'removed', 'admin');
      await owner.with({ token: await signIn('removed') }).get('/workspaces');
      await owner.ok('DELETE', `${place}/members/${id}`);
    }

    const makeKeyAt = async (client: Client, path: string, fields: object, revoke = false) => {
      const made = await client.post<{ id: string; key: string }>(path, { name: 'k', ...fields });
      if (revoke) await client.ok('DELETE', `${path}/${made.id}`);
      return made.key;
    };
    const apiKey = async (role: WorkspaceRole, ...manages: readonly KeyGrant[]): Promise<Actor> => ({
      token: await makeKeyAt(owner, './api-keys', { role, may_manage: manages }),
      kind: 'api_key',
      workspace: role,
      manages,
    });
    const expiredKey = async () => {
      const key = await makeKeyAt(owner, './api-keys', { role: 'admin', expires_at: secondsFromNow(2) });
      const holder = owner.with({ token: key });
      await eventually(
        () => holder.call('GET', './api-keys'),
        ({ status }) => status === 401,
      );
      return key;
    };
    const site = { environment: 'production' };
    const scopes = { scopes: CLIENT_KEY_SCOPES };
    return {
      nobody: { token: undefined, kind: undefined },
      nonsense: { token: 'nonsense', kind: undefined },
      'an expired ID token': {
        token: await issuer.mint('dev@tributary.localhost', new Date(Date.now() - 2 * 3_600_000)),
        kind: undefined,
      },
      'a stranger': await person('stranger'),
      'an operator of the installation': await person('operator', { operator: true }),
      'somebody who was removed': await person('removed'),
      'an owner of the organization': await person('organization-owner', {
        organization: 'owner',
        workspace: 'admin',
      }),
      'an admin of the organization': await person('organization-admin', {
        organization: 'admin',
        workspace: 'admin',
      }),
      'a member of the organization': await person('organization-member', { organization: 'member' }),
      'an admin of the workspace': await person('workspace-admin', { workspace: 'admin' }),
      'an editor of the workspace': await person('workspace-editor', { workspace: 'editor' }),
      'a viewer of the workspace': await person('workspace-viewer', { workspace: 'viewer' }),
      'a member of the organization who edits': await person('both', {
        organization: 'member',
        workspace: 'editor',
      }),
      'an admin’s API key': await apiKey('admin'),
      'an admin’s API key that may make keys': await apiKey('admin', 'keys'),
      'an admin’s API key that may change members': await apiKey('admin', 'members'),
      'an editor’s API key': await apiKey('editor'),
      'a viewer’s API key': await apiKey('viewer'),
      'an API key of another workspace': {
        token: await makeKeyAt(foreign, './api-keys', { role: 'admin' }),
        kind: 'api_key',
      },
      'a revoked API key': {
        token: await makeKeyAt(owner, './api-keys', { role: 'admin' }, true),
        kind: undefined,
      },
      'an expired API key': { token: await expiredKey(), kind: undefined },
      'an API key that nobody made': { token: makeKey('api_key', randomBytes(32)).raw, kind: undefined },
      'a write key': { token: tributary.writeKey, kind: 'write_key', workspace: 'own' },
      'a write key for development': {
        token: await makeKeyAt(owner, './event-keys', { environment: 'development' }),
        kind: 'write_key',
        workspace: 'own',
      },
      'a write key of another workspace': {
        token: await makeKeyAt(foreign, './event-keys', site),
        kind: 'write_key',
      },
      'a revoked write key': { token: await makeKeyAt(owner, './event-keys', site, true), kind: undefined },
      'a client key': {
        token: await makeKeyAt(owner, `${organization}/client-keys`, scopes),
        kind: 'client_key',
        organization: 'own',
      },
      'a client key of another organization': {
        token: await makeKeyAt(foreign, `/organizations/${abroad}/client-keys`, scopes),
        kind: 'client_key',
      },
      'a revoked client key': {
        token: await makeKeyAt(owner, `${organization}/client-keys`, scopes, true),
        kind: undefined,
      },
    };
  }
});

/** A route with the operation of another route would be checked against the wrong roles. */
const METHODS: Readonly<Record<string, string>> = {
  list: 'GET',
  read: 'GET',
  create: 'POST',
  update: 'PUT',
  delete: 'DELETE',
  archive: 'DELETE',
  revoke: 'DELETE',
};

const isOfProfiles = (url: string) => url.startsWith('/cdp/');

/** The body of a call of the profile API that finds, changes and deletes no profile. */
function aboutNobody(url: string): object {
  const nobody = randomUUID();
  if (url.endsWith('/_search')) return { regions: ['eu'], search: { ucid: [nobody] } };
  if (url.endsWith('/_delete')) return { region: 'eu', ids: { ucid: [nobody] } };
  if (url.endsWith('/_unlink')) return { region: 'eu', ids: { AdId: [nobody] } };
  return { region: 'eu', ucid: nobody };
}

const ALLOWED = 'let in';
/** The exact bodies of the specification. */
const NOT_KNOWN = '401 {"error":"not authenticated"}';
const DENIED = '403 {"error":"permission denied"}';

const isPublic = ({ config }: RouteOptions) => permissionOf(config?.operation as Operation).public === true;

/** A refusal without its extra fields for SDKs. */
function inShort(text: string): string {
  const { code, message, ...refusal } = JSON.parse(text);
  return JSON.stringify(refusal);
}

/** The expected outcome from the table, parsed independently here. */
function expectedOf(actor: Actor, route: RouteOptions): string {
  const { url, config } = route;
  if (isPublic(route)) return ALLOWED;
  const operation = config?.operation as Operation;
  const { credentials, role, organizationRole, scope, grant, operator } = permissionOf(operation);
  if (actor.kind === undefined) return NOT_KNOWN;
  if (!credentials.includes(actor.kind)) return DENIED;
  if (operator && !actor.operator) return DENIED;
  if (grant !== undefined && actor.kind === 'api_key' && !actor.manages?.includes(grant)) return DENIED;
  if (scope !== undefined && !hasScope(actor, scope)) return DENIED;
  if (url.includes(':workspaceId')) {
    if (actor.workspace === undefined) return DENIED;
    if (role !== undefined && !isAtLeast(WORKSPACE_ROLES, actor.workspace, role)) return DENIED;
  }
  if (organizationRole !== undefined && !isAtLeast(ORGANIZATION_ROLES, actor.organization, organizationRole))
    return DENIED;
  return ALLOWED;
}

/** Every client key here has all scopes, and every workspace is in the requested region. */
function hasScope({ kind, workspace, organization }: Actor, scope: ClientKeyScope): boolean {
  if (kind === 'client_key') return organization === 'own';
  if (organization === 'owner' || organization === 'admin' || workspace === 'admin') return true;
  if (scope === 'profile.read') return organization !== undefined || workspace !== undefined;
  return scope === 'profile.write' && workspace === 'editor';
}

function isAtLeast(roles: readonly string[], role: string | undefined, needed: string): boolean {
  const rank = roles.indexOf(role ?? '');
  return rank !== -1 && rank <= roles.indexOf(needed);
}

const secondsFromNow = (seconds: number) => new Date(Date.now() + 1_000 * seconds).toISOString();

let calls = 0;

function nextAddress(): string {
  calls++;
  return `10.${(calls >> 16) & 255}.${(calls >> 8) & 255}.${calls & 255}`;
}
