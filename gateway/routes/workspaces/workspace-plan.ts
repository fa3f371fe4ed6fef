import type { CatalogView, FactData, Workspace } from '@tributary/core';
import { administersOrganization, type Caller } from '../../authentication/caller.ts';
import { invalidRequest, permissionDenied } from '../../errors/api-error.ts';

/** Regions of an organization that nobody said more about, and the region of a workspace likewise. */
export const DEFAULT_REGION = 'eu';

type NewWorkspace = FactData['workspace.created'];

/** What a caller asks for; `newId` is the id of the organization, should one be made. */
export interface WorkspaceRequest {
  readonly id: string;
  readonly name: string;
  readonly organizationId: string | undefined;
  readonly region: string | undefined;
  readonly accountId: string;
  readonly newOrganizationId: string;
}

/**
 * A workspace in the organization it names, where the account must be owner or admin (403; also for one that does not
 * exist), else in a new one of the same name that belongs to the account. 400 for a region the organization is not in.
 */
export function planWorkspace(wanted: WorkspaceRequest, state: CatalogView): NewWorkspace {
  const existing = wanted.organizationId?.toLowerCase();
  const region = wanted.region ?? DEFAULT_REGION;
  if (existing !== undefined) {
    const organization = state.organization(existing);
    const role = state.organizationRole(wanted.accountId, existing);
    if (organization === undefined || (role !== 'owner' && role !== 'admin')) throw permissionDenied();
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

/** 400 for a region that is none of the organization's. */
function checkRegion(region: string, regions: readonly string[]): void {
  if (!regions.includes(region))
    throw invalidRequest({ path: '/region', message: `must be one of ${regions.join(', ')}` });
}

/**
 * The region of a workspace decides which customers its people reach through the profile API, so an admin of the
 * organization alone moves it, by ID token: 403 for everybody else, before the regions of the organization are told.
 */
export function checkMove(
  caller: Caller,
  { organization_id, region: current }: Workspace,
  region: string,
  state: CatalogView,
): void {
  if (region === current) return;
  if (!administersOrganization(caller, organization_id, state)) throw permissionDenied();
  checkRegion(region, state.organization(organization_id)?.regions ?? []);
}
