import {
  includesOrganizationRole,
  includesRole,
  type OrganizationRole,
  type WorkspaceRole,
} from '../access/roles.ts';
import type { ConflictReason, Fact } from './facts.ts';
import type { CatalogState, CatalogView, FoundKey } from './state.ts';

/*
 * API keys and client keys give access, so they do not outlive the access of the person who made them. A fact about a
 * member that lowers or ends a role revokes, in the same fold step, the keys that the role no longer covers: no crash
 * and no second gateway sees one without the other. Write keys can only send events and are kept.
 */

/** An organization or a workspace, and the id of an account in it. */
export interface KeyMaker {
  readonly accountId: string;
  readonly organizationId?: string;
  readonly workspaceId?: string;
}

/** The keys of every kind that an account made in a workspace, or in an organization and all its workspaces. */
export function keysMadeBy(
  state: Pick<CatalogView, 'entities' | 'clientKeys' | 'workspacesIn'>,
  { accountId, organizationId, workspaceId }: KeyMaker,
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

type MemberFact = Fact & { readonly type: `${'organization' | 'workspace'}_member.${string}` };

/** The member a fact is about, as a maker of keys; undefined where the fact revokes none, or nobody has the place yet. */
export function makerOf(state: CatalogState, fact: Fact): KeyMaker | undefined {
  if (fact.v !== 2 || !('keys' in fact.data) || fact.data.keys !== 'revoke') return undefined;
  const { organizationMembers, workspaceMembers } = state;
  const organizationId = organizationMembers.scopeOf(fact.entity);
  const workspaceId = workspaceMembers.scopeOf(fact.entity);
  const member =
    organizationMembers.get(organizationId ?? '', fact.entity) ??
    workspaceMembers.get(workspaceId ?? '', fact.entity);
  if (member?.account_id == null) return undefined;
  return {
    accountId: member.account_id,
    ...(organizationId === undefined ? {} : { organizationId }),
    ...(workspaceId === undefined ? {} : { workspaceId }),
  };
}

/** Applies a fact about a member and then revokes the keys that the member's role covered and no longer covers. */
export function withKeysOfMember(
  state: CatalogState,
  fact: MemberFact,
  apply: () => ConflictReason | undefined,
): ConflictReason | undefined {
  const maker = makerOf(state, fact);
  const keys =
    maker === undefined ? [] : keysMadeBy(state, maker).filter(({ key }) => key.status === 'active');
  const before = keys.map((found) => roleFor(state, found));
  const refused = apply();
  if (refused !== undefined) return refused;
  for (const [at, found] of keys.entries()) {
    const after = roleFor(state, found);
    if (hasFallen(before[at], after) && outranks(found, after)) revoke(state, found, fact.at);
  }
  return undefined;
}

/** What the maker of a key is in the scope of the key; undefined where they have no place there. */
function roleFor(state: CatalogState, { kind, key }: FoundKey): OrganizationRole | WorkspaceRole | undefined {
  return kind === 'client_key'
    ? state.organizationRole(key.created_by, key.organization_id)
    : state.workspaceRole(key.created_by, key.workspace_id);
}

/** A rise revokes nothing: a key that outranks its maker then was kept by an earlier decision. */
function hasFallen(before: Role | undefined, after: Role | undefined): boolean {
  return before !== undefined && (after === undefined || RANKS.indexOf(after) > RANKS.indexOf(before));
}

type Role = OrganizationRole | WorkspaceRole;
/** Of both kinds of scope: only roles of one of them are ever compared. */
const RANKS: readonly Role[] = ['owner', 'admin', 'editor', 'member', 'viewer'];

/** True when the key does more than somebody of this role may: making a client key takes an admin of the organization. */
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
 * Whether the author of a fact may still make a key, of a workspace or an organization, at the position of the fact. The
 * gateway that let the author in may not have heard yet that they were removed, demoted or revoked.
 */
export function mayMakeKey(
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
