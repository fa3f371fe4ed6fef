import { describe, expect, it } from 'vitest';
import {
  effectiveRole,
  includesOrganizationRole,
  includesRole,
  ORGANIZATION_ROLES,
  readScopes,
  WORKSPACE_ROLES,
  type WorkspaceRole,
} from './roles.ts';

const [READ, WRITE, DELETE] = ['profile.read', 'profile.write', 'profile.delete'] as const;

describe('a list of scopes', () => {
  it.each([
    [READ, [READ]],
    [`${WRITE},${READ}`, [READ, WRITE]],
    [` ${DELETE} , ${READ},${READ}`, [READ, DELETE]],
  ])('%j names them, blanks and repetitions aside', (text, scopes) => {
    expect(readScopes(text)?.toSorted()).toEqual(scopes.toSorted());
  });

  it.each(['', ',', `${READ},`, 'profile', 'profile.*', 'Profile.Read', `${READ} ${WRITE}`, `${READ},admin`])(
    '%j is not one',
    (text) => {
      expect(readScopes(text)).toBeUndefined();
    },
  );
});

describe('includesRole', () => {
  it('allows each role the operations of its own and of lesser roles', () => {
    const may = WORKSPACE_ROLES.map((role) => WORKSPACE_ROLES.filter((needed) => includesRole(role, needed)));
    expect(may).toEqual([['admin', 'editor', 'viewer'], ['editor', 'viewer'], ['viewer']]);
  });

  it('lets a role that does not exist do nothing', () => {
    for (const needed of WORKSPACE_ROLES) expect(includesRole('root' as WorkspaceRole, needed)).toBe(false);
  });
});

describe('includesOrganizationRole', () => {
  it('allows each role the operations of its own and of lesser roles', () => {
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

  it('gives everyone else the role in the workspace', () => {
    for (const role of [...WORKSPACE_ROLES, undefined]) {
      expect(effectiveRole('member', role)).toBe(role);
      expect(effectiveRole(undefined, role)).toBe(role);
    }
    expect(ORGANIZATION_ROLES).toEqual(['owner', 'admin', 'member']);
  });
});
