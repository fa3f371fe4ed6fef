import type { CatalogView } from '../catalog/catalog.ts';
import { CLIENT_KEY_SCOPES, type ClientKeyScope, type Organization } from '../catalog/entities.ts';

/** From most to least. */
export const ORGANIZATION_ROLES = ['owner', 'admin', 'member'] as const;
export type OrganizationRole = (typeof ORGANIZATION_ROLES)[number];

/** From most to least. */
export const WORKSPACE_ROLES = ['admin', 'editor', 'viewer'] as const;
export type WorkspaceRole = (typeof WORKSPACE_ROLES)[number];

/** True when `role` may do what `needed` may. A role that does not exist may do nothing. */
export function includesRole(role: WorkspaceRole, needed: WorkspaceRole): boolean {
  return ranks(WORKSPACE_ROLES, role, needed);
}

/** The same in an organization. */
export function includesOrganizationRole(role: OrganizationRole, needed: OrganizationRole): boolean {
  return ranks(ORGANIZATION_ROLES, role, needed);
}

function ranks<Role>(roles: readonly Role[], role: Role, needed: Role): boolean {
  const rank = roles.indexOf(role);
  return rank >= 0 && rank <= roles.indexOf(needed);
}

/** Owners and admins of the organization are admins of its workspaces; a member is what the workspace says. */
export function effectiveRole(
  organizationRole: OrganizationRole | undefined,
  workspaceRole: WorkspaceRole | undefined,
): WorkspaceRole | undefined {
  if (organizationRole === 'owner' || organizationRole === 'admin') return 'admin';
  return workspaceRole;
}

const SCOPES_OF_ROLE: Readonly<Record<WorkspaceRole, readonly ClientKeyScope[]>> = {
  viewer: ['profile.read'],
  editor: ['profile.read', 'profile.write'],
  admin: CLIENT_KEY_SCOPES,
};

/** The scopes of a comma-separated list; undefined when it holds anything else, or nothing. */
export function readScopes(text: string): readonly ClientKeyScope[] | undefined {
  const words = text.split(',').map((word) => word.trim());
  const scopes = CLIENT_KEY_SCOPES.filter((scope) => words.includes(scope));
  return words.every((word) => (CLIENT_KEY_SCOPES as readonly string[]).includes(word)) ? scopes : undefined;
}

/**
 * What an account may do with the profiles of an organization in one region; undefined where it has no place there.
 * What somebody is in the organization counts in all regions, what they are in a workspace in that workspace's: who was
 * invited into one workspace is not shown the customers of another region. Being a member is worth a viewer.
 *
 * `claimed`: the profile scopes that the account's token names. They narrow those of the role and never add one: a
 * claim says what the token was issued for, and the catalog says what its owner may do.
 */
export function accountScopes(
  accountId: string,
  organization: Pick<Organization, 'id'>,
  region: string,
  claimed: readonly string[] | undefined,
  state: CatalogView,
): readonly ClientKeyScope[] | undefined {
  const role = roleInRegion(accountId, organization.id, region, state);
  if (role === undefined) return undefined;
  return SCOPES_OF_ROLE[role].filter((scope) => claimed?.includes(scope) ?? true);
}

function roleInRegion(
  accountId: string,
  organizationId: string,
  region: string,
  state: CatalogView,
): WorkspaceRole | undefined {
  const organizationRole = state.organizationRole(accountId, organizationId);
  const workspaceRoles = state.workspaceMembers.scopesOf(accountId).map((id) => {
    const workspace = state.workspace(id);
    const counts =
      workspace?.organization_id === organizationId &&
      workspace.status === 'active' &&
      workspace.region === region;
    return counts ? state.workspaceMembers.ofAccount(accountId, id)?.role : undefined;
  });
  const best = WORKSPACE_ROLES.find((role) => workspaceRoles.includes(role));
  return effectiveRole(organizationRole, best ?? (organizationRole && 'viewer'));
}
