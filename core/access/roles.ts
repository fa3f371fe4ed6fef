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
