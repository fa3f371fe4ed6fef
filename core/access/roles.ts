import type { CatalogView } from '../catalog/catalog.ts';
import type { Organization } from '../catalog/entities.ts';

/** From most to least. */
export const ORGANIZATION_ROLES = ['owner', 'admin', 'member'] as const;
export type OrganizationRole = (typeof ORGANIZATION_ROLES)[number];

/** From most to least. */
export const WORKSPACE_ROLES = ['admin', 'editor', 'viewer'] as const;
export type WorkspaceRole = (typeof WORKSPACE_ROLES)[number];

/** True when `role` includes the permissions of `needed`. An unknown role has none. */
export function includesRole(role: WorkspaceRole, needed: WorkspaceRole): boolean {
  return ranks(WORKSPACE_ROLES, role, needed);
}

export function includesOrganizationRole(role: OrganizationRole, needed: OrganizationRole): boolean {
  return ranks(ORGANIZATION_ROLES, role, needed);
}

function ranks<Role>(roles: readonly Role[], role: Role, needed: Role): boolean {
  const rank = roles.indexOf(role);
  return rank >= 0 && rank <= roles.indexOf(needed);
}

/**
 * The effective role in a workspace: owners and admins of the organization are admins of its workspaces; others have
 * their role in the workspace.
 */
export function effectiveRole(
  organizationRole: OrganizationRole | undefined,
  workspaceRole: WorkspaceRole | undefined,
): WorkspaceRole | undefined {
  if (organizationRole === 'owner' || organizationRole === 'admin') return 'admin';
  return workspaceRole;
}

export const CLIENT_KEY_SCOPES = ['profile.write', 'profile.read', 'profile.delete'] as const;
export type ClientKeyScope = (typeof CLIENT_KEY_SCOPES)[number];

const SCOPES_OF_ROLE: Readonly<Record<WorkspaceRole, readonly ClientKeyScope[]>> = {
  viewer: ['profile.read'],
  editor: ['profile.read', 'profile.write'],
  admin: CLIENT_KEY_SCOPES,
};

/** Parses a comma-separated list of scopes; undefined when it is empty or contains anything else. */
export function readScopes(text: string): readonly ClientKeyScope[] | undefined {
  const words = text.split(',').map((word) => word.trim());
  const scopes = CLIENT_KEY_SCOPES.filter((scope) => words.includes(scope));
  return words.every((word) => (CLIENT_KEY_SCOPES as readonly string[]).includes(word)) ? scopes : undefined;
}

/**
 * The profile scopes of an account in one region of an organization; undefined without access. A role in the
 * organization applies to all regions, a role in a workspace to the workspace's region: a guest of one workspace must
 * not see the customers of another region. A member of the organization has at least the scopes of a viewer.
 *
 * `claimed`: the profile scopes in the account's token. They narrow those of the role and never add any.
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
