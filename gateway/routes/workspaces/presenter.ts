import type { Workspace, WorkspaceRole } from '@tributary/core';
import type { Static } from 'typebox';
import type { workspaceResource } from './schemas.ts';

export function presentWorkspace(
  workspace: Workspace,
  role: WorkspaceRole,
): Static<typeof workspaceResource> {
  return {
    id: workspace.id,
    name: workspace.name,
    organization_id: workspace.organization_id,
    region: workspace.region,
    status: workspace.status,
    alerts: workspace.alerts ?? null,
    role,
    created_at: workspace.created_at,
    updated_at: workspace.updated_at,
  };
}
