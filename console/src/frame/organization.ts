import { api, type Schemas, versionedOf } from '../api/client.ts';

export type Organization = Schemas['Organization'];

export const organizationQuery = (organizationId: string) => ({
  queryKey: ['organization', organizationId],
  queryFn: () =>
    versionedOf(api.GET('/api/v1/organizations/{organizationId}', { params: { path: { organizationId } } })),
});
