import { describe, expect, it } from 'vitest';
import type { Fact } from '../facts.ts';
import {
  apiKey,
  clientKey,
  fact,
  foldAll,
  ORGANIZATION,
  OWNER,
  organization,
  workspace,
} from './catalog.fixture.ts';

const conflict = (reason: string) => ({ applied: false, conflict: reason });
const regions = (...words: readonly string[]) =>
  fact('organization.updated', ORGANIZATION, { name: 'O', regions: words, notification_email: null });

function workspaceIn(region: string, id = 'w2'): Fact {
  const fields = { id, name: id, organization_id: ORGANIZATION, region, status: 'active' } as const;
  return fact('workspace.created', id, { workspace: fields });
}

describe('an organization', () => {
  it('has a number of its own and its maker as owner, with a workspace or without', () => {
    const { state } = foldAll([workspace(), organization('o2', 'ann'), organization('o3')]);
    const numbers = [ORGANIZATION, 'o2', 'o3'].map((id) => state.organization(id)?.org_id);
    expect(numbers).toEqual([1, 2, 3]);
    expect(state.organizationRole('ann', 'o2')).toBe('owner');
    expect(state.organizationRole(OWNER, 'o2')).toBeUndefined();
    expect(state.organizationMembers.list('o2')).toMatchObject([{ account_id: 'ann', email: null }]);
  });

  it('keeps its number and its id through a change, and refuses a change with an older version', () => {
    const changed = { ...regions('eu', 'us'), expected_version: 1 };
    const { state, verdicts } = foldAll([workspace(), changed, changed]);
    expect(verdicts.slice(1)).toEqual([{ applied: true, position: 1 }, conflict('version')]);
    expect(state.organization(ORGANIZATION)).toMatchObject({ id: ORGANIZATION, org_id: 1, version: 2 });
    const missing = { ...changed, entity: 'o9' };
    expect(foldAll([missing]).verdicts).toEqual([conflict('missing')]);
  });
});

describe('a workspace', () => {
  const moved = (region: string) => fact('workspace.updated', 'w1', { name: 'moved', region });
  const archived = fact('workspace.archived', 'w1', {});

  it('is in a region of its organization, also when that changed meanwhile', () => {
    expect(foldAll([workspace(), workspaceIn('us')]).verdicts.at(-1)).toEqual(conflict('missing'));
    expect(foldAll([workspace(), moved('us')]).verdicts.at(-1)).toEqual(conflict('missing'));
    const { state } = foldAll([workspace(), regions('eu', 'us'), moved('us')]);
    expect(state.workspace('w1')).toMatchObject({
      region: 'us',
      name: 'moved',
      version: 2,
      status: 'active',
    });
  });

  it('is changed at the version that was seen', () => {
    const stale = { ...moved('eu'), expected_version: 2 };
    expect(foldAll([workspace(), stale]).verdicts.at(-1)).toEqual(conflict('version'));
    expect(foldAll([stale]).verdicts).toEqual([conflict('missing')]);
  });

  it('is archived for good: nothing is added to it or changed in it, and again changes nothing', () => {
    const late = { ...archived, expected_version: 1 };
    const { state, verdicts } = foldAll([workspace(), archived, late, moved('eu'), apiKey('k1', 'h1')]);
    expect(verdicts.slice(1)).toEqual([
      { applied: true, position: 1 },
      { applied: true, position: 2 },
      conflict('missing'),
      conflict('missing'),
    ]);
    expect(state.workspace('w1')).toMatchObject({ status: 'archived', version: 2 });
  });
});

describe('a client key', () => {
  const revoked = fact('client_key.revoked', 'k1', {});

  it('shares no hash with any other key, and needs its organization', () => {
    const other = [workspace(), clientKey('k1', 'h1'), apiKey('k2', 'h1'), clientKey('k3', 'h1')];
    expect(foldAll(other).verdicts.slice(2)).toEqual([conflict('taken'), conflict('taken')]);
    const api = [
      workspace(),
      apiKey('k1', 'h1'),
      clientKey('k2', 'h1'),
      clientKey('k3', 'h3', 'o9'),
      revoked,
    ];
    expect(foldAll(api).verdicts.slice(2)).toEqual([
      conflict('taken'),
      conflict('missing'),
      conflict('missing'),
    ]);
  });
});
