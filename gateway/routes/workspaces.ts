import {
  type CatalogView,
  type FactData,
  newId,
  STORAGE_ACTIONS,
  STORAGE_BUDGETS,
  type StorageLimits,
  type StorageUsage,
  WORKSPACE_ROLES,
  type Workspace,
  type WorkspaceRole,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import {
  accountOf,
  administersOrganization,
  BY_ADMIN_OF_ORGANIZATION,
  type Caller,
  NO_ORGANIZATION,
  NO_WORKSPACE,
  organizationRoleTooLow,
} from '../authentication/caller.ts';
import type { Routes } from '../dependencies.ts';
import { invalidRequest, permissionDenied } from '../errors/api-error.ts';
import {
  applied,
  checkVersion,
  isUnchanged,
  propose,
  removalOf,
  tagged,
} from '../resources/catalog-entities.ts';
import { byId, catalogList } from '../resources/lists.ts';
import {
  closed,
  integer,
  listOf,
  name,
  nullable,
  oneOf,
  operation,
  optional,
  removedAs,
  shownAs,
  string,
  times,
  uuid,
} from '../resources/schemas.ts';
import {
  addressIn,
  alertsBody,
  alertsIn,
  alertsResource,
  confirmationOf,
  emailStatus,
  statusIn,
} from './notice-addresses.ts';

const workspaceBody = closed(
  {
    name,
    organization_id: optional(string('Default: a new organization of the same name, yours.', 'uuid')),
    region: optional(
      Type.String({ minLength: 1, maxLength: 50, description: 'One of the organization’s. Default `eu`.' }),
    ),
  },
  { title: 'WorkspaceBody', examples: [{ name: 'Shop' }] },
);

/** A replacement requires `region`. */
const workspaceReplacement = closed(
  {
    name,
    region: Type.String({
      minLength: 1,
      maxLength: 50,
      description: 'Another one than now: for admins of the organization, by ID token.',
    }),
    alerts: optional(alertsBody),
  },
  { title: 'WorkspaceReplacement', examples: [{ name: 'Shop', region: 'eu' }] },
);

const status = oneOf(['active', 'archived']);

const workspaces = catalogList<Workspace>()({
  filters: {
    organization_id: byId('Only those of this organization.', ({ organization_id }) => organization_id),
  },
  own: { status: Type.Optional(status) },
});

const workspaceResource = Type.Object(
  {
    id: uuid,
    name,
    organization_id: uuid,
    org_id: integer('The number the profile API calls its organization by.'),
    region: string('Where its profiles live.'),
    status,
    alerts: nullable(alertsResource),
    alerts_email_status: emailStatus,
    role: oneOf(WORKSPACE_ROLES, 'The role of the caller.'),
    ...times,
  },
  { title: 'Workspace' },
);

function presentWorkspace(
  workspace: Workspace,
  role: WorkspaceRole | undefined,
  state: CatalogView,
): Static<typeof workspaceResource> {
  if (role === undefined) throw permissionDenied(NO_WORKSPACE);
  const organization = state.organization(workspace.organization_id);
  if (organization === undefined) throw new Error(`workspace ${workspace.id} has no organization`);
  return shownAs(workspaceResource, workspace, {
    org_id: organization.org_id,
    alerts_email_status: statusIn(state, workspace.id, workspace.alerts?.email, workspace),
    role,
  });
}

/** `/workspaces`: the workspaces of the caller. */
export const workspaceRoutes: Routes = async (app, dependencies) => {
  const { catalog } = dependencies;

  app.get(
    '/workspaces',
    operation('workspaces.list', 'listWorkspaces', 'List the workspaces the caller belongs to', {
      querystring: workspaces.querystring,
      response: { 200: listOf(workspaceResource) },
    }),
    async (request, reply) => {
      const accountId = accountOf(request.caller);
      const wanted = request.query.status ?? 'active';
      const found = workspaces.read(request, reply, catalog.state.workspaceListing(accountId, wanted));
      return found.map((workspace) => present(workspace, accountId));
    },
  );

  app.post(
    '/workspaces',
    operation('workspaces.create', 'createWorkspace', 'Create a workspace', {
      body: workspaceBody,
      response: { 201: workspaceResource },
    }),
    async (request, reply) => {
      const accountId = accountOf(request.caller);
      const plan = planWorkspace(request.body, accountId, catalog.state);
      const { id } = plan.workspace;
      await propose(request, dependencies, {
        type: 'workspace.created',
        entity: id,
        expected_version: 0,
        data: plan,
      });
      return reply.code(201).send(present(tagged(reply, workspaceNow(id)), accountId));
    },
  );

  app.get(
    '/workspaces/:workspaceId',
    operation('workspaces.read', 'readWorkspace', 'Read a workspace', {
      response: { 200: workspaceResource },
    }),
    async ({ workspace, role }, reply) => presentWorkspace(tagged(reply, workspace), role, catalog.state),
  );

  app.put(
    '/workspaces/:workspaceId',
    operation(
      'workspaces.update',
      'replaceWorkspace',
      'Replace a workspace',
      { body: workspaceReplacement, response: { 200: workspaceResource } },
      {
        patched: ({ workspace, role }) => presentWorkspace(workspaceNow(workspace.id), role, catalog.state),
      },
    ),
    async (request, reply) => {
      const { workspace: before, role, body } = request;
      const stored = workspaceNow(before.id);
      checkVersion(request, stored);
      const alerts = alertsIn(body.alerts, catalog.state, stored.id);
      const alertFields = alerts === null && stored.alerts === undefined ? {} : { alerts };
      const address = addressIn(stored, alerts);
      const confirmation = confirmationOf(dependencies, address, stored.alerts?.email, stored);
      const fields = { name: body.name, region: body.region, ...alertFields, ...confirmation };
      checkMove(request.caller, stored, fields.region, catalog.state);
      if (!(await isUnchanged(dependencies, stored, fields, () => catalog.state.workspace(stored.id))))
        await propose(request, dependencies, {
          type: 'workspace.updated',
          entity: stored.id,
          expected_version: stored.version,
          data: fields,
        });
      return presentWorkspace(tagged(reply, workspaceNow(stored.id)), role, catalog.state);
    },
  );

  app.delete(
    '/workspaces/:workspaceId',
    operation('workspaces.archive', 'archiveWorkspace', 'Archive a workspace', {
      response: { 200: removedAs('archived') },
    }),
    async (request) => {
      const { workspace } = request;
      if (workspace.status !== 'archived')
        await propose(request, dependencies, {
          type: 'workspace.archived',
          ...removalOf(request, workspace),
        });
      return { id: workspace.id, status: 'archived' } as const;
    },
  );

  const workspaceNow = (id: string) => applied(catalog.state.workspace(id));

  function present(workspace: Workspace, accountId: string) {
    return presentWorkspace(workspace, catalog.state.workspaceRole(accountId, workspace.id), catalog.state);
  }
};

export const DEFAULT_REGION = 'eu';

/**
 * Plans a workspace in the named organization, else in a new organization of the same name that the account owns. 403
 * unless the account is owner or admin of the organization, also for a missing one; 400 for a region that the organization
 * does not have.
 */
function planWorkspace(
  body: Static<typeof workspaceBody>,
  accountId: string,
  state: CatalogView,
): FactData['workspace.created'] {
  const region = body.region ?? DEFAULT_REGION;
  const { name } = body;
  const workspaceIn = (organization_id: string) =>
    ({ id: newId(), name, organization_id, region, status: 'active' }) as const;
  if (body.organization_id != null) {
    const existing = body.organization_id.toLowerCase();
    const organization = state.organization(existing);
    const role = state.organizationRole(accountId, existing);
    if (organization === undefined || role === undefined) throw permissionDenied(NO_ORGANIZATION);
    if (role !== 'owner' && role !== 'admin') throw permissionDenied(organizationRoleTooLow('admin', role));
    checkRegion(region, organization.regions);
    return { workspace: workspaceIn(existing) };
  }
  const regions = [DEFAULT_REGION];
  checkRegion(region, regions);
  const id = newId();
  return {
    workspace: workspaceIn(id),
    organization: { id, name, regions, notification_email: null },
    owner: { account_id: accountId, organization_id: id, role: 'owner' },
  };
}

/** 400 for a region that the organization does not have. */
function checkRegion(region: string, regions: readonly string[]): void {
  if (!regions.includes(region))
    throw invalidRequest({ path: '/region', message: `must be one of ${regions.join(', ')}` });
}

/**
 * The region of a workspace decides which profiles its members can access, so only an admin of the organization with an
 * ID token changes it. 403 for others, before the response could reveal the organization's regions.
 */
function checkMove(
  caller: Caller,
  { organization_id, region: current }: Workspace,
  region: string,
  state: CatalogView,
): void {
  if (region === current) return;
  if (!administersOrganization(caller, organization_id, state))
    throw permissionDenied(`to change the region, ${BY_ADMIN_OF_ORGANIZATION}`);
  checkRegion(region, state.organization(organization_id)?.regions ?? []);
}

const storageResource = Type.Object(
  {
    state: oneOf(
      STORAGE_ACTIONS,
      '`ok`; `stop_output`: events are accepted and make no deliveries; `refuse`: events are answered 429.',
    ),
    over: nullable(oneOf(STORAGE_BUDGETS, 'The budget that is used up.')),
    received: integer('Bytes received from producers in the current hour.'),
    bytes_per_hour: budgetOf('Bytes that stages wrote in the current hour.'),
    bytes_held: budgetOf('Bytes that the log keeps.'),
  },
  { title: 'WorkspaceStorage' },
);

function budgetOf(description: string) {
  return Type.Object({
    used: integer(description),
    limit: nullable(integer('Null: any number.')),
  });
}

const NOTHING: StorageUsage = { received: 0, written: 0, lastHour: 0, held: 0 };
const UNLIMITED: StorageLimits = {
  bytesPerHour: Number.POSITIVE_INFINITY,
  bytesHeld: Number.POSITIVE_INFINITY,
};

/** `GET /workspaces/:workspaceId/storage`: its bytes in the log, and its budgets. */
export const storageRoutes: Routes = async (app, { budgets }) => {
  app.get(
    '/workspaces/:workspaceId/storage',
    operation(
      'event-volume.read',
      'readWorkspaceStorage',
      'Read how many bytes the events of a workspace take, and its budgets',
      { response: { 200: storageResource } },
    ),
    async ({ workspace: { id } }) => {
      const over = budgets?.verdictOf(id);
      const { received, written, held } = budgets?.usageOf(id) ?? NOTHING;
      const { bytesPerHour, bytesHeld } = budgets?.limitsOf(id) ?? UNLIMITED;
      return {
        state: over?.action ?? ('ok' as const),
        over: over?.budget ?? null,
        received,
        bytes_per_hour: { used: written, limit: limited(bytesPerHour) },
        bytes_held: { used: held, limit: limited(bytesHeld) },
      };
    },
  );
};

function limited(limit: number): number | null {
  return Number.isFinite(limit) ? limit : null;
}
