import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ORGANIZATION_ROLES, WORKSPACE_ROLES } from '../../access/roles.ts';
import type { Fact } from '../facts.ts';
import {
  account,
  fact,
  foldAll,
  organization,
  organizationMember,
  workspace,
  workspaceMember,
} from './catalog.fixture.ts';
import { type Created, isOlder } from './creation-order.ts';
import { applyFact } from './fold.ts';
import type { CatalogState } from './state.ts';

/** Few accounts and scopes, so that facts collide. */
const PEOPLE = ['ann', 'bea', 'cat'];
const ORGANIZATIONS = ['o1', 'o2'];
const WORKSPACES = ['w1', 'w2'];
const addressOf = (person: string) => `${person}@example.com`;

const address = fc.constantFrom(...PEOPLE.map(addressOf));
const scope = (ids: readonly string[]) => fc.constantFrom(...ids);
const id = (letter: string) => fc.constantFrom(...['1', '2', '3', '4'].map((digit) => letter + digit));
const organizationRole = fc.constantFrom(...ORGANIZATION_ROLES);
const workspaceRole = fc.constantFrom(...WORKSPACE_ROLES);
const version = fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined, freq: 3 });

const facts: readonly fc.Arbitrary<Fact>[] = [
  fc.constantFrom(...PEOPLE).map((person) => account(person, addressOf(person))),
  fc
    .tuple(id('m'), address, organizationRole, scope(ORGANIZATIONS))
    .map((args) => organizationMember(...args)),
  fc.tuple(id('n'), address, workspaceRole, scope(WORKSPACES)).map((args) => workspaceMember(...args)),
  fc
    .tuple(id('m'), organizationRole)
    .map(([entity, role]) => fact('organization_member.updated', entity, { role })),
  fc
    .tuple(id('n'), workspaceRole)
    .map(([entity, role]) => fact('workspace_member.updated', entity, { role })),
  id('m').map((entity) => fact('organization_member.removed', entity, {})),
  id('n').map((entity) => fact('workspace_member.removed', entity, {})),
];

const history = fc
  .array(
    fc
      .tuple(fc.oneof(...facts), version)
      .map(
        ([each, expected]): Fact =>
          expected === undefined || each.type.endsWith('.added') || each.type === 'account.created'
            ? each
            : { ...each, expected_version: expected },
      ),
    { maxLength: 40, size: 'max' },
  )
  .map((made): readonly Fact[] => [workspace('w1', 'o1'), organization('o2', 'ann'), workspaceInO2, ...made]);

const workspaceInO2 = fact('workspace.created', 'w2', {
  workspace: { id: 'w2', name: 'w2', organization_id: 'o2', region: 'eu', status: 'active' },
});

/** Everything that can be read about who belongs where, as plain data. */
function everything(state: CatalogState): unknown {
  return {
    members: ORGANIZATIONS.map((each) => state.organizationMembers.list(each)),
    guests: WORKSPACES.map((each) => state.workspaceMembers.list(each)),
    roles: PEOPLE.map((person) => [
      ORGANIZATIONS.map((each) => state.organizationRole(person, each) ?? null),
      WORKSPACES.map((each) => state.workspaceRole(person, each) ?? null),
      state.organizationsOf(person).map((each) => each.id),
      state.workspacesOf(person).map((each) => each.id),
    ]),
  };
}

function each(
  made: readonly Fact[],
  check: (state: CatalogState, applied: boolean, before: unknown) => void,
) {
  const { state } = foldAll([]);
  for (const [position, current] of made.entries()) {
    const before = everything(state);
    const { applied } = applyFact(state, current, position);
    check(state, applied, before);
  }
}

describe('members', () => {
  it('are decided the same on every replay', () => {
    fc.assert(
      fc.property(history, (made) => {
        const [one, other] = [foldAll(made), foldAll(JSON.parse(JSON.stringify(made)) as Fact[])];
        expect(other.verdicts).toEqual(one.verdicts);
        expect(everything(other.state)).toEqual(everything(one.state));
      }),
    );
  });

  it('are not changed by a refused fact', () => {
    fc.assert(
      fc.property(history, (made) => {
        each(made, (state, applied, before) => {
          if (!applied) expect(everything(state)).toEqual(before);
        });
      }),
    );
  });

  it('always include an owner of each organization who can act', () => {
    fc.assert(
      fc.property(history, (made) => {
        const there = new Set<string>();
        each(made, (state) => {
          for (const organizationId of ORGANIZATIONS) {
            if (state.organization(organizationId) !== undefined) there.add(organizationId);
            if (!there.has(organizationId)) continue;
            const owners = state.organizationMembers
              .list(organizationId)
              .filter(({ role, account_id }) => role === 'owner' && account_id !== null);
            expect(owners.length).toBeGreaterThan(0);
          }
        });
      }),
    );
  });

  it('are listed once each, and none waits whose account exists', () => {
    fc.assert(
      fc.property(history, (made) => {
        each(made, (state) => {
          const lists = [
            ...ORGANIZATIONS.map((id) => state.organizationMembers.list(id)),
            ...WORKSPACES.map((id) => state.workspaceMembers.list(id)),
          ];
          for (const members of lists) {
            const people = members.map(({ account_id, email }) => account_id ?? email);
            expect(new Set(people).size).toBe(people.length);
            for (const { account_id, email } of members)
              if (account_id === null) expect(state.accountOfEmail(email ?? '')).toBeUndefined();
          }
        });
      }),
    );
  });

  it('have the role their list shows', () => {
    fc.assert(
      fc.property(history, (made) => {
        const { state } = foldAll(made);
        for (const person of PEOPLE) {
          for (const organizationId of ORGANIZATIONS) {
            const listed = state.organizationMembers
              .list(organizationId)
              .find(({ account_id }) => account_id === person);
            expect(state.organizationRole(person, organizationId)).toBe(listed?.role);
          }
        }
      }),
    );
  });

  it('are listed, and their scopes, in creation order, however they came and went', () => {
    const sorted = (items: readonly Created[]) => items.toSorted((a, b) => (isOlder(a, b) ? 1 : -1));
    fc.assert(
      fc.property(history, (made) => {
        each(made, (state) => {
          const members = [
            ...ORGANIZATIONS.map((id) => [state.organizationMembers, id] as const),
            ...WORKSPACES.map((id) => [state.workspaceMembers, id] as const),
          ];
          for (const [of, id] of members) {
            const pending = of.list(id).filter(({ account_id }) => account_id === null);
            expect([...of.listing(id).newestFirst()]).toEqual(sorted(of.list(id)));
            expect([...of.listing(id, 'pending').newestFirst()]).toEqual(sorted(pending));
          }
          for (const person of PEOPLE) {
            const organizations = ORGANIZATIONS.flatMap((id) =>
              state.organizationRole(person, id) === undefined ? [] : (state.organization(id) ?? []),
            );
            const workspaces = WORKSPACES.flatMap((id) =>
              state.workspaceRole(person, id) === undefined ? [] : (state.workspace(id) ?? []),
            );
            expect([...state.organizationListing(person).newestFirst()]).toEqual(sorted(organizations));
            expect([...state.workspaceListing(person).newestFirst()]).toEqual(sorted(workspaces));
          }
        });
      }),
      { numRuns: 50 },
    );
  });
});
