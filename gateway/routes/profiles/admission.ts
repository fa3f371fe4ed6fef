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

/** A region as a body names it. */
export interface NamedRegion {
  readonly name: string;
  /** JSON pointer to where it stands. */
  readonly path: string;
}

/** What a call wants to do, and where. */
interface Wish {
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

/** What a call says of itself beside its credential. */
interface CallHeaders {
  /** What the call wants to be allowed, at most. */
  readonly scopes: readonly ClientKeyScope[];
  /** The organization it is about; there with every ID token. */
  readonly orgId: number | undefined;
}

const INTEGER = /^\d{1,15}$/;

/** 400 without `scopes`, with one there is not, with an `orgId` that is no number, and with an ID token without one. */
export function readCallHeaders({
  headers,
  caller,
}: Pick<FastifyRequest, 'headers' | 'caller'>): CallHeaders {
  const { scopes: scopesText, orgid: orgText } = headers;
  const faults: ErrorDetail[] = [];
  const scopes = typeof scopesText === 'string' ? readScopes(scopesText) : undefined;
  if (scopesText === undefined) faults.push({ path: 'scopes', message: 'is required' });
  else if (scopes === undefined)
    faults.push({ path: 'scopes', message: `must be a list of ${CLIENT_KEY_SCOPES.join(', ')}` });
  if (orgText === undefined) {
    if (caller.kind === 'id_token') faults.push({ path: 'orgId', message: 'is required with an ID token' });
  } else if (typeof orgText !== 'string' || !INTEGER.test(orgText)) {
    faults.push({ path: 'orgId', message: 'must be an integer' });
  }
  if (faults.length > 0) throw invalidRequest(...faults);
  return { scopes: scopes ?? [], orgId: orgText === undefined ? undefined : Number(orgText) };
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set on every route of the profile API. */
    callHeaders: CallHeaders;
  }
}

/** The names of regions. */
export function namesOf(regions: readonly NamedRegion[]): readonly string[] {
  return regions.map(({ name }) => name);
}

/** The regions of a list, each once, with their places. */
export function regionsOf(regions: readonly string[]): readonly NamedRegion[] {
  const seen = new Set<string>();
  return regions.flatMap((name, at) => {
    if (seen.has(name)) return [];
    seen.add(name);
    return [{ name, path: `/regions/${at}` }];
  });
}

/** The same of a body that says either `region` or `regions`, as both descriptions of the API have one of them. */
export function eitherRegions(
  { region, regions }: { region?: string | null; regions?: readonly string[] | null },
  faults: ErrorDetail[],
): readonly NamedRegion[] {
  if (region != null && regions != null) {
    faults.push({ path: '/regions', message: 'must not be there beside region' });
    return [];
  }
  if (region != null) return [{ name: region, path: '/region' }];
  if (regions != null) return regionsOf(regions);
  faults.push({ path: '/region', message: 'is required' });
  return [];
}
