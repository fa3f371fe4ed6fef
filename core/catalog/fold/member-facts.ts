import {
  includesOrganizationRole,
  includesRole,
  type OrganizationRole,
  type WorkspaceRole,
} from '../../access/roles.ts';
import { defined } from '../../primitives/defined.ts';
import type { CatalogView, FoundKey } from '../catalog.ts';
import type { OrganizationMember } from '../entities.ts';
import type { ConflictReason, Fact } from '../facts.ts';
import type { Member, Members } from './members.ts';
import type { CatalogState } from './state.ts';

type MemberFact = Fact & { readonly type: `${'organization' | 'workspace'}_member.${string}` };

/** Applies a fact about members, and revokes keys that the member's role no longer covers. */
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

/** An account or invited address is a member of a scope at most once. */
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

/** Removing a removed member is applied and changes nothing. */
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

/** Also removes the member from the organization's workspaces. */
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

function membershipOf(
  { workspaceMembers }: CatalogState,
  { account_id, email }: OrganizationMember,
  workspaceId: string,
) {
  return account_id === null
    ? workspaceMembers.pendingFor(email ?? '', workspaceId)
    : workspaceMembers.ofAccount(account_id, workspaceId);
}

/** Pending owners do not count: they cannot act yet. */
function isLastOwner({ organizationMembers }: CatalogState, id: string): boolean {
  const member = find(organizationMembers, id);
  if (member === undefined || member.role !== 'owner' || member.account_id === null) return false;
  return organizationMembers.listing(member.organization_id, 'owner').size === 1;
}

/*
 * API keys and client keys give access, so they do not outlive the access of the person who made them. A fact about a
 * member that lowers or ends a role revokes, in the same fold step, the keys that the role no longer covers: no crash
 * and no second gateway sees one without the other. Write keys can only send events and are kept.
 */

/** An account, and the organization or workspace in which it created keys. */
export interface KeyCreator {
  readonly accountId: string;
  readonly organizationId?: string;
  readonly workspaceId?: string;
}

/** All keys that an account created in a workspace, or in an organization with all its workspaces. */
export function keysCreatedBy(
  state: Pick<CatalogView, 'entities' | 'clientKeys' | 'workspacesIn'>,
  { accountId, organizationId, workspaceId }: KeyCreator,
): readonly FoundKey[] {
  const workspaceIds =
    organizationId === undefined
      ? [workspaceId ?? '']
      : Array.from(state.workspacesIn(organizationId).newestFirst(), ({ id }) => id);
  const all: readonly FoundKey[] = [
    ...workspaceIds.flatMap((id): readonly FoundKey[] => [
      ...state.entities('api_key', id).map((key) => ({ kind: 'api_key', key }) as const),
      ...state.entities('write_key', id).map((key) => ({ kind: 'write_key', key }) as const),
    ]),
    ...state.clientKeys.list(organizationId ?? '').map((key) => ({ kind: 'client_key', key }) as const),
  ];
  return all.filter(({ key }) => key.created_by === accountId);
}

/**
 * The account behind the member that the fact is about; undefined where the fact revokes no keys or the member is
 * pending.
 */
export function keyCreatorOf(state: CatalogState, fact: Fact): KeyCreator | undefined {
  if (fact.v !== 2 || !('keys' in fact.data) || fact.data.keys !== 'revoke') return undefined;
  const { organizationMembers, workspaceMembers } = state;
  const organizationId = organizationMembers.scopeOf(fact.entity);
  const workspaceId = workspaceMembers.scopeOf(fact.entity);
  const member =
    organizationMembers.get(organizationId ?? '', fact.entity) ??
    workspaceMembers.get(workspaceId ?? '', fact.entity);
  if (member?.account_id == null) return undefined;
  return { accountId: member.account_id, ...defined({ organizationId, workspaceId }) };
}

/** Applies a fact about a member, then revokes the keys that the role covered before and no longer covers. */
export function withKeysOfMember(
  state: CatalogState,
  fact: MemberFact,
  apply: () => ConflictReason | undefined,
): ConflictReason | undefined {
  const creator = keyCreatorOf(state, fact);
  const keys =
    creator === undefined ? [] : keysCreatedBy(state, creator).filter(({ key }) => key.status === 'active');
  const before = keys.map((found) => roleFor(state, found));
  const refused = apply();
  if (refused !== undefined) return refused;
  for (const [at, found] of keys.entries()) {
    const after = roleFor(state, found);
    if (hasFallen(before[at], after) && outranks(found, after)) revoke(state, found, fact.at);
  }
  return undefined;
}

/** The role of a key's creator in the scope of the key; undefined where they are no member. */
function roleFor(state: CatalogState, { kind, key }: FoundKey): OrganizationRole | WorkspaceRole | undefined {
  return kind === 'client_key'
    ? state.organizationRole(key.created_by, key.organization_id)
    : state.workspaceRole(key.created_by, key.workspace_id);
}

/** Only a lower role revokes keys: a key above its creator's role was kept by an earlier decision. */
function hasFallen(before: Role | undefined, after: Role | undefined): boolean {
  return before !== undefined && (after === undefined || RANKS.indexOf(after) > RANKS.indexOf(before));
}

type Role = OrganizationRole | WorkspaceRole;
/** Roles of organizations and workspaces in one order; only roles of the same kind are ever compared. */
const RANKS: readonly Role[] = ['owner', 'admin', 'editor', 'member', 'viewer'];

/** True when the key may do more than the role: a client key needs an admin of the organization. */
function outranks({ kind, key }: FoundKey, role: Role | undefined): boolean {
  if (kind === 'write_key') return false;
  if (role === undefined) return true;
  return kind === 'client_key'
    ? !includesOrganizationRole(role as OrganizationRole, 'admin')
    : !includesRole(role as WorkspaceRole, key.role);
}

function revoke(state: CatalogState, { kind, key }: FoundKey, at: string): void {
  const revoked = { status: 'revoked', version: key.version + 1, updated_at: at } as const;
  if (kind === 'client_key') state.clientKeys.put({ ...key, ...revoked });
  else if (kind === 'api_key') state.put('api_key', { ...key, ...revoked });
}

/**
 * Whether the author of a fact may create a key at the position of the fact. The gateway that accepts the request
 * may not have seen yet that the author was removed, demoted or revoked.
 */
export function mayCreateKey(
  state: CatalogState,
  by: string,
  scope: { readonly workspaceId: string } | { readonly organizationId: string },
): boolean {
  if ('organizationId' in scope) {
    const role = state.organizationRole(by, scope.organizationId);
    return role !== undefined && includesOrganizationRole(role, 'admin');
  }
  const { workspaceId } = scope;
  const key = by.startsWith('key:') ? state.entity('api_key', workspaceId, by.slice(4)) : undefined;
  if (key !== undefined) return key.status === 'active' && key.role === 'admin';
  return state.workspaceRole(by, workspaceId) === 'admin';
}
