import { Readable } from 'node:stream';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  type ClientKeyScope,
  DEFAULT_LIMITS,
  DeletedInPart,
  type Identity,
  type IdentityLimits,
  type IdentityReading,
  InvalidInput,
  identityReadingOf,
  iso,
  MAX_PROFILE_IDENTITIES,
  type Profile,
  type ProfileDeletion,
  type ProfileDeletionOutcome,
  type ProfileSearch,
  type ProfileWrite,
  type ProfileWriteOutcome,
  profileRulesOf,
  recordOf,
  recordOfWrite,
  TributaryError,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { authorOf, type Caller } from '../../authentication/caller.ts';
import type { GatewayDependencies } from '../../dependencies.ts';
import { type ApiError, invalidRequest, unavailable } from '../../errors/api-error.ts';
import { Unconfirmed } from '../../limits/memory-budgets.ts';
import { errorAnswers } from '../../resources/schemas.ts';
import { type Admission, admit, type NamedRegion, readCallHeaders } from './admission.ts';
import { tooLarge } from './bounds.ts';
import { readDeletion } from './deletion.ts';
import { UCID } from './identities.ts';
import { recordOperation } from './operation-record.ts';
import {
  deletionAnswer,
  deletionBody,
  foundRecords,
  profileRecords,
  searchBody,
  splitAnswer,
  splitBody,
  unlinkAnswer,
  unlinkBody,
  writeBody,
} from './schemas.ts';
import { MAX_FOUND_BYTES, readSearch, recordTexts } from './search.ts';
import { noteClaims } from './shared-identities.ts';
import {
  notFoundBy,
  readSplit,
  readUnlink,
  splitAnswerOf,
  splitRefusal,
  unlinkAnswerOf,
  unlinkRefusal,
} from './unlink-and-split.ts';
import { namesIn, placeOf, readWrite, refuseBlocked } from './write.ts';

/** How deep the values of `upsert.profile` are: a number keeps its digits there and nowhere else. */
const IN_PROFILE = 3;

/**
 * `/cdp/v1/users`: the profile API. The order of its checks is: the credential (401), headers and body (400), then
 * scope, organization and membership (403), and last, as only its people may know them, the organization's regions.
 */
export const profileRoutes: FastifyPluginAsyncTypebox<GatewayDependencies> = async (app, dependencies) => {
  const { profiles, profileNulls = 'unset', catalog, clock, requestDeletionNotice } = dependencies;
  const unconfirmedWrites = new Unconfirmed();

  app.decorateRequest('callHeaders');
  app.addHook('onRequest', async (request) => {
    request.callHeaders = readCallHeaders(request);
  });

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
        readingFor(request.body),
      );
      const { organization, mayRead } = admitTo(request, 'profile.write', [region]);
      const { isBlocked, limits } = profileRulesOf(organization.profile_settings);
      if (isBlocked !== undefined) refuseBlocked(write.identities.filter(isBlocked), request.body);
      const written: ProfileWrite = {
        ...write,
        org: organization.org_id,
        region: region.name,
        preferences: preferences.map(([name, value]) =>
          value === null
            ? { name, value, unset: true }
            : { name, value: { ...originOf(request.caller), type: name, value } },
        ),
        consents: consents.map(([name, value]) =>
          value === null ? { name, value, unset: true } : { name, value },
        ),
        linking: 'merge',
        ...(limits === undefined ? {} : { limits }),
      };
      const permit = unconfirmedWrites.take([organization.id], request.bodyBytes);
      const outcome = await profiles.upsert(written).finally(permit.release);
      if (outcome.kind === 'refused') {
        await noteClaims(request, dependencies, organization, written, outcome.claims ?? []);
        throw refusalOf(outcome, request.body, limits);
      }
      const { profile } = outcome;
      return reply.code(200).send([mayRead ? recordOf(profile) : recordOfWrite(profile, written)]);
    },
  );

  app.post(
    '/users/_search',
    {
      config: { operation: 'profiles.search' },
      schema: {
        operationId: 'searchProfiles',
        summary: 'Search profiles by their identities',
        body: searchBody,
        response: { 200: foundRecords, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { regions, spellingsBeyond, ...search } = readSearch(request.body, readingFor(request.body));
      const { organization } = admitTo(request, 'profile.read', regions);
      const scope = { org: organization.org_id, regions: namesOf(regions) };
      const found = await searchSpellings({ ...scope, ...search }, spellingsBeyond).catch(
        (error: unknown) => {
          throw error instanceof InvalidInput
            ? invalidRequest({ path: '/search', message: error.message })
            : error;
        },
      );
      const held = app.holdAnswer(request, reply);
      const [first, ...others] = await recordTexts(found, MAX_FOUND_BYTES, held.resize);
      const text = others.length === 0 ? first : Readable.from([first, ...others]);
      return reply.code(200).type('application/json; charset=utf-8').send(text);
    },
  );

  app.post(
    '/users/_delete',
    {
      config: { operation: 'profiles.delete' },
      schema: {
        operationId: 'deleteProfiles',
        summary: 'Delete profiles',
        body: deletionBody,
        response: { 200: deletionAnswer, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const {
        regions: named,
        identities,
        ucids,
        ...asked
      } = readDeletion(request.body, readingFor(request.body));
      const { organization } = admitTo(request, 'profile.delete', named);
      const regions = namesOf(named);
      const answerOf = ({ deleted, notFound }: ProfileDeletionOutcome) => ({
        ucids: deleted,
        deletedProfiles: deleted,
        profilesNotFound: asked.notFoundAsSent(notFound),
      });
      const resultOf = ({ deleted, notFound }: ProfileDeletionOutcome) => ({
        ucids: deleted,
        not_found: asked.countNotFound(notFound),
      });
      const record = recordOperation(request, dependencies, {
        name: 'deleted',
        organization_id: organization.id,
        regions,
        identity_types: [asked.identityType],
        requested: asked.requested,
      });
      await record.begin();
      const outcome = await deleteProfiles({ identities, ucids, org: organization.org_id, regions }).catch(
        async (error: unknown) => {
          if (!(error instanceof DeletedInPart)) throw error;
          const answer = answerOf(error.outcome);
          await record.endInPart(resultOf(error.outcome));
          throw unavailable(answer, error);
        },
      );
      const answer = answerOf(outcome);
      // The profiles are gone: another call would not tell which they were.
      const orAnswer = (error: unknown) => {
        throw error instanceof TributaryError && error.retryable ? unavailable(answer, error) : error;
      };
      const result = resultOf(outcome);
      await record.end(result).catch(orAnswer);
      if (request.body.sendEmailNotification === true)
        await requestDeletionNotice({
          id: request.id,
          organization_id: organization.id,
          regions,
          at: iso(clock()),
          by: authorOf(request.caller),
          counts: {
            requested: asked.requested,
            deleted: outcome.deleted.length,
            not_found: result.not_found,
          },
        }).catch(orAnswer);
      return reply.code(200).send(answer);
    },
  );

  app.post(
    '/users/_unlink',
    {
      config: { operation: 'profiles.unlink' },
      schema: {
        operationId: 'unlinkIdentities',
        summary: 'Take identities away from a profile',
        description:
          'An extension of the specification. The identities, all of one profile, belong to nobody then, and no event brings them back to that profile, whenever it happened; a write that names them beside an identity of the profile or its `ucid` does. With a `ucid`, identities that the profile does not have are blocked too. What was written stays with the profile.',
        body: unlinkBody,
        response: { 200: unlinkAnswer, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { region, named, ...names } = readUnlink(request.body, readingFor(request.body));
      const { organization } = admitTo(request, 'profile.write', [region]);
      const scope = { org: organization.org_id, region: region.name };
      const record = recordOperation(request, dependencies, {
        name: 'unlinked',
        organization_id: organization.id,
        regions: [region.name],
        identity_types: [...new Set(names.identities.map(({ type }) => type))].sort(),
        requested: named.length,
      });
      const permit = unconfirmedWrites.take([organization.id], request.bodyBytes);
      try {
        await record.begin();
        const outcome = await profiles.unlink({ ...names, ...scope });
        const answer = unlinkAnswerOf(outcome, named);
        const refusal = outcome.kind === 'refused' ? unlinkRefusal(outcome.reason, names) : undefined;
        await record.end({ ucids: answer.ucids, not_found: notFoundBy(outcome, named) });
        if (refusal !== undefined) throw refusal;
        return reply.code(200).send(answer);
      } finally {
        permit.release();
      }
    },
  );

  app.post(
    '/users/_split',
    {
      config: { operation: 'profiles.split' },
      schema: {
        operationId: 'splitProfile',
        summary: 'Undo a merge of two profiles',
        description:
          'An extension of the specification. The ucid, which became part of another profile, names a profile of its own again. It gets the identities and values that were written to it before the merge, as far as no newer one replaced them; the other one, the survivor, loses them and keeps everything else. What was written after the merge cannot be told apart: it stays and is listed as `kept`. No event makes them one again; a write that names identities of both does. 409 with the reason `not_merged` where the ucid is a profile of its own, as after a split that was done, and `unknown_origin` where nothing of the profile is known to have come from it: it was merged before version 0.2.0, everything was replaced since, or the profile is too large to keep origins.',
        body: splitBody,
        response: { 200: splitAnswer, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { region, ucid } = readSplit(request.body);
      const { organization, mayRead } = admitTo(request, 'profile.write', [region]);
      const record = recordOperation(request, dependencies, {
        name: 'split',
        organization_id: organization.id,
        regions: [region.name],
        identity_types: [UCID],
        requested: 1,
      });
      const permit = unconfirmedWrites.take([organization.id], request.bodyBytes);
      try {
        await record.begin();
        const outcome = await profiles.split({ org: organization.org_id, region: region.name, ucid });
        if (outcome.kind === 'refused') {
          await record.end({ ucids: [], not_found: outcome.reason === 'unknown_ucid' ? 1 : 0 });
          throw splitRefusal(outcome.reason);
        }
        await record.end({ ucids: [ucid, outcome.survivor.ucid], not_found: 0 });
        return reply.code(200).send(splitAnswerOf(outcome, mayRead));
      } finally {
        permit.release();
      }
    },
  );

  /** Values that the search finds nobody by are looked for again by all their older spellings: few calls have any. */
  async function searchSpellings(
    search: ProfileSearch,
    spellingsBeyond: (found: readonly Profile[]) => readonly Identity[],
  ): Promise<readonly Profile[]> {
    const found = await profiles.search(search);
    const identities = spellingsBeyond(found);
    if (identities.length === 0) return found;
    const more = await profiles.search({ ...search, identities, ucids: [] });
    if (more.length === 0) return found;
    const all = new Map([...found, ...more].map((profile) => [profile.ucid, profile]));
    return [...all.values()].sort((left, right) => (left.ucid < right.ucid ? -1 : 1));
  }

  /** How the values of a body are read, before it is known whether its caller may use them. */
  function readingFor({ orgId }: { readonly orgId: number }): IdentityReading {
    return identityReadingOf(catalog.state.organizationNumbered(orgId)?.profile_settings);
  }

  /** A list of which nothing can be an identity needs no store. */
  async function deleteProfiles(deletion: ProfileDeletion): Promise<ProfileDeletionOutcome> {
    const isEmpty = deletion.identities.length + deletion.ucids.length === 0;
    return isEmpty ? { deleted: [], notFound: [] } : profiles.delete(deletion);
  }

  function admitTo(
    request: FastifyRequest & { readonly body: { readonly orgId: number } },
    scope: ClientKeyScope,
    regions: readonly NamedRegion[],
  ): Admission {
    const wish = { scope, orgId: request.body.orgId, regions };
    return admit(request.caller, request.callHeaders, wish, catalog.state);
  }
};

function namesOf(regions: readonly NamedRegion[]): readonly string[] {
  return regions.map(({ name }) => name);
}

/** Where a preference came from: the key or the account that wrote it. */
function originOf(caller: Caller) {
  const datasourceId = caller.kind === 'id_token' ? caller.account.id : caller.key.id;
  return { datasourceId, datasetId: 'api' };
}

function refusalOf(
  { reason, identities = [] }: Extract<ProfileWriteOutcome, { kind: 'refused' }>,
  body: Parameters<typeof placeOf>[0],
  { user_ids }: Pick<IdentityLimits, 'user_ids'> = DEFAULT_LIMITS,
): ApiError {
  switch (reason) {
    case 'shared_identity':
      return invalidRequest(
        ...identities.map((identity) => ({
          path: placeOf(body, identity),
          message: `would join more than ${user_ids} different user_ids and is set aside`,
        })),
      );
    case 'unknown_ucid':
      return invalidRequest({ path: '/ucid', message: 'is no profile of the region' });
    case 'too_many_identities':
      return invalidRequest({
        path: namesIn(body),
        message: `the profile would have more than ${MAX_PROFILE_IDENTITIES} identities, or more of a type than the organization allows`,
      });
    case 'too_large':
      return tooLarge();
    case 'nothing_left':
    case 'too_old':
      throw new Error('a write that is no event was taken for one');
  }
}
