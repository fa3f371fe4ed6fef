import { defined } from '../../primitives/defined.ts';
import { nameId } from '../../primitives/ids.ts';
import type { Membership, Organization } from '../entities.ts';
import type { ConflictReason, Fact } from '../facts.ts';
import type { CatalogState } from './state.ts';

type FactOf<Type extends Fact['type']> = Fact & { readonly type: Type };

/** Creates an organization with its owner. The caller has checked that `organization.id` is free. */
export function addOrganization(
  state: CatalogState,
  organization: Omit<Organization, 'org_id' | 'version' | 'created_at' | 'updated_at' | 'created_by'>,
  owner: Membership | undefined,
  { at, by }: Pick<Fact, 'at' | 'by'>,
): void {
  const kept = { version: 1, created_at: at, updated_at: at };
  const { id } = organization;
  state.putOrganization({ ...organization, org_id: state.organizationCount + 1, created_by: by, ...kept });
  if (owner === undefined) return;
  const { account_id, role } = owner;
  const member = { organization_id: id, account_id, email: null, role, created_by: account_id };
  state.organizationMembers.put({ ...member, ...kept, id: nameId('member', id, account_id) });
}

export function createOrganization(
  state: CatalogState,
  fact: FactOf<'organization.created'>,
): ConflictReason | undefined {
  const { entity, data } = fact;
  if (state.organization(entity) !== undefined) return 'taken';
  addOrganization(state, { ...data.organization, id: entity }, data.owner, fact);
  return undefined;
}

/** A region of an active workspace cannot be removed. */
export function updateOrganization(
  state: CatalogState,
  { entity, expected_version, data, at }: FactOf<'organization.updated'>,
): ConflictReason | undefined {
  const stored = state.organization(entity);
  if (stored === undefined) return 'missing';
  if (expected_version !== undefined && expected_version !== stored.version) return 'version';
  const { name, regions, notification_email, profile_settings, confirmation, confirmed_addresses } = data;
  for (const { region } of state.workspacesIn(entity, 'active').newestFirst())
    if (!regions.includes(region)) return 'in_use';
  const others = defined({ profile_settings, confirmation, confirmed_addresses });
  const changed = { name, regions, notification_email, ...others };
  state.putOrganization({ ...stored, ...changed, version: stored.version + 1, updated_at: at });
  return undefined;
}

/**
 * May create the organization with its owner too, but never gives a role in an existing organization. The region must
 * be one of the organization's.
 */
export function createWorkspace(
  state: CatalogState,
  fact: FactOf<'workspace.created'>,
): ConflictReason | undefined {
  const { workspace, organization, owner } = fact.data;
  const kept = { version: 1, created_at: fact.at, updated_at: fact.at };
  if (state.workspace(fact.entity) !== undefined) return 'taken';
  if (organization !== undefined && state.organization(organization.id) !== undefined) return 'taken';
  const home = organization ?? state.organization(workspace.organization_id);
  if (home === undefined || home.id !== workspace.organization_id) return 'missing';
  if (!home.regions.includes(workspace.region)) return 'missing';
  if (organization !== undefined) addOrganization(state, organization, owner, fact);
  state.putWorkspace({ ...workspace, ...kept, id: fact.entity, created_by: fact.by });
  return undefined;
}

export function updateWorkspace(
  state: CatalogState,
  { entity, expected_version, data, at }: FactOf<'workspace.updated'>,
): ConflictReason | undefined {
  const stored = state.workspace(entity);
  if (stored?.status !== 'active') return 'missing';
  if (expected_version !== undefined && expected_version !== stored.version) return 'version';
  const { name, region, alerts, confirmation, storage } = data;
  if (!state.organization(stored.organization_id)?.regions.includes(region)) return 'missing';
  const changed = { name, region, ...defined({ alerts, confirmation, storage }) };
  state.putWorkspace({ ...stored, ...changed, version: stored.version + 1, updated_at: at });
  return undefined;
}

/** Final; archiving an archived workspace is applied and changes nothing. */
export function archiveWorkspace(
  state: CatalogState,
  { entity, expected_version, at }: FactOf<'workspace.archived'>,
): ConflictReason | undefined {
  const stored = state.workspace(entity);
  if (stored === undefined) return 'missing';
  if (stored.status === 'archived') return undefined;
  if (expected_version !== undefined && expected_version !== stored.version) return 'version';
  state.putWorkspace({ ...stored, status: 'archived', version: stored.version + 1, updated_at: at });
  return undefined;
}
