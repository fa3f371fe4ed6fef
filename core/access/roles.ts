export const ORGANIZATION_ROLES = ['owner', 'admin', 'member'] as const;
export type OrganizationRole = (typeof ORGANIZATION_ROLES)[number];

/** From most to least. */
export const WORKSPACE_ROLES = ['admin', 'editor', 'viewer'] as const;
export type WorkspaceRole = (typeof WORKSPACE_ROLES)[number];

/** True when `role` may do what `needed` may. A role that does not exist may do nothing. */
export function includesRole(role: WorkspaceRole, needed: WorkspaceRole): boolean {
  const rank = WORKSPACE_ROLES.indexOf(role);
  return rank >= 0 && rank <= WORKSPACE_ROLES.indexOf(needed);
}

/** Owners and admins of the organization are admins of its workspaces; a member is what the workspace says. */
export function effectiveRole(
  organizationRole: OrganizationRole | undefined,
  workspaceRole: WorkspaceRole | undefined,
): WorkspaceRole | undefined {
  if (organizationRole === 'owner' || organizationRole === 'admin') return 'admin';
  return workspaceRole;
}
