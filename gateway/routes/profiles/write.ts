import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  below,
  type CompetingClaim,
  competingClaimWrite,
  DEFAULT_LIMITS,
  distinctIdentities,
  type Identity,
  type IdentityLimits,
  type IdentityReading,
  iso,
  isSetAside,
  MAX_PROFILE_IDENTITIES,
  messageOf,
  type NullHandling,
  type OlderSpelling,
  type Organization,
  type ProfileWrite,
  type ProfileWriteOutcome,
  profileRulesOf,
  recordOf,
  recordOfWrite,
  setAsideOperation,
  TributaryError,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import { authorOf, type Caller } from '../../authentication/caller.ts';
import { type ApiError, type ErrorDetail, invalidRequest } from '../../errors/api-error.ts';
import { MAX_DETAILS } from '../../errors/validation.ts';
import { errorAnswers } from '../../resources/schemas.ts';
import { SummedCalls } from '../../resources/summed-calls.ts';
import { eitherRegions, type NamedRegion } from './admission.ts';
import { readAttributes, readNamed, type SentNamed } from './attributes.ts';
import { refuseHeavyValues, refuseManyIdentities, refuseManyValues, tooLarge } from './bounds.ts';
import { countOf, type NamedValue, readIdentity, readUcid, valuesOf, withSpellings } from './identities.ts';
import type { ProfileCallOptions, ProfileCalls } from './profile-calls.ts';
import { profileRecords, writeBody } from './schemas.ts';

/** How deep the values of `upsert.profile` are: numbers keep their digits there and nowhere else. */
const IN_PROFILE = 3;

/** `POST /cdp/v1/users`. */
export const writeRoute: FastifyPluginAsyncTypebox<ProfileCallOptions> = async (app, { calls }) => {
  const { profiles, profileNulls = 'unset', profileBounds, clock } = calls.dependencies;
  const summed = new SummedCalls(app, calls.dependencies);

  app.post(
    '/users',
    {
      config: { operation: 'profiles.write', body: 'exact', exactFrom: IN_PROFILE },
      schema: {
        operationId: 'writeProfile',
        summary: 'Write a profile',
        description:
          'The record in the answer has all that is known of the profile where `profile.read` is effective too: named by the header `scopes` and granted in the region. Without it the record has `ucid`, `ids`, `region`, the times, and in `profile`, `mkt_preferences` and `consent` what this very call wrote and nothing else.',
        body: writeBody,
        response: { 200: profileRecords, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { region, preferences, consents, ...write } = readWrite(
        request.body,
        clock(),
        profileNulls,
        calls.readingFor(request.body),
      );
      const { organization, mayRead } = calls.admit(request, 'profile.write', [region]);
      const { isBlocked, limits } = profileRulesOf(organization.profile_settings);
      if (isBlocked !== undefined) refuseBlocked(write.identities.filter(isBlocked), request.body);
      const written: ProfileWrite = {
        ...write,
        org: organization.org_id,
        region: region.name,
        preferences: preferences.map(({ name, value, ...at }) =>
          value === null
            ? { name, value, unset: true, ...at }
            : { name, value: { ...originOf(request.caller), type: name, value }, ...at },
        ),
        consents: consents.map((consent) => (consent.value === null ? { ...consent, unset: true } : consent)),
        linking: 'merge',
        ...(mayRead ? { isByReader: true } : {}),
        ...(limits === undefined ? {} : { limits }),
        ...(profileBounds === undefined ? {} : { bounds: profileBounds }),
      };
      const { id } = organization;
      const noteChanged = summed.countSoon(
        request,
        { name: 'written', entity: 'profile' },
        { scope_id: id, organization_id: id },
      );
      const outcome = await calls.bounded(request, reply, organization, () => profiles.upsert(written));
      if (outcome.kind === 'refused') {
        await writeClaims(request, calls, organization, written, outcome.competingClaims ?? []);
        throw refusalOf(outcome, { body: request.body, mayRead }, limits);
      }
      const { profile } = outcome;
      noteChanged([profile.ucid]);
      return reply.code(200).send([mayRead ? recordOf(profile) : recordOfWrite(profile, written)]);
    },
  );
};

type WriteBody = Static<typeof writeBody>;

/** The body of a write. */
export interface WriteRequest {
  readonly region: NamedRegion;
  readonly identities: readonly Identity[];
  readonly olderSpellings?: readonly OlderSpelling[];
  readonly ucid?: string;
  readonly attributes: ProfileWrite['attributes'];
  readonly preferences: readonly SentNamed[];
  readonly consents: readonly SentNamed[];
}

/**
 * Reads either form of the body: `region` with `ids`, or `regions` with `search`, with one region and one value per type.
 *
 * - `now`: epoch ms.
 * - `nulls`: for attributes; a `null` preference or consent is always removed.
 *
 * Errors: 400 for all faults of the body; 413 for more than a profile can hold.
 */
export function readWrite(
  body: WriteBody,
  now: number,
  nulls: NullHandling,
  reading: IdentityReading = {},
): WriteRequest {
  const { ids, search, upsert } = body;
  refuseManyIdentities(search == null ? Object.keys(ids ?? {}).length : countOf(search), namesIn(body));
  refuseManyValues(upsert ?? {});
  const faults: ErrorDetail[] = [];
  const [region, ...others] = eitherRegions(body, faults);
  if (others.length > 0) faults.push({ path: '/regions', message: 'must hold exactly one region' });
  const named = namedValues(body, faults).flatMap(({ value, ...where }) => {
    const identity = readIdentity({ value, ...where }, faults, reading);
    return identity === undefined ? [] : [{ identity, sent: value }];
  });
  const identities = distinctIdentities(named.map(({ identity }) => identity));
  const olderSpellings = named.flatMap(({ identity: of, sent }) =>
    identities.includes(of)
      ? withSpellings(of, sent, 'usual', reading).flatMap((identity) =>
          identity === of ? [] : [{ of, identity }],
        )
      : [],
  );
  const ucid = body.ucid == null ? undefined : readUcid({ value: body.ucid, path: '/ucid' }, faults);
  const values = {
    attributes: readAttributes(upsert?.profile ?? {}, '/upsert/profile', faults, now, nulls),
    preferences: readNamed(upsert?.mkt_preferences ?? {}, '/upsert/mkt_preferences', faults, now),
    consents: readNamed(upsert?.consent ?? {}, '/upsert/consent', faults, now),
  };
  if (identities.length === 0 && ucid === undefined && faults.length === 0)
    faults.push({ path: namesIn(body), message: 'must hold an identifier when there is no ucid' });
  if (faults.length > 0 || region === undefined) throw invalidRequest(...faults.slice(0, MAX_DETAILS));
  refuseHeavyValues(values);
  return {
    region,
    identities,
    ...(olderSpellings.length === 0 ? {} : { olderSpellings }),
    ...(ucid === undefined ? {} : { ucid }),
    ...values,
  };
}

/** The path of the identities of a write. */
export function namesIn({ search }: Pick<WriteBody, 'search'>): '/ids' | '/search' {
  return search == null ? '/ids' : '/search';
}

/** The path of an identity of a write, which has one of each type. */
export function pathOf(body: Pick<WriteBody, 'search'>, { type }: Identity): string {
  return body.search == null ? below('/ids', type) : below(below('/search', type), 0);
}

/** 400 for identities that the organization blocks. */
export function refuseBlocked(blocked: readonly Identity[], body: Pick<WriteBody, 'search'>): void {
  if (blocked.length === 0) return;
  throw invalidRequest(
    ...blocked.slice(0, MAX_DETAILS).map((identity) => ({
      path: pathOf(body, identity),
      message: 'is blocked by the organization',
    })),
  );
}

function namedValues(body: WriteBody, faults: ErrorDetail[]): readonly NamedValue[] {
  const { region, ids, regions, search } = body;
  if (search != null && ids != null)
    faults.push({ path: '/search', message: 'must not be combined with ids' });
  else if (search != null && region != null)
    faults.push({ path: '/search', message: 'must be combined with regions, as ids with region' });
  else if (search == null && regions != null && region == null)
    faults.push({ path: '/regions', message: 'must be combined with search, as region with ids' });
  if (search == null)
    return Object.entries(ids ?? {}).map(([type, value]) => ({ type, value, path: below('/ids', type) }));
  for (const [type, values] of Object.entries(search))
    if (values.length !== 1)
      faults.push({ path: below('/search', type), message: 'must hold exactly one value to write' });
  return valuesOf(search, '/search');
}

/** The origin of a preference: the key or account that wrote it. */
function originOf(caller: Caller) {
  const datasourceId = caller.kind === 'id_token' ? caller.account.id : caller.key.id;
  return { datasourceId, datasetId: 'api' };
}

function refusalOf(
  { reason, identities = [], excess }: Extract<ProfileWriteOutcome, { kind: 'refused' }>,
  { body, mayRead }: { readonly body: Parameters<typeof pathOf>[0]; readonly mayRead: boolean },
  { user_ids }: Pick<IdentityLimits, 'user_ids'> = DEFAULT_LIMITS,
): ApiError {
  switch (reason) {
    case 'shared_identity':
      return invalidRequest(
        ...identities.map((identity) => ({
          path: pathOf(body, identity),
          message: `would join more than ${user_ids} different user_ids and is set aside`,
        })),
      );
    case 'unknown_ucid':
      return invalidRequest({ path: '/ucid', message: 'is not a profile of the region' });
    case 'too_many_identities':
      return invalidRequest({
        path: namesIn(body),
        message: `the profile would have more than ${MAX_PROFILE_IDENTITIES} identities, or more of a type than the organization allows`,
      });
    case 'too_large':
      return tooLarge(excess, mayRead);
    case 'nothing_left':
    case 'too_old':
      throw new Error('a write that is no event was taken for one');
  }
}

/**
 * Adds the competing claims of a refused write to the profiles that own the identities, and audits the identities that are
 * thereby quarantined as shared. A failure is only logged: the write is refused anyway, and the next one tries again.
 */
async function writeClaims(
  request: FastifyRequest,
  { dependencies, charges }: ProfileCalls,
  organization: Organization,
  write: ProfileWrite,
  claims: readonly CompetingClaim[],
): Promise<void> {
  const { profiles, recordProfileOperation, clock, logger, metrics } = dependencies;
  const { id: organization_id } = organization;
  const recorded = {
    organization_id,
    at: iso(clock()),
    by: authorOf(request.caller),
    from: { address: request.clientAddress.text, request_id: request.id },
  };
  try {
    for (const claim of claims) {
      const { identity } = claim;
      const claimed = await profiles.upsert(competingClaimWrite(write, claim));
      charges.charge(organization, claimed);
      if (claimed.kind === 'refused' || !isSetAside(claimed.profile, identity, write.limits)) continue;
      metrics.count('tributary_profile_identities_set_aside_total', { type: identity.type });
      await recordProfileOperation(setAsideOperation(write, claimed.profile.ucid, identity, recorded));
    }
  } catch (error) {
    if (!(error instanceof TributaryError && error.retryable)) throw error;
    const fields = { organization: organization_id, request_id: request.id, error: messageOf(error) };
    logger.warn(fields, 'an identity that too many users share is not recorded; the next call tries again');
  }
}
