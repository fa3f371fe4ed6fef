import type { Organization, OrganizationRole } from '@tributary/core';
import type { Static } from 'typebox';
import type { organizationResource } from './schemas.ts';

export function presentOrganization(
  organization: Organization,
  role: OrganizationRole,
): Static<typeof organizationResource> {
  return {
    id: organization.id,
    org_id: organization.org_id,
    name: organization.name,
    regions: organization.regions,
    notification_email: organization.notification_email,
    role,
    created_at: organization.created_at,
    updated_at: organization.updated_at,
  };
}
