import { afterEach, expect, it, vi } from 'vitest';
import type { Fact } from '../facts.ts';
import {
  account,
  apiKey,
  clientKey,
  contract,
  destination,
  fact,
  ORGANIZATION,
  organizationMember,
  rule,
  source,
  transformation,
  WORKSPACE,
  workspace,
  workspaceMember,
  writeKey,
} from './catalog.fixture.ts';
import { applyFact } from './fold.ts';
import { CatalogState } from './state.ts';

afterEach(() => vi.restoreAllMocks());

/** A catalog with the same in every workspace. */
function catalogOf(workspaces: number): CatalogState {
  const state = new CatalogState();
  let position = 0;
  const add = (fact: Fact) => {
    if (!applyFact(state, fact, position++).applied) throw new Error(`${fact.type} was refused`);
  };
  for (let w = 0; w < workspaces; w++) {
    const id = `w${w}`;
    add(workspace(id, `o${w}`));
    for (let n = 0; n < 5; n++) add(writeKey(`k${w}-${n}`, `h${w}-${n}`, id));
    for (let n = 0; n < 3; n++) add(contract(`c${w}-${n}`, `event ${n}`, id));
    add(destination(`d${w}`, id));
    for (let n = 0; n < 2; n++) add(rule(`r${w}-${n}`, `d${w}`, null, true, id));
  }
  return state;
}

/** The number of map steps of an event's lookups. Counted, not timed, so other load has no effect. */
function stepsOf(state: CatalogState, w: number): number {
  const lookUp = () => [
    state.keyByHash(`h${w}-4`)?.key.id,
    state.contractAt(`w${w}`, 'track', 'event 2', 1_000_000)?.id,
    state.enabledRules(`w${w}`).length,
    state.workspaceRole('a1', `w${w}`),
    state.destination(`d${w}`)?.id,
    state.organizationByOrgId(w + 1)?.id,
  ];
  expect(lookUp()).toEqual([`k${w}-4`, `c${w}-2`, 2, 'admin', `d${w}`, `o${w}`]);
  let steps = 0;
  for (const method of ['get', 'has'] as const) {
    const original = Map.prototype[method];
    vi.spyOn(Map.prototype, method).mockImplementation(function (this: Map<unknown, unknown>, key: unknown) {
      steps++;
      return Reflect.apply(original, this, [key]) as never;
    });
  }
  for (const method of ['values', 'keys', 'entries', 'forEach', Symbol.iterator] as const)
    vi.spyOn(Map.prototype, method).mockImplementation(() => {
      throw new Error('a look-up went through a whole map');
    });
  lookUp();
  vi.restoreAllMocks();
  return steps;
}

it('a look-up for an event takes as many steps with a thousand workspaces as with two', () => {
  const steps = stepsOf(catalogOf(2), 1);
  expect(steps).toBeGreaterThan(0);
  const large = catalogOf(1_000);
  for (const w of [0, 500, 999]) expect(stepsOf(large, w)).toBe(steps);
});

it('applying a fact about an entity does not iterate over the entities of its workspace', () => {
  const state = new CatalogState();
  let position = 0;
  const add = (fact: Fact) => {
    if (!applyFact(state, fact, position++).applied) throw new Error(`${fact.type} was refused`);
  };
  add(workspace());
  add(account('a1', 'a1@example.com'));
  for (let n = 0; n < 400; n++) {
    add(source(`s${n}`));
    add(apiKey(`a${n}`, `ha${n}`));
    add(writeKey(`k${n}`, `hk${n}`, WORKSPACE, `s${n}`));
    add(contract(`c${n}`, `event ${n}`));
    add(transformation(`t${n}`));
    add(destination(`d${n}`));
    add(rule(`r${n}`, `d${n}`, `t${n}`));
    add(organizationMember(`m${n}`, `m${n}@example.com`, 'owner'));
    add(workspaceMember(`g${n}`, `m${n}@example.com`));
    add(clientKey(`x${n}`, `hx${n}`));
  }
  // Made at the first question after a start from rows.
  expect(state.organizationMembers.listing(ORGANIZATION, 'owner').size).toBe(1);
  expect(state.clientKeys.listing(ORGANIZATION).size).toBe(400);
  const refused = [
    fact('source.deleted', 's7', {}),
    fact('destination.deleted', 'd7', {}),
    fact('transformation.deleted', 't7', {}),
    fact('transformation.updated', 't7', { status: 'draft' }),
  ];
  const applied = [
    account('b', 'm7@example.com'),
    fact('organization_member.updated', 'm7', { role: 'admin' }),
    fact('organization_member.removed', 'm7', {}),
    fact('rule.updated', 'r7', { enabled: false }),
    fact('write_key.revoked', 'k7', {}),
    fact('api_key.revoked', 'a7', {}),
    fact('client_key.revoked', 'x7', {}),
    fact('source.deleted', 's7', {}),
    fact('transformation.deleted', 't7', {}),
    fact('destination.deleted', 'd7', {}),
    fact('rule.deleted', 'r7', {}),
    fact('contract.updated', 'c7', { name: 'x' }),
    fact('contract.archived', 'c7', {}),
  ];
  for (const method of ['values', 'keys', 'entries', 'forEach', Symbol.iterator] as const) {
    const original = Map.prototype[method];
    vi.spyOn(Map.prototype, method).mockImplementation(function (this: Map<unknown, unknown>, ...given: []) {
      if (this.size > 100) throw new Error('a fact went through a whole map');
      return Reflect.apply(original, this, given) as never;
    });
  }
  const sizes = [vi.spyOn(Array.prototype, 'filter'), vi.spyOn(Array.prototype, 'some')];
  for (const each of refused)
    expect(applyFact(state, each, position++)).toMatchObject({ conflict: 'in_use' });
  for (const each of applied) expect(applyFact(state, each, position++)).toMatchObject({ applied: true });
  const longest = sizes.flatMap(({ mock }) => mock.contexts.map((list) => (list as unknown[]).length));
  vi.restoreAllMocks();
  expect(Math.max(0, ...longest)).toBeLessThan(100);
});
