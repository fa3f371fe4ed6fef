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
