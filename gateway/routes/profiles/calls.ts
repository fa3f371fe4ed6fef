import {
  accountScopes,
  type CatalogView,
  type Charged,
  CLIENT_KEY_SCOPES,
  type ClientKeyScope,
  type IdentityReading,
  identityReadingOf,
  iso,
  messageOf,
  newId,
  type Organization,
  type ProfileOperation,
  type ProfileOperationOutcome,
  readScopes,
  TokenBuckets,
  TributaryError,
} from '@tributary/core';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { authorOf, type Caller } from '../../authentication/caller.ts';
import type { GatewayDependencies } from '../../dependencies.ts';
import {
  type ErrorDetail,
  invalidRequest,
  permissionDenied,
  tooManyRequests,
  unavailable,
} from '../../errors/api-error.ts';
import { MAX_DETAILS } from '../../errors/error-handler.ts';
import { UnconfirmedBytes } from '../../limits/memory-budgets.ts';
import { refuseProfilesOverBudget } from '../../limits/storage-budgets.ts';
import { disconnectSignal, FairSemaphore } from '../../limits/turns.ts';

/** An operation on existing profiles, for the audit log. */
interface AuditedOperation<Outcome> {
  /** The first record: the operation as requested. */
  readonly requested: Pick<
    ProfileOperation,
    'name' | 'organization_id' | 'regions' | 'identity_types' | 'requested'
  >;
  run(): Promise<Outcome>;
  /** The second record: the result. */
  resultOf(outcome: Outcome): Omit<ProfileOperationOutcome, 'complete'>;
  /** The outcome of a run that failed after it had changed some profiles; undefined when it has changed none. */
  partialOutcome?(error: unknown): Outcome | undefined;
  /** Fields of the 503 when profiles were changed but the operation did not complete, or was not recorded. */
  answerOf?(outcome: Outcome): Readonly<Record<string, unknown>>;
}

/** The options of the plugins that register one call of the profile API each. */
export interface ProfileCallOptions {
  readonly calls: ProfileCalls;
}

/** The steps that the calls of the profile API share. */
export class ProfileCalls {
  readonly dependencies: GatewayDependencies;
  readonly charges: ProfileCharges;
  readonly #unconfirmed = new UnconfirmedBytes();

  constructor(dependencies: GatewayDependencies) {
    this.dependencies = dependencies;
    this.charges = new ProfileCharges(dependencies.largeProfileRate);
  }

  /** How the identities of a body are read, before it is known whether the caller is admitted. */
  readingFor({ orgId }: { readonly orgId: number }): IdentityReading {
    const { state } = this.dependencies.catalog;
    return identityReadingOf(state.organizationByOrgId(orgId)?.profile_settings);
  }

  /**
   * Authorises a call on the profiles of an organization. The header `scopes` narrows the grants of the credential and never
   * extends them.
   *
   * Errors: 403 when the scope is not granted, and for an organization without access, foreign or missing alike; 400 for an
   * unknown region, only to callers with access to the organization, so that its regions are not revealed to others; 429 for
   * a write of an organization that is over a budget.
   */
  admit(request: FastifyRequest, scope: ClientKeyScope, regions: readonly NamedRegion[]): Admission {
    const { state } = this.dependencies.catalog;
    const { caller, callHeaders, body } = request;
    const { orgId = callHeaders.orgId ?? orgIdOfKey(caller, state) } = (body ?? {}) as {
      readonly orgId?: number;
    };
    const denied = (reason: string) => permissionDenied(reason, scope);
    if (!callHeaders.scopes.includes(scope)) throw denied(`the header scopes does not name ${scope}`);
    if ((callHeaders.orgId ?? orgId) !== orgId)
      throw denied('the header orgId names another organization than the body');
    const organization = orgId === undefined ? undefined : state.organizationByOrgId(orgId);
    if (organization === undefined || !hasAccess(caller, organization, state))
      throw denied(`the credential has no access to the organization of orgId: ${WHERE_ORG_ID_IS}`);
    const isGranted = (region: string, wanted = scope) =>
      grantedIn(caller, organization, region, state).includes(wanted);
    const granted = organization.regions.filter((region) => isGranted(region));
    if (granted.length === 0) throw denied(`the credential lacks the scope ${scope}`);
    const unknown = regions.filter(({ name }) => !organization.regions.includes(name));
    if (unknown.length > 0)
      throw invalidRequest(
        ...unknown
          .slice(0, MAX_DETAILS)
          .map(({ path }) => ({ path, message: 'is not a region of the organization' })),
      );
    if (!regions.every(({ name }) => isGranted(name)))
      throw denied(`the credential lacks the scope ${scope} in a region of the call`);
    const mayRead =
      callHeaders.scopes.includes('profile.read') &&
      regions.every(({ name }) => isGranted(name, 'profile.read'));
    if (scope === 'profile.write') refuseProfilesOverBudget(this.dependencies, organization.org_id);
    return { organization, granted, mayRead };
  }

  /**
   * Runs a write while its bytes count against the organization's share, and charges it. `Overloaded` when the share is used
   * up, 429 see `ProfileCharges`.
   */
  async bounded<T extends Charged>(
    request: FastifyRequest,
    reply: FastifyReply,
    organization: Organization,
    write: () => Promise<T>,
  ): Promise<T> {
    const permit = this.#unconfirmed.take([organization.id], request.bodyBytes);
    try {
      const outcome = await this.charges.run(organization, reply, write);
      this.charges.charge(organization, outcome);
      return outcome;
    } finally {
      permit.release();
    }
  }

  /**
   * Runs an operation between its two audit records. The audit log lists an operation as begun when the process died
   * before the second record.
   *
   * Errors: `Unavailable` when the first record is not confirmed, and then nothing is changed; 503 with the fields of
   * `answerOf` when profiles were changed but not all of them, or the second record is not confirmed.
   */
  async audited<Outcome>(request: FastifyRequest, operation: AuditedOperation<Outcome>): Promise<Outcome> {
    const { recordProfileOperation: record, clock } = this.dependencies;
    const begun: ProfileOperation = {
      ...operation.requested,
      id: newId(),
      at: iso(clock()),
      by: authorOf(request.caller),
      from: { address: request.clientAddress.text, request_id: request.id },
    };
    await record(begun);
    const outcome = await operation.run().catch(async (error: unknown) => {
      const partial = operation.partialOutcome?.(error);
      if (partial === undefined) throw error;
      await this.#recordPartial(request, {
        ...begun,
        outcome: { ...operation.resultOf(partial), complete: false },
      });
      throw unavailable(operation.answerOf?.(partial), error);
    });
    await record({ ...begun, outcome: { ...operation.resultOf(outcome), complete: true } }).catch(
      (error: unknown) => {
        const isRetryable = error instanceof TributaryError && error.retryable;
        throw isRetryable && operation.answerOf !== undefined
          ? unavailable(operation.answerOf(outcome), error)
          : error;
      },
    );
    return outcome;
  }

  /** The caller gets an error anyway, so a record that fails is only logged. */
  async #recordPartial(request: FastifyRequest, operation: ProfileOperation): Promise<void> {
    const { recordProfileOperation: record, logger } = this.dependencies;
    try {
      await record(operation);
    } catch (error) {
      logger.warn(
        { operation: operation.id, request_id: request.id, error: messageOf(error) },
        'the end of an operation on profiles is not recorded; the audit log lists it as begun',
      );
    }
  }
}

export interface NamedRegion {
  readonly name: string;
  /** JSON pointer to its place in the body. */
  readonly path: string;
}

/** An admitted call. */
interface Admission {
  readonly organization: Organization;
  /** The regions of the organization in which the scope is granted. */
  readonly granted: readonly string[];
  /** Whether `profile.read` is effective in all regions of the call: named in the header and granted. */
  readonly mayRead: boolean;
}

/** Undefined for other credentials. */
function orgIdOfKey(caller: Caller, state: CatalogView): number | undefined {
  return caller.kind === 'client_key' ? state.organization(caller.key.organization_id)?.org_id : undefined;
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

/**
 * Characters of large profiles that an organization may read and rewrite a second, beyond which its calls are refused; default
 * of the setting. Protects the thread of the gateway; the stage `profile` and the store on Elasticsearch have their own rates.
 */
const PER_SECOND = 1024 * 1024;
/** So many seconds of it at once. */
const BURST_SECONDS = 4;
/** A read costs a quarter of a write: nothing is stored and published. */
const READ_PART = 1 / 4;
/** Characters of one found profile, and of all of one search, that are free of charge. */
const UNCHARGED_PROFILE = 32 * 1024;
const UNCHARGED_SEARCH = 4 * 1024 * 1024;
/** A search for more values takes its turn among the large calls. */
const MANY_VALUES = 50;

/** Large calls at a time, of all organizations: a record of 200 KB occupies the thread for 10 ms. */
const LARGE_CALLS = { concurrency: 2, maxWaiting: 1_000, maxWaitingPerOwner: 200, retryAfterSeconds: 5 };

/**
 * Limits what each organization costs the others by large profiles: its calls are charged by the size of the profiles that
 * they read and rewrite, and wait for each other while the organization works with large ones.
 */
export class ProfileCharges {
  readonly #shares: TokenBuckets;
  readonly #perSecond: number;
  readonly #large = new FairSemaphore(LARGE_CALLS);

  constructor(perSecond = PER_SECOND, elapsed = () => performance.now()) {
    this.#perSecond = perSecond;
    this.#shares = new TokenBuckets({ perSecond, burst: perSecond * BURST_SECONDS, clock: elapsed });
  }

  /**
   * Runs a call of the organization. 429 when the charges of its earlier calls exceed its share, and when too many of its
   * large calls wait. `values`: those that the call looks up.
   */
  async run<T>(
    { id }: Pick<Organization, 'id'>,
    reply: FastifyReply,
    call: () => Promise<T>,
    values = 1,
  ): Promise<T> {
    const wait = this.#shares.waitMs(id);
    if (wait > 0)
      throw tooManyRequests(Math.ceil(wait / 1_000), { quota: 'large_profiles', limit: this.#perSecond });
    if (values <= MANY_VALUES && this.#shares.isFull(id)) return call();
    return this.#large.run(id, disconnectSignal(reply), call);
  }

  /** Charges a write. */
  charge({ id }: Pick<Organization, 'id'>, { charge = 0 }: { readonly charge?: number }): void {
    this.#shares.charge(id, charge);
  }

  /** Charges a search. `sizes`: characters of the found profiles. */
  chargeFound({ id }: Pick<Organization, 'id'>, sizes: readonly number[]): void {
    let [all, charge] = [0, 0];
    for (const size of sizes) {
      all += size;
      charge += Math.max(0, size - UNCHARGED_PROFILE);
    }
    this.#shares.charge(id, Math.max(charge, all - UNCHARGED_SEARCH) * READ_PART);
  }
}
