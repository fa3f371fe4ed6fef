import { randomBytes } from 'node:crypto';
import {
  applyFact,
  type Catalog,
  CatalogState,
  type Fact,
  hashKey,
  NO_LOGGER,
  QUOTAS,
  Unavailable,
} from '@tributary/core';
import { ChangeLimits } from '@tributary/gateway';
import { expect, it } from 'vitest';
import { startDeadline } from '../runtime/process/await-engines.ts';
import { type AdminDependencies, addMember, createKey, initialize, organizationsOf } from './admin.ts';

const WANTED = { organization: 'Acme', workspace: 'Shop', region: 'eu', email: 'ada@example.com' } as const;
const AT = '2026-11-26T00:00:00.000Z';

/** A catalog whose log appends each fact and confirms it only the second time. */
function unconfirming(isSilent = true): AdminDependencies & { readonly facts: readonly Fact[] } {
  const state = new CatalogState();
  const facts: Fact[] = [];
  const silent = new Set<string>();
  const propose = async (fact: Fact) => {
    const verdict = applyFact(state, fact, facts.push(fact) - 1);
    const name = `${fact.type} ${fact.entity}`;
    if (isSilent && !silent.has(name)) {
      silent.add(name);
      throw new Unavailable('the append of a fact took more than 10000 ms');
    }
    return verdict;
  };
  const origin = { by: 'operator:start', from: { address: '', request_id: '' }, at: AT } as const;
  applyFact(state, { v: 1, type: 'installation.created', entity: 'i', data: {}, ...origin }, 0);
  const quotas = Object.fromEntries(Object.entries(QUOTAS).map(([name, { fallback }]) => [name, fallback]));
  return {
    facts,
    catalog: { state, propose } as unknown as Catalog,
    changeLimits: new ChangeLimits({ quotas: quotas as never, elapsed: () => 0 }),
    clock: () => Date.parse(AT),
    random: (bytes) => randomBytes(bytes),
    deadline: startDeadline(60_000, NO_LOGGER),
  };
}

it('a change that the log did not confirm in time was lost with its key: it is proposed again, and the key is shown', async () => {
  const dependencies = unconfirming();
  const { organization, workspace, owner, key } = await initialize(WANTED, dependencies);
  const { state } = dependencies.catalog;
  expect(organizationsOf(state)).toEqual([organization.is]);
  expect(state.workspacesIn(organization.is.id).size).toBe(1);
  expect(owner?.is).toMatchObject({ email: 'ada@example.com', role: 'owner', account_id: null });
  expect(state.organizationMembers.list(organization.is.id)).toHaveLength(1);
  expect(hashKey(key.raw ?? '')).toBe(key.is.hash);
  expect(state.entities('api_key', workspace.is.id)).toEqual([key.is]);
});

it('every fact has the operator as its author', async () => {
  const dependencies = unconfirming(false);
  await initialize(WANTED, dependencies);
  await addMember({ organization: undefined, email: 'bob@example.com', role: 'member' }, dependencies);
  const wanted = { workspace: undefined, name: 'export', role: 'viewer', grants: [], replace: true } as const;
  await createKey(wanted, dependencies);
  await createKey(wanted, dependencies);
  expect(dependencies.facts.map(({ type }) => type)).toEqual([
    'workspace.created',
    'organization_member.added',
    'api_key.created',
    'organization_member.added',
    'api_key.created',
    'api_key.created',
    'api_key.revoked',
  ]);
  for (const { by } of dependencies.facts) expect(by).toBe('operator:admin');
});

it('an init of an installation whose organization was created by the API creates nothing', async () => {
  const dependencies = unconfirming(false);
  const other = { id: 'o', name: 'Other', regions: ['eu'], notification_email: null };
  const owner = { account_id: 'a', organization_id: 'o', role: 'owner' } as const;
  await dependencies.catalog.propose({
    v: 1,
    type: 'organization.created',
    entity: 'o',
    data: { organization: other, owner },
    by: 'a',
    from: { address: '', request_id: '' },
    at: AT,
  });
  await expect(initialize(WANTED, dependencies)).rejects.toThrow(/nothing was created.*"Other" \(o\)/);
  expect(dependencies.facts).toHaveLength(1);
});
