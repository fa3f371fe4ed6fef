import { describe, expect, it } from 'vitest';
import {
  account,
  fact,
  foldAll,
  ORGANIZATION,
  OWNER,
  organizationMember,
  WORKSPACE,
  workspace,
  workspaceMember,
} from '../catalog/fold/catalog.fixture.ts';
import {
  accountScopes,
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
    '%j is none',
    (text) => {
      expect(readScopes(text)).toBeUndefined();
    },
  );
});

describe('what an account may do with profiles', () => {
  const state = foldAll([
    account(OWNER, 'owner@example.com'),
    workspace(),
    account('member', 'member@example.com'),
    organizationMember('m1', 'member@example.com'),
    account('guest', 'guest@example.com'),
    workspaceMember('m2', 'guest@example.com'),
  ]).state;
  const region = state.workspace(WORKSPACE)?.region ?? '';
  const scopesOf = (id: string, where = region, claimed?: readonly string[]) =>
    accountScopes(id, { id: ORGANIZATION }, where, claimed, state)?.toSorted();

  it('is everything for an owner, in every region', () => {
    for (const where of [region, 'elsewhere']) expect(scopesOf(OWNER, where)).toEqual([DELETE, READ, WRITE]);
  });

  it('is reading for a member of the organization, in every region', () => {
    for (const where of [region, 'elsewhere']) expect(scopesOf('member', where)).toEqual([READ]);
  });

  it('is what the role in a workspace says, in the region of the workspace alone', () => {
    expect(scopesOf('guest')).toEqual([READ]);
    expect(scopesOf('guest', 'elsewhere')).toBeUndefined();
  });

  it('is nothing for a stranger, and in another organization', () => {
    expect(scopesOf('stranger')).toBeUndefined();
    expect(accountScopes(OWNER, { id: 'another' }, region, undefined, state)).toBeUndefined();
  });

  it('is narrowed by what the token claims, which lifts no role and opens no other organization', () => {
    expect(scopesOf(OWNER, region, [READ])).toEqual([READ]);
    expect(scopesOf('member', region, [WRITE])).toEqual([]);
    expect(scopesOf('member', region, [READ, WRITE, DELETE])).toEqual([READ]);
    expect(scopesOf('guest', region, [DELETE, READ])).toEqual([READ]);
    expect(scopesOf(OWNER, region, ['profile.bogus'])).toEqual([]);
    expect(scopesOf('stranger', region, [READ])).toBeUndefined();
  });

  it('is no more once the workspace was archived', () => {
    const archived = foldAll([
      workspace(),
      account('guest', 'guest@example.com'),
      workspaceMember('m2', 'guest@example.com'),
      fact('workspace.archived', WORKSPACE, {}),
    ]).state;
    expect(accountScopes('guest', { id: ORGANIZATION }, region, undefined, archived)).toBeUndefined();
  });
});

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
