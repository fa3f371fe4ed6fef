import {
  type CatalogView,
  hashKey,
  includesOrganizationRole,
  includesRole,
  type Member,
  type MembersView,
  type Operation,
  PERMISSIONS,
  type Permission,
  permissionOf,
} from '@tributary/core';
import type { FastifyRequest, preValidationHookHandler } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { GatewayDependencies } from '../dependencies.ts';
import { invalidRequest, permissionDenied } from '../errors/api-error.ts';
import { createAuthenticate, createKeyUseNotes, usableKey } from './authenticate.ts';
import {
  bearerOf,
  type Caller,
  FOR_OPERATORS,
  FOR_WEBHOOKS,
  isOperator,
  keyInBody,
  keyInPath,
  keyOrBearerOf,
  keysInText,
  NO_ORGANIZATION,
  NO_WORKSPACE,
  namesCredential,
  organizationRoleTooLow,
  roleTooLow,
  sdkCredentialOf,
  wrongKind,
} from './caller.ts';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const WORKSPACE_HEADER = 'x-workspace-id';

interface RouteAccess {
  readonly operation: Operation;
  /** Called by SDKs made for Segment or RudderStack. */
  readonly sdk?: boolean;
  readonly credentialIn?: 'path' | undefined;
}

/**
 * Authenticates and authorises every request. Each route names its operation in the permission table; a route without one
 * stops the gateway from starting. The order of the checks is the spec's: credential (401), workspace header (400), then
 * credential kind, membership and role (403). All of them run before the body is read, unless an SDK sends its key in
 * the body.
 */
export const accessPlugin = fastifyPlugin<GatewayDependencies>(async (app, dependencies) => {
  const { catalog, clock } = dependencies;
  const authenticate = createAuthenticate(dependencies);
  const noteKeyUse = createKeyUseNotes(dependencies);
  // Declared up front, so that all request objects have one shape, which keeps property access fast.
  for (const property of ['caller', 'workspace', 'role', 'organization', 'organizationRole'])
    app.decorateRequest(property);
  app.addHook('onRoute', (route) => {
    const { operation, sdk } = route.config ?? {};
    if (operation === undefined || !(operation in PERMISSIONS)) {
      throw new Error(
        `route ${String(route.method)} ${route.url} names no operation of the permission table`,
      );
    }
    if (!sdk || permissionOf(operation).public) return;
    const admitByBody: preValidationHookHandler = (request, _reply, done) => {
      if (isAdmitted(request)) done();
      else admit(request, { operation, sdk }, keyInBody(request), done);
    };
    route.preValidation = [admitByBody, ...[route.preValidation ?? []].flat()];
  });

  function admit(
    request: FastifyRequest,
    route: RouteAccess,
    credential: string | undefined,
    done: (error?: Error) => void,
  ): void {
    const admitCaller = (caller: Caller) => {
      request.caller = caller;
      noteKeyUse(caller);
      authorize(request, route, dependencies);
    };
    const caller = authenticate(request, credential);
    if (caller instanceof Promise) caller.then(admitCaller).then(() => done(), done);
    else {
      admitCaller(caller);
      done();
    }
  }

  /** Rejects with 401 or 429, before anything is parsed, when the body holds no valid key. */
  async function authenticateByBody(request: FastifyRequest, text: Buffer): Promise<void> {
    const [first, ...others] = keysInText(text);
    for (const key of others) if (usableKey(catalog.state, hashKey(key), clock()) !== undefined) return;
    await authenticate(request, first);
  }

  app.addHook('onRequest', (request, _reply, done) => {
    const { operation, sdk, credentialIn } = request.routeOptions.config;
    if (operation === undefined) return done(); // no route: the not-found handler answers
    if (permissionOf(operation).public) return done();
    if (sdk && request.method === 'POST' && !namesCredential(request)) {
      // The key may be in the body.
      request.authenticateByBody = (text) => authenticateByBody(request, text);
      return done();
    }
    const route = { operation, sdk: sdk === true, credentialIn };
    admit(request, route, credentialOf(request, route), done);
  });
});

function credentialOf(
  request: FastifyRequest,
  { operation, sdk, credentialIn }: RouteAccess,
): string | undefined {
  if (credentialIn === 'path') return keyInPath(request);
  if (sdk) return sdkCredentialOf(request);
  return isOfProfiles(operation) ? keyOrBearerOf(request) : bearerOf(request);
}

function isAdmitted({ caller }: { readonly caller?: Caller }): boolean {
  return caller !== undefined;
}

/** The profile API takes a key from a header of its own, too. */
function isOfProfiles(operation: Operation): boolean {
  return permissionOf(operation).scope !== undefined;
}

function authorize(
  request: FastifyRequest,
  { operation, credentialIn }: RouteAccess,
  { catalog, operators }: GatewayDependencies,
): void {
  const permission = permissionOf(operation);
  const { workspaceId, organizationId } = request.params as PathParameters;
  if (workspaceId !== undefined) checkWorkspaceHeader(request, workspaceId.toLowerCase(), request.caller);
  const { caller } = request;
  if (!permission.credentials.includes(caller.kind)) throw permissionDenied(wrongKind(caller, permission));
  if (permission.operator && !isOperator(caller, operators)) throw permissionDenied(FOR_OPERATORS);
  if (caller.kind === 'write_key') {
    if (caller.key.webhooks_only === true && credentialIn !== 'path') throw permissionDenied(FOR_WEBHOOKS);
    if (workspaceId === undefined)
      authorizeInWorkspace(request, permission, caller.key.workspace_id, catalog.state);
  }
  if (workspaceId !== undefined)
    authorizeInWorkspace(request, permission, workspaceId.toLowerCase(), catalog.state);
  if (organizationId !== undefined)
    authorizeInOrganization(request, permission, organizationId.toLowerCase(), catalog.state);
}

interface PathParameters {
  readonly workspaceId?: string;
  readonly organizationId?: string;
  readonly memberId?: string;
}

function authorizeInWorkspace(
  request: FastifyRequest,
  permission: Permission,
  workspaceId: string,
  state: CatalogView,
): void {
  const { caller } = request;
  const workspace = state.workspace(workspaceId);
  const role = workspace === undefined ? 'foreign' : roleIn(caller, workspace.id, state);
  if (workspace === undefined || role === 'foreign') throw permissionDenied(NO_WORKSPACE);
  const staysOpen = permission.archived === true && caller.kind === 'id_token';
  if (workspace.status !== 'active' && !staysOpen) throw permissionDenied('the workspace is archived');
  request.workspace = workspace;
  request.role = role;
  if (!hasGrant(caller, permission))
    throw permissionDenied(`the API key was created without may_manage ${permission.grant}`);
  if (permission.role === undefined || (role !== undefined && includesRole(role, permission.role))) return;
  if (!isSelf(request, permission, state.workspaceMembers, workspace.id))
    throw permissionDenied(roleTooLow(permission.role, role));
}

/** An API key manages keys or members only with a grant that an admin of the organization gave at its creation. */
function hasGrant(caller: Caller, { grant }: Permission): boolean {
  return grant === undefined || caller.kind !== 'api_key' || caller.key.may_manage?.includes(grant) === true;
}

/** Only accounts are members of an organization. A foreign organization gets the same response as a missing one. */
function authorizeInOrganization(
  request: FastifyRequest,
  permission: Permission,
  organizationId: string,
  state: CatalogView,
): void {
  const { caller } = request;
  const organization = state.organization(organizationId);
  const role =
    caller.kind === 'id_token' ? state.organizationRole(caller.account.id, organizationId) : undefined;
  if (organization === undefined || role === undefined) throw permissionDenied(NO_ORGANIZATION);
  request.organization = organization;
  request.organizationRole = role;
  const needed = permission.organizationRole ?? 'owner'; // a table row without a role is for owners only
  if (includesOrganizationRole(role, needed)) return;
  if (!isSelf(request, permission, state.organizationMembers, organization.id))
    throw permissionDenied(organizationRoleTooLow(needed, role));
}

/** Whether the operation is open to the member named in the path, and that member is the caller. */
function isSelf(
  { caller, params }: FastifyRequest,
  permission: Permission,
  members: MembersView<Member>,
  scopeId: string,
): boolean {
  if (permission.self !== true || caller.kind !== 'id_token') return false;
  const { memberId } = params as PathParameters;
  return members.get(scopeId, memberId?.toLowerCase() ?? '')?.account_id === caller.account.id;
}

/** The caller's role in a workspace; undefined for a write key of the workspace, `foreign` for a caller without access. */
function roleIn(caller: Caller, workspaceId: string, state: CatalogView) {
  if (caller.kind === 'id_token') return state.workspaceRole(caller.account.id, workspaceId) ?? 'foreign';
  if (caller.kind === 'client_key' || caller.key.workspace_id !== workspaceId) return 'foreign';
  return caller.kind === 'api_key' ? caller.key.role : undefined;
}

/** The header is required, except for write keys, and must name the workspace of the path. */
function checkWorkspaceHeader(request: FastifyRequest, workspaceId: string, caller: Caller): void {
  const header = request.headers[WORKSPACE_HEADER];
  if (header === undefined && caller.kind === 'write_key') return;
  if (typeof header !== 'string' || !UUID.test(header)) {
    throw invalidRequest({
      path: 'X-Workspace-ID',
      message: header === undefined ? 'is required' : 'must be a UUID',
    });
  }
  if (header.toLowerCase() !== workspaceId)
    throw permissionDenied('the header X-Workspace-ID names another workspace than the path');
}

/** An authorised caller, operation and workspace. */
export interface Admitted {
  readonly caller: Caller;
  readonly operation: Operation;
  readonly workspaceId: string;
}

export type Refusal = 'unavailable' | 'not authenticated' | 'permission denied';

/**
 * Why an admitted caller would be refused now; undefined while the admission holds. For streams, which must end when the
 * credential expires or is revoked, the member is removed, the workspace is archived, or the catalog is too old to tell.
 */
export function refusalNow(
  { caller, operation, workspaceId }: Admitted,
  { catalog, clock, trustCatalogForMs = Infinity }: AdmittanceDependencies,
): Refusal | undefined {
  if (catalog.age > trustCatalogForMs) return 'unavailable';
  if (!isGood(caller, { catalog, clock })) return 'not authenticated';
  const { credentials, role: needed } = permissionOf(operation);
  const role = roleIn(caller, workspaceId, catalog.state);
  const isActive = catalog.state.workspace(workspaceId)?.status === 'active';
  if (!isActive || !credentials.includes(caller.kind) || role === 'foreign') return 'permission denied';
  const suffices = needed === undefined || (role !== undefined && includesRole(role, needed));
  return suffices ? undefined : 'permission denied';
}

type AdmittanceDependencies = Pick<GatewayDependencies, 'catalog' | 'clock' | 'trustCatalogForMs'>;

function isGood(caller: Caller, { catalog, clock }: Pick<GatewayDependencies, 'catalog' | 'clock'>): boolean {
  if (caller.kind === 'id_token') return clock() < caller.expiresAt;
  return usableKey(catalog.state, caller.key.hash, clock()) !== undefined;
}
