import { nameId } from '../ids/ids.ts';
import type { Membership, Organization } from './entities.ts';
import type { ConflictReason, Fact } from './facts.ts';
import type { CatalogState } from './state.ts';

type FactOf<Type extends Fact['type']> = Fact & { readonly type: Type };

/** A new organization comes with its owner. `organization.id` is not taken. */
export function foundOrganization(
  state: CatalogState,
  organization: Omit<Organization, 'org_id' | 'version' | 'created_at' | 'updated_at'>,
  owner: Membership | undefined,
  at: string,
): void {
  const kept = { version: 1, created_at: at, updated_at: at };
  const { id } = organization;
  state.putOrganization({ ...organization, org_id: state.organizationCount + 1, ...kept });
  if (owner === undefined) return;
  const { account_id, role } = owner;
  const member = { organization_id: id, account_id, email: null, role, created_by: account_id };
  state.organizationMembers.put({ ...member, ...kept, id: nameId('member', id, account_id) });
}

export function createOrganization(
  state: CatalogState,
  { entity, data, at }: FactOf<'organization.created'>,
): ConflictReason | undefined {
  if (state.organization(entity) !== undefined) return 'taken';
  foundOrganization(state, { ...data.organization, id: entity }, data.owner, at);
  return undefined;
}

/** A region in which a workspace works stays. */
export function updateOrganization(
  state: CatalogState,
  { entity, expected_version, data, at }: FactOf<'organization.updated'>,
): ConflictReason | undefined {
  const stored = state.organization(entity);
  if (stored === undefined) return 'missing';
  if (expected_version !== undefined && expected_version !== stored.version) return 'version';
  const { name, regions, notification_email } = data;
  const inUse = state
    .workspacesIn(entity)
    .some(({ status, region }) => status === 'active' && !regions.includes(region));
  if (inUse) return 'in_use';
  const changed = { name, regions, notification_email, version: stored.version + 1, updated_at: at };
  state.putOrganization({ ...stored, ...changed });
  return undefined;
}
