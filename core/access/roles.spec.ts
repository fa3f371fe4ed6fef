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
    '%j is not one',
    (text) => {
      expect(readScopes(text)).toBeUndefined();
    },
  );
});

describe('the access of an account to profiles', () => {
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

  it('is that of the role in a workspace, in the region of the workspace alone', () => {
    expect(scopesOf('guest')).toEqual([READ]);
    expect(scopesOf('guest', 'elsewhere')).toBeUndefined();
  });

  it('is nothing for a stranger, and in another organization', () => {
    expect(scopesOf('stranger')).toBeUndefined();
    expect(accountScopes(OWNER, { id: 'another' }, region, undefined, state)).toBeUndefined();
  });

  it('is narrowed by the claims of the token, which raise no role and open no other organization', () => {
    expect(scopesOf(OWNER, region, [READ])).toEqual([READ]);
    expect(scopesOf('member', region, [WRITE])).toEqual([]);
    expect(scopesOf('member', region, [READ, WRITE, DELETE])).toEqual([READ]);
    expect(scopesOf('guest', region, [DELETE, READ])).toEqual([READ]);
    expect(scopesOf(OWNER, region, ['profile.bogus'])).toEqual([]);
    expect(scopesOf('stranger', region, [READ])).toBeUndefined();
  });

  it('ends once the workspace was archived', () => {
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
