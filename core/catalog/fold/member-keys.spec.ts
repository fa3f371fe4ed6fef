import { describe, expect, it } from 'vitest';
import type { OrganizationRole, WorkspaceRole } from '../../access/roles.ts';
import type { Fact, KeysDecision } from '../facts.ts';
import { RowsReader, rowsOf } from '../rows.ts';
import {
  account,
  apiKey,
  clientKey,
  fact,
  foldAll,
  ORGANIZATION,
  organizationMember,
  WORKSPACE,
  workspace,
  workspaceMember,
  writeKey,
} from './catalog.fixture.ts';
import { applyFact } from './fold.ts';
import { keysCreatedBy } from './member-facts.ts';

const ADA = 'ada';
const EMAIL = 'ada@example.com';

const by = (made: Fact, fields: object): Fact =>
  ({ ...made, data: { ...made.data, created_by: ADA, ...fields } }) as Fact;

/** A key of each kind that Ada made: API keys of each role, a client key, a write key; and an API key of the owner. */
const KEYS: readonly Fact[] = [
  by(apiKey('admin', 'h1'), { role: 'admin' }),
  by(apiKey('editor', 'h2'), { role: 'editor' }),
  by(apiKey('viewer', 'h3'), { role: 'viewer' }),
  by(clientKey('client', 'h4'), {}),
  by(writeKey('write', 'h5'), {}),
  { ...apiKey('other', 'h6') },
];

const ada = account(ADA, EMAIL);
const inOrganization = (role: OrganizationRole) => organizationMember('om', EMAIL, role);
const inWorkspace = (role: WorkspaceRole) => workspaceMember('wm', EMAIL, role);

type About = 'organization_member' | 'workspace_member';
const ids = { organization_member: 'om', workspace_member: 'wm' } as const;
const removed = (about: About, keys: KeysDecision['keys'] = 'revoke') =>
  ({ ...fact(`${about}.removed`, ids[about], {}), v: 2, data: { keys } }) as Fact;
const changed = (about: About, role: string, keys: KeysDecision['keys'] = 'revoke') =>
  ({
    ...fact(`${about}.removed`, ids[about], {}),
    type: `${about}.updated`,
    v: 2,
    data: { role, keys },
  }) as Fact;

/** The keys that are active after the facts. */
function activeAfter(...facts: readonly Fact[]): readonly string[] {
  const { state, verdicts } = foldAll([workspace(), ada, ...facts]);
  expect(verdicts.filter(({ applied }) => !applied)).toEqual([]);
  const all = [
    ...state.entities('api_key', WORKSPACE),
    ...state.entities('write_key', WORKSPACE),
    ...state.clientKeys.list(ORGANIZATION),
  ];
  for (const key of all) expect(state.keyByHash(key.hash)?.key).toBe(key);
  return all.filter(({ status }) => status === 'active').map(({ id }) => id);
}

const EVERY = ['other', 'viewer', 'editor', 'admin', 'write', 'client'];
const without = (...gone: readonly string[]) => EVERY.filter((id) => !gone.includes(id));

describe('the keys of a member', () => {
  it('are revoked with the membership in the organization, except write keys', () => {
    const left = without('admin', 'editor', 'viewer', 'client');
    for (const role of ['owner', 'admin'] as const)
      expect(activeAfter(inOrganization(role), ...KEYS, removed('organization_member'))).toEqual(left);
  });

  it('are revoked with the membership in a workspace, except client keys, which belong to the organization', () => {
    expect(activeAfter(inWorkspace('admin'), ...KEYS, removed('workspace_member'))).toEqual(
      without('admin', 'editor', 'viewer'),
    );
  });

  it('are kept by a member who leaves a workspace as an admin of its organization', () => {
    const both = [inOrganization('admin'), inWorkspace('admin')];
    expect(activeAfter(...both, ...KEYS, removed('workspace_member'))).toEqual(EVERY);
  });

  it.each([
    ['workspace_member', 'editor', ['admin']],
    ['workspace_member', 'viewer', ['admin', 'editor']],
    ['workspace_member', 'admin', []],
  ] as const)('of a %s made %s are revoked where they outrank the new role', (about, role, gone) => {
    expect(activeAfter(inWorkspace('admin'), ...KEYS, changed(about, role))).toEqual(without(...gone));
  });

  it('of an admin made a plain member are revoked unless a role in a workspace covers them', () => {
    const demoted = changed('organization_member', 'member');
    expect(activeAfter(inOrganization('admin'), ...KEYS, demoted)).toEqual(
      without('admin', 'editor', 'viewer', 'client'),
    );
    expect(activeAfter(inOrganization('admin'), inWorkspace('editor'), ...KEYS, demoted)).toEqual(
      without('admin', 'client'),
    );
    const admin = changed('organization_member', 'admin');
    expect(activeAfter(inOrganization('owner'), ...KEYS, admin)).toEqual(EVERY);
  });

  it('are kept if the fact decides it, also through a later promotion, and end with the membership', () => {
    const kept = [inWorkspace('admin'), ...KEYS, changed('workspace_member', 'viewer', 'keep')];
    expect(activeAfter(...kept)).toEqual(EVERY);
    expect(activeAfter(...kept, changed('workspace_member', 'editor'))).toEqual(EVERY);
    expect(activeAfter(...kept, removed('workspace_member', 'keep'))).toEqual(EVERY);
    expect(activeAfter(...kept, removed('workspace_member'))).toEqual(without('admin', 'editor', 'viewer'));
  });

  it('are kept by facts of version 1, which have no decision', () => {
    const old = fact('organization_member.removed', 'om', {});
    expect(activeAfter(inOrganization('admin'), ...KEYS, old)).toEqual(EVERY);
    const demotion = fact('workspace_member.updated', 'wm', { role: 'viewer' });
    expect(activeAfter(inWorkspace('admin'), ...KEYS, demotion)).toEqual(EVERY);
  });

  it('are kept if the removal is refused', () => {
    const stale = { ...removed('organization_member'), expected_version: 7 } as Fact;
    const { state, verdicts } = foldAll([workspace(), ada, inOrganization('admin'), ...KEYS, stale]);
    expect(verdicts.at(-1)).toEqual({ applied: false, conflict: 'version' });
    const made = keysCreatedBy(state, { accountId: ADA, organizationId: ORGANIZATION });
    expect(made.map(({ key }) => key.status)).toEqual(Array.from({ length: 5 }, () => 'active'));
  });

  it('are also revoked in a state restored from rows', () => {
    const { state } = foldAll([workspace(), ada, inOrganization('admin'), ...KEYS]);
    const reader = new RowsReader();
    for (const row of rowsOf(state)) reader.add(row);
    for (const each of [state, reader.state]) applyFact(each, removed('organization_member'), 99);
    expect(rowsOf(reader.state)).toEqual(rowsOf(state));
    expect(reader.state.keyByHash('h1')?.key.status).toBe('revoked');
  });
});

describe('a key of version 2', () => {
  const late = (made: Fact, author = ADA): Fact => ({ ...by(made, {}), v: 2, by: author }) as Fact;
  const verdictOf = (...facts: readonly Fact[]) => foldAll([workspace(), ada, ...facts]).verdicts.at(-1);
  const REFUSED = { applied: false, conflict: 'missing' };

  it('is created only by an admin as of its position, so that two gateways cannot disagree', () => {
    for (const made of [late(apiKey('k', 'h')), late(clientKey('k', 'h'))]) {
      expect(verdictOf(inOrganization('admin'), made)).toMatchObject({ applied: true });
      expect(verdictOf(inOrganization('admin'), removed('organization_member'), made)).toEqual(REFUSED);
      expect(verdictOf(inOrganization('admin'), changed('organization_member', 'member'), made)).toEqual(
        REFUSED,
      );
      expect(verdictOf(made)).toEqual(REFUSED);
    }
    expect(verdictOf(inWorkspace('admin'), late(apiKey('k', 'h')))).toMatchObject({ applied: true });
    expect(verdictOf(inWorkspace('editor'), late(apiKey('k', 'h')))).toEqual(REFUSED);
    expect(verdictOf(inWorkspace('admin'), late(clientKey('k', 'h')))).toEqual(REFUSED);
  });

  it('is not created by a key that is revoked or of another workspace', () => {
    const maker = by(apiKey('maker', 'm'), { role: 'admin', may_manage: ['keys'] });
    const made = late(apiKey('k', 'h'), 'key:maker');
    expect(verdictOf(inWorkspace('admin'), maker, made)).toMatchObject({ applied: true });
    expect(verdictOf(inWorkspace('admin'), maker, removed('workspace_member'), made)).toEqual(REFUSED);
    const elsewhere = by(apiKey('maker', 'm', 'w2'), { role: 'admin' });
    expect(verdictOf(workspace('w2', 'o2'), elsewhere, made)).toEqual(REFUSED);
  });
});

it('version 2 is known only for these types of facts', () => {
  const unknown = { ...apiKey('k', 'h'), type: 'api_key.revoked', v: 2, data: {} } as unknown as Fact;
  expect(() => foldAll([workspace(), unknown])).toThrow('does not know');
  expect(() => foldAll([workspace(), { ...removed('workspace_member'), v: 3 } as unknown as Fact])).toThrow(
    'does not know',
  );
});
