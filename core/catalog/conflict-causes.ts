import type { CatalogView, WorkspaceEntityKind } from './catalog.ts';
import type { Contract } from './entities.ts';
import type { ConflictReason, Fact } from './facts.ts';
import type { Member, MembersView } from './fold/members.ts';

export interface ConflictCause {
  readonly kind: WorkspaceEntityKind | 'workspace' | 'organization_member' | 'workspace_member' | 'region';
  /** The id of the entity; of a region, its code: the region still holds profiles. */
  readonly id: string;
  /** Its name, of a member the address; absent for what has none. */
  readonly name?: string;
}

/** Enough to act on: after these are resolved, the next refusal names more. */
const MAX_CAUSES = 10;

/**
 * The entities that caused a refusal, newest first, at most `MAX_CAUSES`; empty where the reason alone explains it, or the
 * same change would be refused with the place of its fault.
 */
export function causesOf(state: CatalogView, fact: Fact, reason: ConflictReason): readonly ConflictCause[] {
  switch (reason) {
    case 'in_use':
      return referrersOf(state, fact);
    case 'taken':
      return takenBy(state, fact);
    case 'missing':
    case 'version':
    case 'last_owner':
      return [];
  }
}

function referrersOf(state: CatalogView, fact: Fact): readonly ConflictCause[] {
  if (fact.type === 'organization.updated') {
    const { regions } = fact.data;
    return causes('workspace', state.workspacesIn(fact.entity, 'active').newestFirst(), ({ region }) => {
      return !regions.includes(region);
    });
  }
  const workspaceId = state.workspaceOf(fact.entity) ?? '';
  if (fact.type === 'source.deleted') {
    const keys = state.listing('write_key', workspaceId, 'active').newestFirst();
    return causes('write_key', keys, ({ source_id }) => source_id === fact.entity);
  }
  return causes('rule', state.listing('rule', workspaceId, 'enabled').newestFirst(), (rule) => {
    return rule.destination_id === fact.entity || rule.transformation_id === fact.entity;
  });
}

function causes<Entity extends { readonly id: string; readonly name: string }>(
  kind: ConflictCause['kind'],
  entities: Iterable<Entity>,
  isCause: (entity: Entity) => boolean,
): readonly ConflictCause[] {
  const found: ConflictCause[] = [];
  for (const entity of entities) {
    if (isCause(entity)) found.push({ kind, id: entity.id, name: entity.name });
    if (found.length === MAX_CAUSES) break;
  }
  return found;
}

function takenBy(state: CatalogView, fact: Fact): readonly ConflictCause[] {
  switch (fact.type) {
    case 'contract.created':
      return contractOfPair(state, fact.data);
    case 'contract.updated': {
      const stored = state.entity('contract', state.workspaceOf(fact.entity) ?? '', fact.entity);
      return stored === undefined ? [] : contractOfPair(state, { ...stored, ...fact.data });
    }
    case 'organization_member.added': {
      const { organization_id, email } = fact.data;
      return memberOf('organization_member', state, state.organizationMembers, organization_id, email);
    }
    case 'workspace_member.added': {
      const { workspace_id, email } = fact.data;
      return memberOf('workspace_member', state, state.workspaceMembers, workspace_id, email);
    }
    default:
      return [];
  }
}

/** The active contract for an event type and name, as a list of at most one cause. */
export function contractOfPair(
  state: CatalogView,
  { workspace_id, event_type, event_name }: Pick<Contract, 'workspace_id' | 'event_type' | 'event_name'>,
): readonly ConflictCause[] {
  const active = state.contractAt(workspace_id, event_type, event_name, Number.MAX_SAFE_INTEGER);
  return active?.event_name === event_name ? [{ kind: 'contract', id: active.id, name: active.name }] : [];
}

function memberOf<M extends Member>(
  kind: 'organization_member' | 'workspace_member',
  state: CatalogView,
  members: MembersView<M>,
  scopeId: string,
  email: string,
): readonly ConflictCause[] {
  const accountId = state.accountOfEmail(email);
  const known =
    accountId === undefined
      ? members.list(scopeId).find((member) => member.email === email)
      : members.ofAccount(accountId, scopeId);
  return known === undefined ? [] : [{ kind, id: known.id, name: email }];
}
