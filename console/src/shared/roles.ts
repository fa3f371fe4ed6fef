const WORKSPACE_ROLES = ['viewer', 'editor', 'admin'] as const;
const ORGANIZATION_ROLES = ['member', 'admin', 'owner'] as const;

export type WorkspaceRole = (typeof WORKSPACE_ROLES)[number];
export type OrganizationRole = (typeof ORGANIZATION_ROLES)[number];

/**
 * Whether a role includes another one: a button is shown only to people who may use it. The API checks the role itself, see
 * `docs/reference/permissions.md`.
 */
export function includesRole(own: WorkspaceRole | undefined, needed: WorkspaceRole): boolean {
  return own !== undefined && WORKSPACE_ROLES.indexOf(own) >= WORKSPACE_ROLES.indexOf(needed);
}

export function includesOrganizationRole(
  own: OrganizationRole | undefined,
  needed: OrganizationRole,
): boolean {
  return own !== undefined && ORGANIZATION_ROLES.indexOf(own) >= ORGANIZATION_ROLES.indexOf(needed);
}
