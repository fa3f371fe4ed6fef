import { describe, expect, it } from 'vitest';
import type { Fact, Verdict } from '../facts.ts';
import {
  AT,
  apiKey,
  contract,
  destination,
  fact,
  foldAll,
  ORGANIZATION,
  OWNER,
  rule,
  source,
  transformation,
  WORKSPACE,
  workspace,
  writeKey,
} from './catalog.fixture.ts';
import { applyFact, UnknownFact } from './fold.ts';
import type { CatalogState } from './state.ts';

const conflict = (reason: string) => ({ applied: false, conflict: reason });

function fold(...facts: readonly Fact[]): { state: CatalogState; verdicts: readonly Verdict[] } {
  return foldAll([workspace(), ...facts]);
}

describe('an installation', () => {
  const named = (id: string, v: 1 | 2) => ({ ...fact('installation.created', id, {}), v }) as Fact;

  it('that an older release named is upgraded by a second fact with its id, once, and never gets another id', () => {
    const { state, verdicts } = fold(named('i', 1), named('other', 2), named('i', 2), named('i', 2));
    expect(verdicts.slice(2)).toEqual([conflict('taken'), { applied: true, position: 3 }, conflict('taken')]);
    expect([state.installation, state.isUpgraded]).toEqual(['i', true]);
    expect(fold(named('i', 1)).state.isUpgraded).toBe(false);
    expect(fold(named('new', 2), named('i', 1)).state).toMatchObject({
      installation: 'new',
      isUpgraded: true,
    });
  });
});

describe('accounts', () => {
  const created = fact('account.created', OWNER, { id: OWNER, issuer: 'i', subject: 's', email: null });
  const told = (email: string, version?: number) => ({
    ...fact('account.updated', OWNER, { email, email_issued_at: AT }),
    ...(version === undefined ? {} : { expected_version: version }),
  });

  it('are created once, by the first of several gateways', () => {
    const other = { ...created, data: { ...created.data, email: 'b@example.com' } };
    const { state, verdicts } = fold(created, other);
    expect(verdicts.at(-1)).toEqual(conflict('taken'));
    expect(state.account(OWNER)).toMatchObject({ email: null, version: 1 });
  });

  it('keep their id when they get an e-mail address', () => {
    const smuggled = { ...told('a@example.com'), data: { ...told('a@example.com').data, subject: 'root' } };
    const { state, verdicts } = fold(created, smuggled);
    expect(verdicts.at(-1)?.applied).toBe(true);
    expect(state.account(OWNER)).toEqual({
      id: OWNER,
      issuer: 'i',
      subject: 's',
      email: 'a@example.com',
      email_issued_at: AT,
      version: 2,
      created_at: AT,
      updated_at: AT,
    });
  });

  it('are not changed by a fact for an older version, nor before they exist', () => {
    const { state, verdicts } = fold(
      told('x@example.com'),
      created,
      told('a@example.com', 1),
      told('b@example.com', 1),
    );
    expect(verdicts[1]).toEqual(conflict('missing'));
    expect(verdicts.at(-1)).toEqual(conflict('version'));
    expect(state.account(OWNER)?.email).toBe('a@example.com');
  });
});

describe('workspaces', () => {
  it('are refused when taken, or when their organization is missing', () => {
    const elsewhere = fact('workspace.created', 'w9', {
      workspace: { id: 'w9', name: 'w', organization_id: 'nowhere', region: 'eu', status: 'active' },
    });
    expect(fold(workspace(), elsewhere).verdicts.slice(1)).toEqual([conflict('taken'), conflict('missing')]);
  });

  it('give no role in an existing organization', () => {
    const joined = fact('workspace.created', 'w2', {
      workspace: { id: 'w2', name: 'w', organization_id: ORGANIZATION, region: 'eu', status: 'active' },
      owner: { account_id: 'stranger', organization_id: ORGANIZATION, role: 'owner' },
    });
    const { state, verdicts } = fold(joined);
    expect(verdicts[1]?.applied).toBe(true);
    expect(state.organizationRole('stranger', ORGANIZATION)).toBeUndefined();
  });
});

describe('keys', () => {
  it('share no hash, not even with a revoked one', () => {
    const { verdicts } = fold(apiKey('k1', 'h1'), fact('api_key.revoked', 'k1', {}), apiKey('k2', 'h1'));
    expect(verdicts.at(-1)).toEqual(conflict('taken'));
  });
});

describe('sources', () => {
  const deleted = fact('source.deleted', 's1', {});
  const named = writeKey('q1', 'h1', WORKSPACE, 's1');

  it('can be referenced by write keys of their workspace once they exist', () => {
    const { state, verdicts } = fold(named, source('s1'), named);
    expect(verdicts.slice(1).map(({ applied }) => applied)).toEqual([false, true, true]);
    expect(state.keyByHash('h1')?.key).toMatchObject({ id: 'q1', source_id: 's1' });
    const foreign = [workspace('w2', 'o2'), source('s2', 'w2'), writeKey('q1', 'h1', WORKSPACE, 's2')];
    expect(fold(...foreign).verdicts.at(-1)).toEqual(conflict('missing'));
  });

  it('can be deleted, also repeatedly, once that key is revoked, and then cannot be referenced', () => {
    const revoked = fact('write_key.revoked', 'q1', {});
    const late = writeKey('q2', 'h2', WORKSPACE, 's1');
    const { state, verdicts } = fold(source('s1'), named, revoked, deleted, deleted, late);
    expect(verdicts.slice(-3)).toMatchObject([{ applied: true }, { applied: true }, conflict('missing')]);
    expect(state.wasDeleted('source', WORKSPACE, 's1')).toBe(true);
    expect(state.hasKey('h2')).toBe(false);
  });
});

describe('contracts', () => {
  const updated = (data: object, version?: number) => ({
    ...fact('contract.updated', 'c1', data),
    ...(version === undefined ? {} : { expected_version: version }),
  });

  it('release their type and name when archived, and still apply to earlier positions', () => {
    const { state } = fold(contract('c1'), fact('contract.archived', 'c1', {}), contract('c2'));
    const at = (position: number) => state.contractAt(WORKSPACE, 'track', 'order', position)?.id;
    expect([at(1), at(2), at(3), at(4)]).toEqual([undefined, 'c1', undefined, 'c2']);
  });

  it('do not apply once an update has archived them', () => {
    const { state, verdicts } = fold(contract('c1'), updated({ status: 'archived' }), contract('c2'));
    expect(verdicts.at(-1)?.applied).toBe(true);
    expect(state.contractAt(WORKSPACE, 'track', 'order', 3)).toBeUndefined();
  });

  it('release their type and name when they get others', () => {
    const { state } = fold(contract('c1'), updated({ event_name: 'other' }, 1));
    expect(state.contractAt(WORKSPACE, 'track', 'order', 3)).toBeUndefined();
    expect(state.contractAt(WORKSPACE, 'track', 'other', 3)).toMatchObject({ id: 'c1', version: 2 });
    expect(state.contractAt(WORKSPACE, 'track', 'order', 2)).toMatchObject({ id: 'c1', version: 1 });
  });

  it('are kept version by version until they apply to no event', () => {
    const { state } = fold(
      contract('c1'),
      updated({ name: 'a' }),
      updated({ name: 'b' }),
      fact('contract.archived', 'c1', {}),
    );
    const names = () =>
      [1, 2, 3, 4, 5].map((version) => state.contractVersion(WORKSPACE, 'c1', version)?.name);
    expect(names()).toEqual(['c1', 'a', 'b', 'b', undefined]);
    expect([...state.pastContracts(WORKSPACE)].map(({ version }) => version)).toEqual([1, 2, 3]);
    expect(state.contractVersion('another', 'c1', 1)).toBeUndefined();
    state.forgetEras('9999');
    expect(names()).toEqual([undefined, undefined, undefined, 'b', undefined]);
    expect([...state.pastContracts(WORKSPACE)]).toEqual([]);
  });

  it('for the exact name take precedence over those for every name', () => {
    const { state } = fold(contract('c1', ''), contract('c2', 'order'));
    expect(state.contractAt(WORKSPACE, 'track', 'order', 9)?.id).toBe('c2');
    expect(state.contractAt(WORKSPACE, 'track', 'else', 9)?.id).toBe('c1');
    expect(state.contractAt(WORKSPACE, 'page', 'order', 9)).toBeUndefined();
  });
});

describe('rules', () => {
  const parts = [destination('d1'), transformation('t1'), transformation('t2', 'draft')];

  it('reference only entities of the workspace, and no draft while enabled', () => {
    const { verdicts } = fold(
      ...parts,
      rule('r1', 'd1', 't1'),
      rule('r2', 'd9', null),
      rule('r3', 'd1', 't2'),
      rule('r4', 'd1', 't2', false),
      fact('rule.updated', 'r4', { enabled: true }),
    );
    const [first, ...others] = verdicts.slice(4);
    expect(first?.applied).toBe(true);
    expect(others).toEqual([
      conflict('missing'),
      conflict('missing'),
      { applied: true, position: 7 },
      conflict('missing'),
    ]);
  });

  it('keep the entities that they reference while enabled', () => {
    const removals = [
      fact('destination.deleted', 'd1', {}),
      fact('transformation.deleted', 't1', {}),
      fact('transformation.updated', 't1', { status: 'draft' }),
    ];
    const named = fold(...parts, rule('r1', 'd1', 't1'), ...removals).verdicts.slice(5);
    expect(named).toEqual(removals.map(() => conflict('in_use')));
    const disabled = fact('rule.updated', 'r1', { enabled: false });
    const freed = fold(...parts, rule('r1', 'd1', 't1'), disabled, ...removals).verdicts.slice(6);
    expect(freed.map(({ applied }) => applied)).toEqual([true, true, false]);
  });

  it('that are enabled are listed oldest first, also after an update', () => {
    const { state } = fold(
      ...parts,
      rule('r1', 'd1', null),
      rule('r2', 'd1', null),
      fact('rule.updated', 'r1', { name: 'x' }),
    );
    expect(state.enabledRules(WORKSPACE).map(({ id }) => id)).toEqual(['r1', 'r2']);
  });
});

describe('deletes', () => {
  const deleted = (entity: string, version?: number) => ({
    ...fact('destination.deleted', entity, {}),
    ...(version === undefined ? {} : { expected_version: version }),
  });

  it('are refused for an entity of another kind or a missing one', () => {
    const { state, verdicts } = fold(transformation('t1'), deleted('t1'), deleted('nothing'));
    expect(verdicts.slice(2)).toEqual([conflict('missing'), conflict('missing')]);
    expect(state.transformation('t1')?.id).toBe('t1');
  });

  it('do not release the id', () => {
    const { verdicts } = fold(destination('d1'), deleted('d1'), destination('d1'));
    expect(verdicts.at(-1)).toEqual(conflict('taken'));
  });
});

describe('changes', () => {
  it('keep id, workspace, version and creation, with any values in the fact', () => {
    const smuggled = {
      name: 'x',
      id: 'd2',
      workspace_id: 'w2',
      version: 9,
      created_at: '2000-01-01T00:00:00Z',
    };
    const { state } = fold(destination('d1'), fact('destination.updated', 'd1', smuggled));
    expect(state.entity('destination', WORKSPACE, 'd1')).toMatchObject({
      id: 'd1',
      name: 'x',
      workspace_id: WORKSPACE,
      version: 2,
      created_at: AT,
    });
  });

  it('apply to the entity that the fact names, also at creation', () => {
    const { state } = fold({ ...destination('d1'), entity: 'd7' } as Fact);
    expect(state.destination('d7')?.id).toBe('d7');
    expect(state.destination('d1')).toBeUndefined();
  });
});

describe('facts of a later release', () => {
  it.each([
    ['type', { ...destination('d1'), type: 'destination.painted' }],
    ['version', { ...destination('d1'), v: 2 }],
  ])('are never ignored if their %s is unknown', (_, later) => {
    const state = foldAll([workspace()]).state;
    expect(() => applyFact(state, later as unknown as Fact, 1)).toThrow(UnknownFact);
  });
});
