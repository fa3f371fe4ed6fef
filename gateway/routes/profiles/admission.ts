import { accountScopes, type CatalogView, type ClientKeyScope, type Organization } from '@tributary/core';
import type { Caller } from '../../authentication/caller.ts';
import { invalidRequest, permissionDenied } from '../../errors/api-error.ts';
import { MAX_DETAILS } from '../../errors/validation.ts';
import type { CallHeaders } from './call-headers.ts';

/** A region as a body names it. */
export interface NamedRegion {
  readonly name: string;
  /** JSON pointer to where it stands. */
  readonly path: string;
}

/** What a call wants to do, and where. */
export interface Wish {
  readonly scope: ClientKeyScope;
  readonly orgId: number;
  readonly regions: readonly NamedRegion[];
}

/** A call that was let in. */
export interface Admission {
  readonly organization: Organization;
  /** Whether `profile.read` is effective in all regions of the call: named by the header and granted. */
  readonly mayRead: boolean;
}

/**
 * The organization whose profiles a call is about, if it may do there what it wants to. The header narrows what the
 * credential was granted and adds nothing. 403 where the scope is not granted or the organization is not the caller's
 * own or not there, all of them alike; which regions an organization has, by 400, only its own people learn.
 */
export function admit(
  caller: Caller,
  { scopes, orgId }: CallHeaders,
  wish: Wish,
  state: CatalogView,
): Admission {
  const organization = state.organizationNumbered(wish.orgId);
  const isMeant = organization !== undefined && (orgId ?? wish.orgId) === wish.orgId;
  if (!isMeant || !scopes.includes(wish.scope)) throw permissionDenied();
  const isGranted = (region: string, scope = wish.scope) =>
    grantedIn(caller, organization, region, state).includes(scope);
  if (!organization.regions.some((region) => isGranted(region))) throw permissionDenied();
  const unknown = wish.regions.filter(({ name }) => !organization.regions.includes(name));
  if (unknown.length > 0)
    throw invalidRequest(
      ...unknown
        .slice(0, MAX_DETAILS)
        .map(({ path }) => ({ path, message: 'is no region of the organization' })),
    );
  if (!wish.regions.every(({ name }) => isGranted(name))) throw permissionDenied();
  const mayRead =
    scopes.includes('profile.read') && wish.regions.every(({ name }) => isGranted(name, 'profile.read'));
  return { organization, mayRead };
}

/** What the credential may do in a region of an organization, whatever the header says. */
function grantedIn(
  caller: Caller,
  organization: Organization,
  region: string,
  state: CatalogView,
): readonly ClientKeyScope[] {
  switch (caller.kind) {
    case 'client_key':
      return caller.key.organization_id === organization.id ? caller.key.scopes : [];
    case 'id_token':
      return accountScopes(caller.account.id, organization, region, caller.profileScopes, state) ?? [];
    default:
      return [];
  }
}
