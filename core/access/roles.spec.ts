import { describe, expect, it } from 'vitest';
import {
  effectiveRole,
  includesOrganizationRole,
  includesRole,
  ORGANIZATION_ROLES,
  WORKSPACE_ROLES,
  type WorkspaceRole,
} from './roles.ts';

describe('includesRole', () => {
  it('lets each role do what it and the lesser ones may', () => {
    const may = WORKSPACE_ROLES.map((role) => WORKSPACE_ROLES.filter((needed) => includesRole(role, needed)));
    expect(may).toEqual([['admin', 'editor', 'viewer'], ['editor', 'viewer'], ['viewer']]);
  });

  it('lets a role that does not exist do nothing', () => {
    for (const needed of WORKSPACE_ROLES) expect(includesRole('root' as WorkspaceRole, needed)).toBe(false);
  });
});

describe('includesOrganizationRole', () => {
  it('lets each role do what it and the lesser ones may', () => {
    const may = ORGANIZATION_ROLES.map((role) =>
      ORGANIZATION_ROLES.filter((needed) => includesOrganizationRole(role, needed)),
    );
    expect(may).toEqual([['owner', 'admin', 'member'], ['admin', 'member'], ['member']]);
  });
});

describe('effectiveRole', () => {
  it('makes owners and admins of the organization admins of its workspaces', () => {
    for (const role of [...WORKSPACE_ROLES, undefined]) {
      expect(effectiveRole('owner', role)).toBe('admin');
      expect(effectiveRole('admin', role)).toBe('admin');
    }
  });

  it('gives everyone else what the workspace says', () => {
    for (const role of [...WORKSPACE_ROLES, undefined]) {
      expect(effectiveRole('member', role)).toBe(role);
      expect(effectiveRole(undefined, role)).toBe(role);
    }
    expect(ORGANIZATION_ROLES).toEqual(['owner', 'admin', 'member']);
  });
});
