import type { CatalogView, FactData, Workspace } from '@tributary/core';
import { administersOrganization, type Caller } from '../../authentication/caller.ts';
import {
  BY_ADMIN_OF_ORGANIZATION,
  NO_ORGANIZATION,
  organizationRoleTooLow,
} from '../../authentication/refusal-reasons.ts';
import { invalidRequest, permissionDenied } from '../../errors/api-error.ts';

/** The default region of organizations and workspaces. */
export const DEFAULT_REGION = 'eu';

type NewWorkspace = FactData['workspace.created'];

/** A requested workspace. `newOrganizationId`: the id of the organization if one is created. */
export interface WorkspaceRequest {
  readonly id: string;
  readonly name: string;
  readonly organizationId: string | undefined;
  readonly region: string | undefined;
  readonly accountId: string;
  readonly newOrganizationId: string;
}

/**
 * Plans a workspace in the named organization, else in a new organization of the same name that the account owns. 403
 * unless the account is owner or admin of the organization, also for a missing one; 400 for a region that the organization
 * does not have.
 */
export function planWorkspace(wanted: WorkspaceRequest, state: CatalogView): NewWorkspace {
  const existing = wanted.organizationId?.toLowerCase();
  const region = wanted.region ?? DEFAULT_REGION;
  if (existing !== undefined) {
    const organization = state.organization(existing);
    const role = state.organizationRole(wanted.accountId, existing);
    if (organization === undefined || role === undefined) throw permissionDenied(NO_ORGANIZATION);
    if (role !== 'owner' && role !== 'admin') throw permissionDenied(organizationRoleTooLow('admin', role));
    checkRegion(region, organization.regions);
    return { workspace: workspaceIn(existing, region, wanted) };
  }
  const regions = [DEFAULT_REGION];
  checkRegion(region, regions);
  const id = wanted.newOrganizationId;
  return {
    workspace: workspaceIn(id, region, wanted),
    organization: { id, name: wanted.name, regions, notification_email: null },
    owner: { account_id: wanted.accountId, organization_id: id, role: 'owner' },
  };
}

function workspaceIn(
  organizationId: string,
  region: string,
  { id, name }: WorkspaceRequest,
): NewWorkspace['workspace'] {
  return { id, name, organization_id: organizationId, region, status: 'active' };
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
export function checkMove(
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
