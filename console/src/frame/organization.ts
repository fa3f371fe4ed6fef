import { useQuery } from '@tanstack/react-query';
import { api, type Schemas, versionedOf } from '../api/client.ts';
import { includesOrganizationRole, type OrganizationRole } from '../shared/roles.ts';

export type Organization = Schemas['Organization'];

export const organizationQuery = (organizationId: string) => ({
  queryKey: ['organization', organizationId],
  queryFn: () =>
    versionedOf(api.GET('/api/v1/organizations/{organizationId}', { params: { path: { organizationId } } })),
});

/** Whether the signed-in person has this role in the organization. False until it is known. */
export function useMayInOrganization(organizationId: string, needed: OrganizationRole): boolean {
  const { data } = useQuery(organizationQuery(organizationId));
  return includesOrganizationRole(data?.value.role, needed);
}
