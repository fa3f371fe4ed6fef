import type { OrganizationMember } from './entities.ts';
import type { ConflictReason, Fact } from './facts.ts';
import { withKeysOfMember } from './member-keys.ts';
import type { Member, Members } from './members.ts';
import type { CatalogState } from './state.ts';

type MemberFact = Fact & { readonly type: `${'organization' | 'workspace'}_member.${string}` };

/** What a fact about members decides. */
export function decideMember(state: CatalogState, fact: MemberFact): ConflictReason | undefined {
  return withKeysOfMember(state, fact, () => decide(state, fact));
}

function decide(state: CatalogState, fact: MemberFact): ConflictReason | undefined {
  const kept = { id: fact.entity, version: 1, created_at: fact.at, updated_at: fact.at };
  switch (fact.type) {
    case 'organization_member.added': {
      const { organization_id } = fact.data;
      if (state.organization(organization_id) === undefined) return 'missing';
      const account_id = state.accountOfEmail(fact.data.email) ?? null;
      return add(state.organizationMembers, organization_id, { ...fact.data, ...kept, account_id });
    }
    case 'workspace_member.added': {
      const { workspace_id } = fact.data;
      if (state.workspace(workspace_id)?.status !== 'active') return 'missing';
      const account_id = state.accountOfEmail(fact.data.email) ?? null;
      return add(state.workspaceMembers, workspace_id, { ...fact.data, ...kept, account_id });
    }
    case 'organization_member.updated':
      return changeRole(state.organizationMembers, fact, ({ id }) =>
        fact.data.role !== 'owner' && isLastOwner(state, id) ? 'last_owner' : undefined,
      );
    case 'workspace_member.updated':
      return changeRole(state.workspaceMembers, fact, ({ workspace_id }) =>
        state.workspace(workspace_id)?.status === 'active' ? undefined : 'missing',
      );
    case 'organization_member.removed':
      return removeFromOrganization(state, fact);
    case 'workspace_member.removed':
      return remove(state.workspaceMembers, fact);
  }
}

/** Nobody is a member of the same scope twice. */
function add<M extends Member>(members: Members<M>, scopeId: string, member: M): ConflictReason | undefined {
  const { id, account_id, email } = member;
  if (members.scopeOf(id) !== undefined) return 'taken';
  const known =
    account_id === null ? members.pendingFor(email ?? '', scopeId) : members.ofAccount(account_id, scopeId);
  if (known !== undefined) return 'taken';
  members.put(member);
  return undefined;
}

function find<M extends Member>(members: Members<M>, id: string): M | undefined {
  return members.get(members.scopeOf(id) ?? '', id);
}

function changeRole<M extends Member>(
  members: Members<M>,
  { entity, expected_version, data, at }: MemberFact & { readonly type: `${string}.updated` },
  refusal: (member: M) => ConflictReason | undefined,
): ConflictReason | undefined {
  const stored = find(members, entity);
  if (stored === undefined) return 'missing';
  if (expected_version !== undefined && expected_version !== stored.version) return 'version';
  const refused = refusal(stored);
  if (refused !== undefined) return refused;
  members.put({ ...stored, role: data.role, version: stored.version + 1, updated_at: at } as M);
  return undefined;
}

/** Removing who was removed is applied and changes nothing. */
function remove<M extends Member>(
  members: Members<M>,
  { entity, expected_version }: MemberFact,
): ConflictReason | undefined {
  const stored = find(members, entity);
  if (stored === undefined) return members.scopeOf(entity) === undefined ? 'missing' : undefined;
  if (expected_version !== undefined && expected_version !== stored.version) return 'version';
  members.remove(stored);
  return undefined;
}

/** Who leaves an organization leaves its workspaces. */
function removeFromOrganization(state: CatalogState, fact: MemberFact): ConflictReason | undefined {
  const member = find(state.organizationMembers, fact.entity);
  if (member !== undefined && isLastOwner(state, member.id)) return 'last_owner';
  const refused = remove(state.organizationMembers, fact);
  if (refused !== undefined || member === undefined) return refused;
  for (const { id } of state.workspacesIn(member.organization_id).newestFirst()) {
    const guest = membershipOf(state, member, id);
    if (guest !== undefined) state.workspaceMembers.remove(guest);
  }
  return undefined;
}

/** The place a member of an organization has in a workspace. */
function membershipOf(
  { workspaceMembers }: CatalogState,
  { account_id, email }: OrganizationMember,
  workspaceId: string,
) {
  return account_id === null
    ? workspaceMembers.pendingFor(email ?? '', workspaceId)
    : workspaceMembers.ofAccount(account_id, workspaceId);
}

/** A pending owner cannot act yet, and does not count. */
function isLastOwner({ organizationMembers }: CatalogState, id: string): boolean {
  const member = find(organizationMembers, id);
  if (member === undefined || member.role !== 'owner' || member.account_id === null) return false;
  return organizationMembers.listing(member.organization_id, 'owner').size === 1;
}
