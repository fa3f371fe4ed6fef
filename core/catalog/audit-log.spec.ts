import { describe, expect, it } from 'vitest';
import { isUuid } from '../primitives/ids.ts';
import { applyWithAudit } from './audit-log.ts';
import type { Fact } from './facts.ts';
import {
  AT,
  account as accountOf,
  apiKey,
  clientKey,
  contract,
  destination,
  fact,
  ORGANIZATION,
  OWNER,
  organizationMember,
  rule,
  turned,
  WORKSPACE,
  workspace,
  workspaceMember,
  writeKey,
} from './fold/catalog.fixture.ts';
import { CatalogState } from './fold/state.ts';

const account = fact('account.created', OWNER, {
  id: OWNER,
  issuer: 'i',
  subject: 's',
  email: 'owner@example.com',
});

/** The audit log entries of each fact, in the order of the facts. */
function told(...facts: readonly Fact[]) {
  const state = new CatalogState();
  return facts.map((each, position) => applyWithAudit(state, each, position));
}

const last = (...facts: readonly Fact[]) => told(account, workspace(), ...facts).at(-1) ?? [];

describe('an applied fact', () => {
  it('by an API key or a stage names it', () => {
    const by = (author: string) => ({ ...fact('destination.updated', 'd1', { name: 'x' }), by: author });
    const actor = (author: string) =>
      last(apiKey('k1', 'h1'), destination('d1'), by(author)).map((entry) => entry.actor);
    const nobody = { email: null, key_prefix: null };
    expect(actor('key:k1')).toEqual([{ ...nobody, type: 'api_key', id: 'k1', key_prefix: 'trb_api_abc' }]);
    expect(actor('stage:route')).toEqual([{ ...nobody, type: 'stage', id: 'route' }]);
    expect(actor('operator:secrets')).toEqual([{ ...nobody, type: 'operator', id: 'secrets' }]);
    expect(actor('stranger')).toEqual([{ ...nobody, type: 'account', id: 'stranger' }]);
  });

  it('about a workspace is also in the log of its organization, each under its own id', () => {
    const entries = told(account, workspace())[1] ?? [];
    expect(entries.map((entry) => entry.scope_id)).toEqual([WORKSPACE, ORGANIZATION]);
    expect(new Set(entries.map((entry) => entry.id)).size).toBe(2);
  });
});

describe('a first sign-in', () => {
  const invited = [organizationMember('m1', 'new@example.com'), workspaceMember('m2', 'new@example.com')];
  const signIn = { ...accountOf('a9', 'new@example.com'), by: 'a9' };

  it('is listed in the log of every organization and workspace that invited the person, with the person as actor', () => {
    const entries = last(...invited, signIn);
    const common = {
      action: 'joined',
      at: AT,
      actor: { type: 'account', id: 'a9', email: 'new@example.com', key_prefix: null },
      address: '127.0.0.1',
    };
    expect(entries).toMatchObject([
      {
        ...common,
        scope_id: ORGANIZATION,
        entity: { type: 'organization_member', id: 'm1' },
        before: { account_id: null, version: 1 },
        after: { account_id: 'a9', version: 2 },
      },
      { ...common, scope_id: WORKSPACE, entity: { type: 'workspace_member', id: 'm2' } },
    ]);
    expect(last(...invited, signIn)).toEqual(entries);
  });

  it('of a person who was invited twice lists the removed membership and the updated one', () => {
    const entries = last(
      accountOf('a9', 'old@example.com'),
      workspaceMember('m1', 'old@example.com', 'viewer'),
      workspaceMember('m2', 'new@example.com', 'admin'),
      fact('account.updated', 'a9', { email: 'new@example.com', email_issued_at: AT }),
    );
    expect(entries).toMatchObject([
      { action: 'removed', entity: { id: 'm2' }, before: { role: 'admin' }, after: null },
      { action: 'updated', entity: { id: 'm1' }, before: { role: 'viewer' }, after: { role: 'admin' } },
    ]);
    expect(new Set(entries.map(({ id }) => id)).size).toBe(2);
  });

  it('without an invitation, or after an earlier one, is not listed', () => {
    expect(last(...invited, accountOf('a9', 'other@example.com'))).toEqual([]);
    expect(last(...invited, accountOf('a9', null))).toEqual([]);
    expect(last(...invited, signIn, accountOf('a10', 'new@example.com'))).toEqual([]);
    expect(last(...invited, signIn, signIn)).toEqual([]);
  });
});

describe('the removal of a member', () => {
  const left = {
    ...fact('organization_member.removed', 'm1', {}),
    v: 2,
    data: { keys: 'revoke' },
  } as Fact;
  const made = { created_by: 'a9' };
  const history = [
    accountOf('a9', 'new@example.com'),
    organizationMember('m1', 'new@example.com', 'admin'),
    keyOf(apiKey('k1', 'h1'), made),
    keyOf(clientKey('c1', 'h2'), made),
    keyOf(writeKey('q1', 'h3'), made),
    apiKey('k2', 'h4'),
  ];

  it('is listed with every key that it revoked, each in the log of its scope', () => {
    const entries = last(...history, left);
    expect(entries.map(({ scope_id, action, entity }) => [scope_id, action, entity.type, entity.id])).toEqual(
      [
        [ORGANIZATION, 'removed', 'organization_member', 'm1'],
        [WORKSPACE, 'revoked', 'api_key', 'k1'],
        [ORGANIZATION, 'revoked', 'client_key', 'c1'],
      ],
    );
    expect(entries[1]).toMatchObject({
      actor: { type: 'account', id: OWNER },
      before: { status: 'active', version: 1 },
      after: { status: 'revoked', version: 2, hash: '***' },
    });
    expect(new Set(entries.map(({ id }) => id)).size).toBe(3);
    expect(last(...history, left)).toEqual(entries);
  });
});

function keyOf(made: Fact, fields: object): Fact {
  return { ...made, data: { ...made.data, ...fields } } as Fact;
}

it('a refused fact has no entry', () => {
  expect(last(contract('c1'), contract('c2'))).toEqual([]);
  expect(last(rule('r1', 'nowhere', null))).toEqual([]);
});

it('every replay has the same entries', () => {
  const facts = [account, workspace(), contract('c1'), fact('contract.archived', 'c1', {})];
  expect(told(...(JSON.parse(JSON.stringify(facts)) as Fact[]))).toEqual(told(...facts));
  expect(new Set(told(...facts).flatMap((entries) => entries.map(({ id }) => id))).size).toBe(4);
});

it('entries of one millisecond have ordered ids, and those of a rewritten catalog have other ids', () => {
  const facts = [account, workspace(), ...Array.from({ length: 20 }, (_, n) => destination(`d${n}`))];
  const ids = told(...facts).flatMap((entries) => entries.slice(0, 1).map(({ id }) => id));
  expect(ids.toSorted()).toEqual(ids);
  expect(ids.every(isUuid)).toBe(true);
  const anew = facts.map((each) => ({ ...each, at: '2027-01-01T00:00:00.000Z' }));
  const others = told(...anew).flatMap((entries) => entries.map(({ id }) => id));
  expect(others.filter((id) => ids.includes(id))).toEqual([]);
});

it('an unknown fact throws instead of being omitted', () => {
  const unknown = { ...workspace(), type: 'workspace.painted' } as unknown as Fact;
  expect(() => told(unknown)).toThrow('does not know');
});

it('no entry has the hash of a key', () => {
  const entries = last(apiKey('k1', 'a-secret-hash'));
  expect(entries).toMatchObject([{ after: { hash: '***', key_prefix: 'trb_api_abc' } }]);
  expect(JSON.stringify(entries)).not.toContain('a-secret-hash');
});

it('a change of a destination’s health is listed with the stage that found it', () => {
  expect(told(account, workspace(), destination('d1'), turned('d1', 0, 't1')).at(-1)).toMatchObject([
    {
      action: 'turned',
      actor: { type: 'stage', id: 'deliver' },
      entity: { type: 'destination', id: 'd1' },
      after: { condition: { state: 'bad', because: 'failing' } },
    },
  ]);
});
