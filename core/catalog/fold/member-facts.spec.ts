import { describe, expect, it } from 'vitest';
import { nameId } from '../../primitives/ids.ts';
import type { Fact, FactData } from '../facts.ts';
import {
  account,
  fact,
  foldAll,
  ORGANIZATION,
  OWNER,
  organization,
  organizationMember,
  WORKSPACE,
  workspace,
  workspaceMember,
} from './catalog.fixture.ts';

const ANN = 'ann@example.com';
const conflict = (reason: string) => ({ applied: false, conflict: reason });
const fold = (...facts: readonly Fact[]) => foldAll([workspace(), ...facts]);

const removed = (entity: string, version?: number): Fact => ({
  ...fact('organization_member.removed', entity, {}),
  ...(version === undefined ? {} : { expected_version: version }),
});
const becomes = (
  entity: string,
  role: FactData['organization_member.updated']['role'],
  version?: number,
) => ({
  ...fact('organization_member.updated', entity, { role }),
  ...(version === undefined ? {} : { expected_version: version }),
});
const OWNERS_MEMBER_ID = nameId('member', ORGANIZATION, OWNER);

describe('a member', () => {
  it('is at once the account that has the address', () => {
    const { state } = fold(account('ann', ANN), organizationMember('m1', ANN, 'admin'));
    expect(state.organizationMembers.get(ORGANIZATION, 'm1')).toMatchObject({
      account_id: 'ann',
      version: 1,
    });
    expect(state.organizationRole('ann', ORGANIZATION)).toBe('admin');
    expect(state.workspaceRole('ann', WORKSPACE)).toBe('admin');
    expect([...state.organizationListing('ann').newestFirst()].map(({ id }) => id)).toEqual([ORGANIZATION]);
  });

  it('waits for an account with the address, in any number of organizations and workspaces', () => {
    const { state } = fold(
      organization('o2'),
      organizationMember('m1', ANN),
      organizationMember('m2', ANN, 'admin', 'o2'),
      workspaceMember('m3', ANN, 'editor'),
      account('bea', 'bea@example.com'),
      account('ann', ANN),
    );
    expect(state.organizationRole('bea', ORGANIZATION)).toBeUndefined();
    expect(state.organizationRole('ann', ORGANIZATION)).toBe('member');
    expect(state.organizationRole('ann', 'o2')).toBe('admin');
    expect(state.workspaceRole('ann', WORKSPACE)).toBe('editor');
    expect(state.organizationMembers.get(ORGANIZATION, 'm1')).toMatchObject({
      account_id: 'ann',
      version: 2,
    });
  });

  it('is one membership when added a second time, before and after the first sign-in', () => {
    const again = organizationMember('m2', ANN, 'owner');
    expect(fold(organizationMember('m1', ANN), again).verdicts.at(-1)).toEqual(conflict('taken'));
    const { state, verdicts } = fold(organizationMember('m1', ANN), account('ann', ANN), again);
    expect(verdicts.at(-1)).toEqual(conflict('taken'));
    expect(state.organizationMembers.list(ORGANIZATION)).toHaveLength(2);
    expect(state.organizationRole('ann', ORGANIZATION)).toBe('member');
  });

  it('that was invited under two addresses is one, with the greater role', () => {
    const { state } = fold(
      account('ann', 'ann@work.example'),
      organizationMember('m1', 'ann@work.example', 'member'),
      organizationMember('m2', ANN, 'admin'),
    );
    const known = state.account('ann');
    if (known === undefined) throw new Error('no account');
    state.putAccount({ ...known, email: ANN, version: 2 });
    expect(state.organizationMembers.list(ORGANIZATION).map(({ id }) => id)).toEqual([
      'm1',
      OWNERS_MEMBER_ID,
    ]);
    expect(state.organizationMembers.get(ORGANIZATION, 'm1')).toMatchObject({ role: 'admin', version: 2 });
    expect(state.organizationMembers.wasRemoved(ORGANIZATION, 'm2')).toBe(true);
  });

  it('needs an organization, or a workspace that is not archived', () => {
    const nowhere = organizationMember('m1', ANN, 'member', 'o9');
    const archived = fact('workspace.archived', WORKSPACE, {});
    const { verdicts } = fold(nowhere, archived, workspaceMember('m2', ANN));
    expect([verdicts[1], verdicts[3]]).toEqual([conflict('missing'), conflict('missing')]);
  });

  it('is changed only with the number of its current version', () => {
    const added = organizationMember('m1', ANN);
    expect(fold(added, becomes('m1', 'admin', 1), becomes('m1', 'member', 1)).verdicts.slice(2)).toEqual([
      { applied: true, position: 2 },
      conflict('version'),
    ]);
    expect(fold(added, removed('m1', 7)).verdicts.at(-1)).toEqual(conflict('version'));
    expect(fold(added, becomes('m9', 'admin'), removed('m9')).verdicts.slice(2)).toEqual([
      conflict('missing'),
      conflict('missing'),
    ]);
  });

  it('can be removed twice, and added again under another id', () => {
    const { state, verdicts } = fold(
      account('ann', ANN),
      organizationMember('m1', ANN),
      removed('m1'),
      removed('m1'),
      organizationMember('m1', ANN),
      organizationMember('m2', ANN, 'admin'),
    );
    expect(verdicts.map(({ applied }) => applied)).toEqual([true, true, true, true, true, false, true]);
    expect(state.organizationRole('ann', ORGANIZATION)).toBe('admin');
    expect(state.organizationMembers.scopeOf('m1')).toBe(ORGANIZATION);
  });

  it('whose invitation was withdrawn gets nothing at sign-in', () => {
    const { state } = fold(organizationMember('m1', ANN), removed('m1'), account('ann', ANN));
    expect(state.organizationRole('ann', ORGANIZATION)).toBeUndefined();
  });
});

describe('a member leaving an organization', () => {
  const inBoth = [organizationMember('m1', ANN), workspaceMember('m2', ANN, 'admin')];

  it('leaves its workspaces', () => {
    const { state } = fold(account('ann', ANN), ...inBoth, removed('m1'));
    expect(state.workspaceRole('ann', WORKSPACE)).toBeUndefined();
    expect([...state.workspaceListing('ann').newestFirst()]).toEqual([]);
    expect(state.workspaceMembers.wasRemoved(WORKSPACE, 'm2')).toBe(true);
  });
});

describe('a plain member of an organization', () => {
  it('sees the workspaces they were added to and no others', () => {
    const { state } = fold(
      account('ann', ANN),
      organizationMember('m1', ANN),
      fact('workspace.created', 'w2', {
        workspace: { id: 'w2', name: 'w2', organization_id: ORGANIZATION, region: 'eu', status: 'active' },
      }),
      workspaceMember('m2', ANN, 'viewer', 'w2'),
    );
    expect([...state.workspaceListing('ann').newestFirst()].map(({ id }) => id)).toEqual(['w2']);
    expect(state.workspaceRole('ann', WORKSPACE)).toBeUndefined();
    expect(state.workspaceRole('ann', 'w2')).toBe('viewer');
  });
});

describe('the last owner', () => {
  const second = [account('ann', ANN), organizationMember('m1', ANN, 'owner')];

  it('neither leaves nor becomes less', () => {
    const { verdicts } = fold(removed(OWNERS_MEMBER_ID), becomes(OWNERS_MEMBER_ID, 'admin'));
    expect(verdicts.slice(1)).toEqual([conflict('last_owner'), conflict('last_owner')]);
  });

  it('may leave once there is another, and then the other may not: also when both go at once', () => {
    const both = [removed(OWNERS_MEMBER_ID, 1), removed('m1', 1)];
    expect(fold(...second, ...both).verdicts.slice(3)).toEqual([
      { applied: true, position: 3 },
      conflict('last_owner'),
    ]);
    const demotions = [becomes('m1', 'member', 1), becomes(OWNERS_MEMBER_ID, 'admin', 1)];
    expect(fold(...second, ...demotions).verdicts.slice(3)).toEqual([
      { applied: true, position: 3 },
      conflict('last_owner'),
    ]);
  });

  it('is not relieved by an owner who has not signed in yet', () => {
    const { verdicts } = fold(organizationMember('m1', ANN, 'owner'), removed(OWNERS_MEMBER_ID));
    expect(verdicts.at(-1)).toEqual(conflict('last_owner'));
  });
});
