import { alertConditionAfter } from '../../alerts/alert.ts';
import { type ConnectionFacts, connectionChange } from '../../delivery/connection.ts';
import { conditionAfter } from '../../delivery/destination-health.ts';
import { adoptedLayout, announcedLayout } from '../../log/layout.ts';
import type { WorkspaceEntities, WorkspaceEntityKind } from '../catalog.ts';
import type { ClientKey, Contract, Rule, Transformation } from '../entities.ts';
import { type ConflictReason, type Fact, isKnownVersion, type Verdict } from '../facts.ts';
import { decideMember, mayCreateKey } from './member-facts.ts';
import {
  archiveWorkspace,
  createOrganization,
  createWorkspace,
  updateOrganization,
  updateWorkspace,
} from './organization-facts.ts';
import type { CatalogState } from './state.ts';

/**
 * Must be raised whenever the same facts would give another state, or the rows of a state change their form: a
 * snapshot of another version is ignored.
 */
export const FOLD_VERSION = 5;

/** Thrown for a fact of an unknown type or version. The process becomes unready; it never skips a fact. */
export class UnknownFact extends Error {
  constructor(fact: { v?: unknown; type?: unknown }) {
    super(
      `the catalog holds a fact of type ${String(fact.type)} and version ${String(fact.v)} that this release does not know`,
    );
    this.name = 'UnknownFact';
  }
}

/**
 * Applies the fact at `position` of the catalog topic. The decision depends on the earlier facts alone, so every
 * process decides the same. A refused fact changes nothing.
 */
export function applyFact(state: CatalogState, fact: Fact, position: number): Verdict {
  const refused = decide(state, fact, position);
  return refused === undefined ? { applied: true, position } : { applied: false, conflict: refused };
}

function decide(state: CatalogState, fact: Fact, position: number): ConflictReason | undefined {
  if (!isKnownVersion(fact)) throw new UnknownFact(fact);
  const kept = { id: fact.entity, version: 1, created_at: fact.at, updated_at: fact.at };
  switch (fact.type) {
    case 'installation.created':
      return createInstallation(state, fact);
    case 'account.created':
      if (state.account(fact.entity) !== undefined) return 'taken';
      state.putAccount({ ...fact.data, ...kept });
      return undefined;
    case 'account.updated':
      return updateAccount(state, fact);
    case 'workspace.created':
      return createWorkspace(state, fact);
    case 'workspace.updated':
      return updateWorkspace(state, fact);
    case 'workspace.archived':
      return archiveWorkspace(state, fact);
    case 'organization.created':
      return createOrganization(state, fact);
    case 'organization.updated':
      return updateOrganization(state, fact);
    case 'organization_member.added':
    case 'organization_member.updated':
    case 'organization_member.removed':
    case 'workspace_member.added':
    case 'workspace_member.updated':
    case 'workspace_member.removed':
      return decideMember(state, fact);
    case 'client_key.created':
      if (fact.v === 2 && !mayCreateKey(state, fact.by, { organizationId: fact.data.organization_id }))
        return 'missing';
      return createClientKey(state, { ...fact.data, ...kept });
    case 'client_key.revoked':
      return revokeClientKey(state, fact);
    case 'api_key.created':
      if (fact.v === 2 && !mayCreateKey(state, fact.by, { workspaceId: fact.data.workspace_id }))
        return 'missing';
      return createKey(state, 'api_key', { expires_at: null, ...fact.data, ...kept });
    case 'write_key.created': {
      const { workspace_id, source_id } = fact.data;
      if (source_id !== null && state.entity('source', workspace_id, source_id) === undefined)
        return 'missing';
      return createKey(state, 'write_key', { ...fact.data, ...kept });
    }
    case 'api_key.revoked':
      return revoke(state, 'api_key', fact);
    case 'write_key.revoked':
      return revoke(state, 'write_key', fact);
    case 'source.created':
      return create(state, 'source', { ...fact.data, ...kept });
    case 'source.updated':
      return change(state, 'source', fact, fact.data);
    case 'source.deleted':
      if (isReferenced(state, fact.entity)) return 'in_use';
      return remove(state, 'source', fact);
    case 'contract.created': {
      const contract: Contract = { ...fact.data, ...kept };
      if (contract.status === 'active' && pairTaken(state, contract)) return 'taken';
      const refused = create(state, 'contract', contract);
      if (refused === undefined && contract.status === 'active') startEra(state, contract, position);
      return refused;
    }
    case 'contract.updated':
      return updateContract(state, fact, position);
    case 'contract.archived':
      return archiveContract(state, fact, position);
    case 'transformation.created':
      return noteVersion(state, fact, () => create(state, 'transformation', { ...fact.data, ...kept }));
    case 'transformation.updated':
      if (fact.data.status === 'draft' && isReferenced(state, fact.entity)) return 'in_use';
      return noteVersion(state, fact, () => change(state, 'transformation', fact, fact.data));
    case 'transformation.deleted':
      if (isReferenced(state, fact.entity)) return 'in_use';
      return noteVersion(state, fact, () => remove(state, 'transformation', fact));
    case 'destination.created':
      return create(state, 'destination', { ...fact.data, ...kept });
    case 'destination.updated':
      return change(state, 'destination', fact, fact.data);
    case 'destination.deleted':
      if (isReferenced(state, fact.entity)) return 'in_use';
      return removeDestination(state, fact);
    case 'destination.turned':
      return changeDestinationHealth(state, fact);
    case 'destination.connected':
    case 'destination.disconnected':
    case 'connection.claimed':
    case 'connection.refreshed':
      return changeConnection(state, fact);
    case 'warehouse_table.created': {
      const { workspace_id, destination_id } = fact.data;
      if (state.entity('destination', workspace_id, destination_id) === undefined) return 'missing';
      return create(state, 'warehouse_table', { ...fact.data, ...kept });
    }
    case 'warehouse_table.updated': {
      const columns = { ...find(state, 'warehouse_table', fact.entity)?.columns, ...fact.data.columns };
      return change(state, 'warehouse_table', fact, { columns });
    }
    case 'rule.created': {
      const rule: Rule = { ...fact.data, ...kept };
      return danglingRule(state, rule) ? 'missing' : create(state, 'rule', rule);
    }
    case 'rule.updated': {
      const stored = find(state, 'rule', fact.entity);
      if (stored === undefined) return 'missing';
      if (danglingRule(state, { ...stored, ...fact.data })) return 'missing';
      return change(state, 'rule', fact, fact.data);
    }
    case 'rule.deleted':
      return remove(state, 'rule', fact);
    case 'replay.created': {
      const { rule_id, workspace_id } = fact.data;
      if (rule_id !== null && state.entity('rule', workspace_id, rule_id) === undefined) return 'missing';
      return create(state, 'replay', { ...fact.data, ...kept });
    }
    case 'replay.cancelled':
      if (find(state, 'replay', fact.entity)?.status === 'cancelled') return undefined;
      return change(state, 'replay', fact, { status: 'cancelled' });
    case 'alert.created':
      return create(state, 'alert', { ...fact.data, ...kept });
    case 'alert.updated':
      return change(state, 'alert', fact, fact.data);
    case 'alert.deleted':
      return remove(state, 'alert', fact);
    case 'alert.turned':
      return changeAlertState(state, fact);
    case 'topic.growth_announced':
      return announceGrowth(state, fact);
    case 'topic.grown':
      return adoptGrowth(state, fact);
    default:
      throw new UnknownFact(fact);
  }
}

function createInstallation(
  state: CatalogState,
  { v, entity }: Fact & { type: 'installation.created' },
): ConflictReason | undefined {
  const { installation, isUpgraded } = state;
  const isUpgrade = v === 2 && !isUpgraded && entity === installation;
  if (installation !== undefined && !isUpgrade) return 'taken';
  state.putInstallation(entity);
  if (v === 2) state.putFormat('references');
  return undefined;
}

function updateAccount(
  state: CatalogState,
  fact: Fact & { type: 'account.updated' },
): ConflictReason | undefined {
  const stored = state.account(fact.entity);
  if (stored === undefined) return 'missing';
  if (fact.expected_version !== undefined && fact.expected_version !== stored.version) return 'version';
  const { email, email_issued_at } = fact.data;
  state.putAccount({
    ...stored,
    email,
    email_issued_at,
    version: stored.version + 1,
    updated_at: fact.at,
  });
  return undefined;
}

function create<K extends WorkspaceEntityKind>(
  state: CatalogState,
  kind: K,
  entity: WorkspaceEntities[K],
): ConflictReason | undefined {
  if (state.workspace(entity.workspace_id)?.status !== 'active') return 'missing';
  if (state.workspaceOf(entity.id) !== undefined) return 'taken';
  state.put(kind, entity);
  return undefined;
}

function createKey<K extends 'api_key' | 'write_key'>(
  state: CatalogState,
  kind: K,
  key: WorkspaceEntities[K],
): ConflictReason | undefined {
  if (state.hasKey(key.hash)) return 'taken';
  return create(state, kind, key);
}

function find<K extends WorkspaceEntityKind>(
  state: CatalogState,
  kind: K,
  id: string,
): WorkspaceEntities[K] | undefined {
  return state.entity(kind, state.workspaceOf(id) ?? '', id);
}

function change<K extends WorkspaceEntityKind>(
  state: CatalogState,
  kind: K,
  fact: Fact,
  fields: Partial<WorkspaceEntities[K]>,
): ConflictReason | undefined {
  const stored = find(state, kind, fact.entity);
  if (stored === undefined) return 'missing';
  if (fact.expected_version !== undefined && fact.expected_version !== stored.version) return 'version';
  const { id, workspace_id, created_at } = stored;
  const kept = { id, workspace_id, created_at, version: stored.version + 1, updated_at: fact.at };
  state.put(kind, { ...stored, ...fields, ...kept });
  return undefined;
}

/** Revocation is final; revoking a key again is applied and changes nothing. */
function revoke(state: CatalogState, kind: 'api_key' | 'write_key', fact: Fact): ConflictReason | undefined {
  if (find(state, kind, fact.entity)?.status === 'revoked') return undefined;
  return change(state, kind, fact, { status: 'revoked' });
}

function createClientKey(state: CatalogState, key: ClientKey): ConflictReason | undefined {
  if (state.organization(key.organization_id) === undefined) return 'missing';
  if (state.hasKey(key.hash) || state.clientKeys.organizationOf(key.id) !== undefined) return 'taken';
  state.clientKeys.put(key);
  return undefined;
}

/** Final, like the revocation of every key. */
function revokeClientKey({ clientKeys }: CatalogState, { entity, at }: Fact): ConflictReason | undefined {
  const stored = clientKeys.get(clientKeys.organizationOf(entity) ?? '', entity);
  if (stored === undefined) return 'missing';
  if (stored.status === 'revoked') return undefined;
  clientKeys.put({ ...stored, status: 'revoked', version: stored.version + 1, updated_at: at });
  return undefined;
}

/** Deleting a deleted entity is applied and changes nothing. */
function remove(state: CatalogState, kind: WorkspaceEntityKind, fact: Fact): ConflictReason | undefined {
  const workspaceId = state.workspaceOf(fact.entity) ?? '';
  const stored = state.entity(kind, workspaceId, fact.entity);
  if (stored === undefined) return state.wasDeleted(kind, workspaceId, fact.entity) ? undefined : 'missing';
  if (fact.expected_version !== undefined && fact.expected_version !== stored.version) return 'version';
  state.remove(kind, workspaceId, fact.entity);
  return undefined;
}

/** Its tables are removed with it. */
function removeDestination(state: CatalogState, fact: Fact): ConflictReason | undefined {
  const workspaceId = state.workspaceOf(fact.entity) ?? '';
  const tables = [...state.listing('warehouse_table', workspaceId, fact.entity).newestFirst()];
  const refused = remove(state, 'destination', fact);
  if (refused === undefined) for (const { id } of tables) state.remove('warehouse_table', workspaceId, id);
  return refused;
}

function pairTaken(state: CatalogState, contract: Contract): boolean {
  const active = state.activeContract(contract.workspace_id, contract.event_type, contract.event_name);
  return active !== undefined && active.id !== contract.id;
}

/**
 * An event with catalog position `p` was made with the facts below `p`, so the contract applies from the next
 * position on.
 */
function startEra(state: CatalogState, contract: Contract, position: number): void {
  const { workspace_id, event_type, event_name, updated_at: at } = contract;
  state.startEra(workspace_id, event_type, event_name, { from: position + 1, at, contract });
}

function endEra(state: CatalogState, contract: Contract, position: number, at: string): void {
  const { workspace_id, event_type, event_name } = contract;
  state.startEra(workspace_id, event_type, event_name, { from: position + 1, at, contract: undefined });
}

function updateContract(
  state: CatalogState,
  fact: Fact & { type: 'contract.updated' },
  position: number,
): ConflictReason | undefined {
  const stored = find(state, 'contract', fact.entity);
  if (stored === undefined || stored.status === 'archived') return 'missing';
  const next = { ...stored, ...fact.data };
  if (next.status === 'active' && pairTaken(state, next)) return 'taken';
  const refused = change(state, 'contract', fact, fact.data);
  const changed = find(state, 'contract', fact.entity);
  if (refused !== undefined || changed === undefined) return refused;
  const moved = changed.event_type !== stored.event_type || changed.event_name !== stored.event_name;
  if (moved || changed.status === 'archived') endEra(state, stored, position, fact.at);
  if (changed.status === 'active') startEra(state, changed, position);
  return undefined;
}

function archiveContract(
  state: CatalogState,
  fact: Fact & { type: 'contract.archived' },
  position: number,
): ConflictReason | undefined {
  const stored = find(state, 'contract', fact.entity);
  if (stored === undefined) return 'missing';
  if (stored.status === 'archived') return undefined;
  const refused = change(state, 'contract', fact, { status: 'archived' });
  if (refused === undefined) endEra(state, stored, position, fact.at);
  return refused;
}

/** Applies a fact about a transformation and updates its kept versions. */
function noteVersion(
  state: CatalogState,
  { entity, by }: Fact,
  apply: () => ConflictReason | undefined,
): ConflictReason | undefined {
  const before = state.transformation(entity);
  const refused = apply();
  if (refused !== undefined) return refused;
  const after = state.transformation(entity);
  if (after === undefined) state.transformationVersions.forget(entity);
  else {
    state.transformationVersions.note(before, after, by);
    state.weigh('transformation', after);
  }
  return undefined;
}

/** True when an enabled rule or an active write key of the same workspace refers to the entity. */
function isReferenced(state: CatalogState, id: string): boolean {
  return state.indexes.get(state.workspaceOf(id) ?? '')?.isReferenced(id) ?? false;
}

/**
 * True when the rule refers to an entity that its workspace lacks; an enabled rule also needs an active
 * transformation.
 */
function danglingRule(state: CatalogState, rule: Rule): boolean {
  if (state.entity('destination', rule.workspace_id, rule.destination_id) === undefined) return true;
  if (rule.transformation_id === null) return false;
  const transformation: Transformation | undefined = state.entity(
    'transformation',
    rule.workspace_id,
    rule.transformation_id,
  );
  return transformation === undefined || (rule.enabled && transformation.status === 'draft');
}

/**
 * Keeps version and `updated_at`: a health change is not a change of the destination, and prepared requests stay
 * valid.
 */
export function changeDestinationHealth(
  state: CatalogState,
  { entity, expected_version, data }: Fact & { readonly type: 'destination.turned' },
): ConflictReason | undefined {
  const stored = state.destination(entity);
  if (stored === undefined) return 'missing';
  if (expected_version !== undefined && expected_version !== (stored.condition?.turns ?? 0)) return 'version';
  state.put('destination', { ...stored, condition: conditionAfter(stored.condition, data) });
  return undefined;
}

/**
 * A change of the account changes the destination, whose requests are prepared anew. Claims and refreshed tokens keep version
 * and `updated_at`.
 */
function changeConnection(
  state: CatalogState,
  fact: Fact & { readonly type: keyof ConnectionFacts },
): ConflictReason | undefined {
  const stored = state.destination(fact.entity);
  if (stored === undefined) return 'missing';
  const { expected_version: expected, type, at } = fact;
  if (expected !== undefined && expected !== (stored.connection?.turns ?? 0)) return 'version';
  const changed = connectionChange(stored, fact);
  if (changed === undefined) return 'missing';
  const isOfDestination = type === 'destination.connected' || type === 'destination.disconnected';
  const kept = isOfDestination ? { version: stored.version + 1, updated_at: at } : {};
  state.put('destination', { ...stored, ...changed, ...kept });
  return undefined;
}

/** Keeps version and `updated_at`, as above. */
function changeAlertState(
  state: CatalogState,
  { entity, expected_version, data, at }: Fact & { readonly type: 'alert.turned' },
): ConflictReason | undefined {
  const stored = find(state, 'alert', entity);
  if (stored === undefined) return 'missing';
  if (expected_version !== undefined && expected_version !== (stored.condition?.turns ?? 0)) return 'version';
  state.put('alert', { ...stored, condition: alertConditionAfter(stored.condition, data, at) });
  return undefined;
}

/**
 * Announces that a topic gets more partitions. Announcing again replaces what was announced. `version` where the topic has
 * other partitions than the author knew: by multiples alone keys stay, or move from one partition.
 */
function announceGrowth(
  state: CatalogState,
  { entity, data }: Fact & { type: 'topic.growth_announced' },
): ConflictReason | undefined {
  const layout = state.layouts.get(entity) ?? { partitions: data.from, earlier: [] };
  const isMultiple = data.partitions > layout.partitions && data.partitions % layout.partitions === 0;
  if (layout.partitions !== data.from || !isMultiple) return 'version';
  state.putLayout(entity, announcedLayout(layout, data.partitions));
  return undefined;
}

/** Adopts an announced growth; adopting it again changes nothing. `missing` for one that was not announced. */
function adoptGrowth(
  state: CatalogState,
  { entity, data, at }: Fact & { type: 'topic.grown' },
): ConflictReason | undefined {
  const layout = state.layouts.get(entity);
  if (layout?.partitions === data.partitions) return undefined;
  if (layout === undefined || layout.announced !== data.partitions) return 'missing';
  state.putLayout(entity, adoptedLayout(layout, at));
  return undefined;
}
