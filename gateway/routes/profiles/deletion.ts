import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  DeletedInPart,
  type Identity,
  type IdentityReading,
  identityKey,
  iso,
  type ProfileDeletionOutcome,
  TributaryError,
} from '@tributary/core';
import type { Static } from 'typebox';
import { authorOf } from '../../authentication/caller.ts';
import { type ErrorDetail, invalidRequest, unavailable } from '../../errors/api-error.ts';
import { MAX_DETAILS } from '../../errors/validation.ts';
import { errorAnswers } from '../../resources/schemas.ts';
import { eitherRegions, type NamedRegion, namesOf } from './admission.ts';
import { nameFault, readMeaning, valuesOf, withSpellings } from './identities.ts';
import type { ProfileCallOptions } from './profile-calls.ts';
import { deletionAnswer, deletionBody } from './schemas.ts';

/** `POST /cdp/v1/users/_delete`. A 503 names the profiles that are deleted already: another call would not find them. */
export const deletionRoute: FastifyPluginAsyncTypebox<ProfileCallOptions> = async (app, { calls }) => {
  const { profiles, requestDeletionNotice, clock } = calls.dependencies;

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
        ...requested
      } = readDeletion(request.body, calls.readingFor(request.body));
      const { organization } = calls.admit(request, 'profile.delete', named);
      const regions = namesOf(named);
      const answerOf = ({ deleted, notFound }: ProfileDeletionOutcome) => ({
        ucids: deleted,
        deletedProfiles: deleted,
        profilesNotFound: requested.notFoundAsSent(notFound),
      });
      const resultOf = ({ deleted, notFound }: ProfileDeletionOutcome) => ({
        ucids: deleted,
        not_found: requested.countNotFound(notFound),
      });
      const outcome = await calls.audited(request, {
        requested: {
          name: 'deleted',
          organization_id: organization.id,
          regions,
          identity_types: [requested.identityType],
          requested: requested.requested,
        },
        async run() {
          // Values that no profile can have need no store.
          if (identities.length + ucids.length === 0) return { deleted: [], notFound: [] };
          return profiles.delete({ identities, ucids, org: organization.org_id, regions });
        },
        partialOutcome: (error) => (error instanceof DeletedInPart ? error.outcome : undefined),
        resultOf,
        answerOf,
      });
      const answer = answerOf(outcome);
      if (request.body.sendEmailNotification === true)
        await requestDeletionNotice({
          id: request.id,
          organization_id: organization.id,
          regions,
          at: iso(clock()),
          by: authorOf(request.caller),
          counts: {
            requested: requested.requested,
            deleted: outcome.deleted.length,
            not_found: resultOf(outcome).not_found,
          },
        }).catch((error: unknown) => {
          throw error instanceof TributaryError && error.retryable ? unavailable(answer, error) : error;
        });
      return reply.code(200).send(answer);
    },
  );
};

/** What a body wants to be deleted: identities, each with its older spellings, or ucids, none twice. */
export interface DeletionRequest {
  readonly regions: readonly NamedRegion[];
  /** The type of all identities, or `ucid`. */
  readonly identityType: string;
  readonly identities: readonly Identity[];
  readonly ucids: readonly string[];
  /** Different identities or ucids that were named, values that can be none included. */
  readonly requested: number;
  /** Of them, values that can be none. */
  readonly unreadable: number;
  /** How what matched nothing was written in the body, in its order. `notFound`: places in whichever list there is. */
  notFoundAsSent(notFound: readonly number[]): readonly string[];
  /** How many of the different identities or ucids matched nothing. */
  countNotFound(notFound: readonly number[]): number;
}

/** Values of a body that mean the same. */
interface Named {
  readonly sent: Set<string>;
  /** Its places among the identities or the ucids, older spellings included; none for a value that can be neither. */
  readonly places: Set<number>;
}

/**
 * 400 with everything that is wrong with the shape of the body. A value that no profile can have (a placeholder, one
 * that is too long, ...) is not found, like any other that nobody has: the rest of the list is deleted.
 */
export function readDeletion(
  body: Static<typeof deletionBody>,
  reading: IdentityReading = {},
): DeletionRequest {
  const faults: ErrorDetail[] = [];
  const regions = eitherRegions(body, faults);
  const [type, ...others] = Object.keys(body.ids);
  if (type === undefined || others.length > 0)
    faults.push({ path: '/ids', message: 'must hold exactly one identifier type' });
  else faults.push(...nameFault(type, '/ids'));
  if (type === undefined || faults.length > 0) throw invalidRequest(...faults.slice(0, MAX_DETAILS));
  const identities: Identity[] = [];
  const ucids: string[] = [];
  const named = new Map<string, Named>();
  const placeOf = new Map<string, number>();
  for (const one of valuesOf(body.ids, '/ids')) {
    const meaning = readMeaning(one, reading);
    const key =
      meaning === undefined
        ? `?${one.value}`
        : meaning.kind === 'ucid'
          ? meaning.ucid
          : identityKey(meaning.identity);
    const known = named.get(key) ?? { sent: new Set(), places: new Set() };
    named.set(key, known);
    known.sent.add(one.value);
    if (meaning?.kind === 'ucid' && known.places.size === 0) known.places.add(ucids.push(meaning.ucid) - 1);
    if (meaning?.kind !== 'identity') continue;
    for (const spelling of withSpellings(meaning.identity, one.value, 'every', reading)) {
      const spelled = identityKey(spelling);
      const place = placeOf.get(spelled) ?? identities.push(spelling) - 1;
      placeOf.set(spelled, place);
      known.places.add(place);
    }
  }
  return {
    regions,
    identityType: type,
    identities,
    ucids,
    requested: named.size,
    unreadable: [...named.values()].filter(({ places }) => places.size === 0).length,
    notFoundAsSent: (notFound) => missedBy(notFound).flatMap(({ sent }) => [...sent]),
    countNotFound: (notFound) => missedBy(notFound).length,
  };

  /** A value is missed where all its spellings are. */
  function missedBy(notFound: readonly number[]): readonly Named[] {
    const missed = new Set(notFound);
    return [...named.values()].filter(({ places }) => [...places].every((place) => missed.has(place)));
  }
}
