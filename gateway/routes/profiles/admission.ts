import {
  accountScopes,
  type CatalogView,
  CLIENT_KEY_SCOPES,
  type ClientKeyScope,
  type Organization,
  readScopes,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import type { Caller } from '../../authentication/caller.ts';
import { type ErrorDetail, invalidRequest, permissionDenied } from '../../errors/api-error.ts';
import { MAX_DETAILS } from '../../errors/validation.ts';

/** A region in a body. */
export interface NamedRegion {
  readonly name: string;
  /** JSON pointer to its place in the body. */
  readonly path: string;
}

/** The access that a call requests. */
interface RequestedAccess {
  readonly scope: ClientKeyScope;
  readonly orgId: number;
  readonly regions: readonly NamedRegion[];
}

/** An admitted call. */
export interface Admission {
  readonly organization: Organization;
  /** Whether `profile.read` is effective in all regions of the call: named in the header and granted. */
  readonly mayRead: boolean;
}

/**
 * Authorises a call on the profiles of an organization. The header `scopes` narrows the grants of the credential and never
 * extends them.
 *
 * Errors: 403 when the scope is not granted, and for an organization without access, foreign or missing alike; 400 for an unknown region,
 * only to callers with access to the organization, so that its regions are not revealed to others.
 */
export function admit(
  caller: Caller,
  { scopes, orgId }: CallHeaders,
  access: RequestedAccess,
  state: CatalogView,
): Admission {
  const denied = (reason: string) => permissionDenied(reason, access.scope);
  if (!scopes.includes(access.scope)) throw denied(`the header scopes does not name ${access.scope}`);
  if ((orgId ?? access.orgId) !== access.orgId)
    throw denied('the header orgId names another organization than the body');
  const organization = state.organizationByOrgId(access.orgId);
  if (organization === undefined || !hasAccess(caller, organization, state))
    throw denied(`the credential has no access to the organization of orgId: ${WHERE_ORG_ID_IS}`);
  const isGranted = (region: string, scope = access.scope) =>
    grantedIn(caller, organization, region, state).includes(scope);
  if (!organization.regions.some((region) => isGranted(region)))
    throw denied(`the credential lacks the scope ${access.scope}`);
  const unknown = access.regions.filter(({ name }) => !organization.regions.includes(name));
  if (unknown.length > 0)
    throw invalidRequest(
      ...unknown
        .slice(0, MAX_DETAILS)
        .map(({ path }) => ({ path, message: 'is not a region of the organization' })),
    );
  if (!access.regions.every(({ name }) => isGranted(name)))
    throw denied(`the credential lacks the scope ${access.scope} in a region of the call`);
  const mayRead =
    scopes.includes('profile.read') && access.regions.every(({ name }) => isGranted(name, 'profile.read'));
  return { organization, mayRead };
}

/** Whether the credential belongs to the organization. Its scopes do not matter here. */
function hasAccess(caller: Caller, organization: Organization, state: CatalogView): boolean {
  if (caller.kind === 'client_key') return caller.key.organization_id === organization.id;
  return (
    caller.kind === 'id_token' &&
    organization.regions.some(
      (region) => accountScopes(caller.account.id, organization, region, [], state) !== undefined,
    )
  );
}

/** The scopes that the credential grants in a region of an organization. */
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

/** The headers of a profile API call beside the credential. */
interface CallHeaders {
  /** The scopes that the call may use at most. */
  readonly scopes: readonly ClientKeyScope[];
  /** The organization; always present with an ID token. */
  readonly orgId: number | undefined;
}

const INTEGER = /^\d{1,15}$/;

/** Where a caller finds the number of the organization; for the reason of a 403 as well, so without quotes. */
const WHERE_ORG_ID_IS =
  'its number is org_id in GET /api/v1/organizations, beside a new client key, and in the console on the page of the organization';

/**
 * Reads the headers; `faults` gets missing or unknown `scopes`, an `orgId` that is not an integer, and a missing `orgId`
 * with an ID token. `needed`: the scope of the call.
 */
export function readCallHeaders(
  { headers, caller }: Pick<FastifyRequest, 'headers' | 'caller'>,
  needed: ClientKeyScope,
  faults: ErrorDetail[],
): CallHeaders {
  const { scopes: scopesText, orgid: orgText } = headers;
  const scopes = typeof scopesText === 'string' ? readScopes(scopesText) : undefined;
  if (scopesText === undefined)
    faults.push({
      path: 'scopes',
      message: `is required: the header names the scopes that the call uses, here ${needed}`,
    });
  else if (scopes === undefined)
    faults.push({ path: 'scopes', message: `must be a list of ${CLIENT_KEY_SCOPES.join(', ')}` });
  if (orgText === undefined) {
    if (caller.kind === 'id_token')
      faults.push({ path: 'orgId', message: `is required with an ID token: ${WHERE_ORG_ID_IS}` });
  } else if (typeof orgText !== 'string' || !INTEGER.test(orgText)) {
    faults.push({ path: 'orgId', message: 'must be an integer' });
  }
  return { scopes: scopes ?? [], orgId: orgText === undefined ? undefined : Number(orgText) };
}

/** Says where the number of the organization is to a body that lacks it. */
export function explained(fault: ErrorDetail): ErrorDetail {
  if (fault.path !== '/orgId' || fault.message !== 'is required') return fault;
  return { path: fault.path, message: `is required: ${WHERE_ORG_ID_IS}` };
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set on every route of the profile API. */
    callHeaders: CallHeaders;
    /** Faults of the headers, for the answer that also has the faults of the body. */
    headerFaults: ErrorDetail[];
  }
}

export function namesOf(regions: readonly NamedRegion[]): readonly string[] {
  return regions.map(({ name }) => name);
}

/** The distinct regions of a list, with their places. */
export function regionsOf(regions: readonly string[]): readonly NamedRegion[] {
  const seen = new Set<string>();
  return regions.flatMap((name, at) => {
    if (seen.has(name)) return [];
    seen.add(name);
    return [{ name, path: `/regions/${at}` }];
  });
}

/** The regions of a body with either `region` or `regions`: the spec has both forms. */
export function eitherRegions(
  { region, regions }: { region?: string | null; regions?: readonly string[] | null },
  faults: ErrorDetail[],
): readonly NamedRegion[] {
  if (region != null && regions != null) {
    faults.push({ path: '/regions', message: 'must not be combined with region' });
    return [];
  }
  if (region != null) return [{ name: region, path: '/region' }];
  if (regions != null) return regionsOf(regions);
  faults.push({ path: '/region', message: 'is required' });
  return [];
}
