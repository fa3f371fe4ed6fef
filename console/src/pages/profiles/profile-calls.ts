import { useQuery } from '@tanstack/react-query';
import { api, dataOf, type Schemas } from '../../api/client.ts';
import { useWorkspaceId, workspaceQuery } from '../../frame/workspace.tsx';
import { type Identity, type ProfileRecord, searchOf } from './profile-record.ts';

/** The profiles of a workspace are those of its organization in its region. */
export interface ProfileScope {
  readonly orgId: number;
  readonly region: string;
}

/** The scope of the page's workspace, once it is known. */
export function useProfileScope() {
  return useQuery({
    ...workspaceQuery(useWorkspaceId()),
    select: ({ org_id, region }): ProfileScope => ({ orgId: org_id, region }),
  });
}

/** Prefix of all profile queries in the cache. */
export const profilesKey = (workspaceId: string) => ['profiles', workspaceId];

type Scope = 'profile.read' | 'profile.write' | 'profile.delete';

/** Each call names its organization, and restricts itself to the scopes it needs. */
function headersFor({ orgId }: ProfileScope, ...scopes: readonly Scope[]) {
  return { header: { orgId, scopes: scopes.join(',') } };
}

export async function searchProfiles(
  scope: ProfileScope,
  identity: Identity,
  signal?: AbortSignal,
): Promise<readonly ProfileRecord[]> {
  return dataOf(
    api.POST('/cdp/v1/users/_search', {
      params: headersFor(scope, 'profile.read'),
      body: { orgId: scope.orgId, regions: [scope.region], search: searchOf(identity) },
      ...(signal === undefined ? {} : { signal }),
    }),
  );
}

export interface ProfileChange {
  /** The profile to write; without it the identities find a profile, or a new one is created. */
  readonly ucid?: string;
  readonly ids?: Readonly<Record<string, string>>;
  /** `null` removes a category, an attribute, a preference or a consent. */
  readonly upsert?: NonNullable<Schemas['ProfileWrite']['upsert']>;
}

export function writeProfile(scope: ProfileScope, change: ProfileChange): Promise<readonly ProfileRecord[]> {
  return dataOf(
    api.POST('/cdp/v1/users', {
      params: headersFor(scope, 'profile.read', 'profile.write'),
      body: { orgId: scope.orgId, region: scope.region, ...change },
    }),
  );
}

export function deleteProfile(scope: ProfileScope, ucid: string, sendEmailNotification: boolean) {
  return dataOf(
    api.POST('/cdp/v1/users/_delete', {
      params: headersFor(scope, 'profile.delete'),
      body: { orgId: scope.orgId, region: scope.region, ids: { ucid: [ucid] }, sendEmailNotification },
    }),
  );
}

export function unlinkIdentity(scope: ProfileScope, ucid: string, { type, value }: Identity) {
  return dataOf(
    api.POST('/cdp/v1/users/_unlink', {
      params: headersFor(scope, 'profile.write'),
      body: { orgId: scope.orgId, region: scope.region, ucid, ids: { [type]: [value] } },
    }),
  );
}

/** `ucid`: of the profile that was merged into another one. */
export function splitProfile(scope: ProfileScope, ucid: string) {
  return dataOf(
    api.POST('/cdp/v1/users/_split', {
      params: headersFor(scope, 'profile.read', 'profile.write'),
      body: { orgId: scope.orgId, region: scope.region, ucid },
    }),
  );
}
