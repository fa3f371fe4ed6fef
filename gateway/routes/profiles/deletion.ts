import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  type IdentityReading,
  iso,
  PartialDeletion,
  type ProfileDeletionOutcome,
  TributaryError,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import { authorOf } from '../../authentication/caller.ts';
import { type ErrorDetail, invalidRequest, unavailable } from '../../errors/api-error.ts';
import { MAX_DETAILS } from '../../errors/error-handler.ts';
import { boolean, closed, listOf, operation, optional } from '../../resources/schemas.ts';
import {
  distinctIn,
  IDENTITY_TYPES,
  identityValue,
  mapOf,
  missingOf,
  nameFault,
  orgId,
  region,
  regions,
  sentOf,
} from './bodies.ts';
import { eitherRegions, namesOf, type ProfileCallOptions } from './calls.ts';

/** Values of one deletion, at most. */
const MAX_DELETED = 400;

/** Either `region` or `regions`. */
const deletionBody = closed(
  {
    orgId,
    region: optional(region),
    regions: optional(regions),
    ids: mapOf<readonly string[]>(
      { type: 'array', items: identityValue, minItems: 1, maxItems: MAX_DELETED },
      'One identifier type to the values to delete.',
      { ...IDENTITY_TYPES, minProperties: 1, maxProperties: 1 },
    ),
    sendEmailNotification: optional(boolean('Whether a notification e-mail is sent. Default false.')),
  },
  {
    title: 'ProfileDeletionBody',
    examples: [{ orgId: 1, region: 'eu', ids: { email: ['ada@example.com'] } }],
  },
);

const ucids = listOf(Type.String());

const deletionAnswer = Type.Object(
  {
    ucids,
    deletedProfiles: ucids,
    profilesNotFound: listOf(Type.String(), 'As they were sent.'),
  },
  { title: 'ProfileDeletion' },
);

/** `POST /cdp/v1/users/_delete`. A 503 names the profiles that are deleted already: another call would not find them. */
export const deletionRoute: FastifyPluginAsyncTypebox<ProfileCallOptions> = async (app, { calls }) => {
  const { profiles, requestMail, clock } = calls.dependencies;

  app.post(
    '/users/_delete',
    operation('profiles.delete', 'deleteProfiles', 'Delete profiles', {
      body: deletionBody,
      response: { 200: deletionAnswer },
    }),
    async (request) => {
      const { named, identities, ucids, ...of } = readDeletion(request.body, calls.readingFor(request.body));
      const { organization } = calls.admit(request, 'profile.delete', of.regions);
      const regions = namesOf(of.regions);
      const answerOf = ({ deleted, notFound }: ProfileDeletionOutcome) => ({
        ucids: deleted,
        deletedProfiles: deleted,
        profilesNotFound: sentOf(missingOf(named, notFound)),
      });
      const resultOf = ({ deleted, notFound }: ProfileDeletionOutcome) => ({
        ucids: deleted,
        not_found: missingOf(named, notFound).length,
      });
      const outcome = await calls.audited(request, {
        requested: {
          name: 'deleted',
          organization_id: organization.id,
          regions,
          identity_types: [of.identityType],
          requested: named.length,
        },
        async run() {
          // Values that no profile can have need no store.
          if (identities.length + ucids.length === 0) return { deleted: [], notFound: [] };
          return profiles.delete({ identities, ucids, org: organization.org_id, regions });
        },
        partialOutcome: (error) => (error instanceof PartialDeletion ? error.outcome : undefined),
        resultOf,
        answerOf,
      });
      const answer = answerOf(outcome);
      // A deletion that deleted nothing is no news to the organization.
      if (request.body.sendEmailNotification === true && outcome.deleted.length > 0)
        await requestMail({
          id: request.id,
          organization_id: organization.id,
          regions,
          at: iso(clock()),
          by: authorOf(request.caller),
          counts: {
            requested: named.length,
            deleted: outcome.deleted.length,
            not_found: resultOf(outcome).not_found,
          },
        }).catch((error: unknown) => {
          throw error instanceof TributaryError && error.retryable ? unavailable(answer, error) : error;
        });
      return answer;
    },
  );
};

/**
 * Reads the body of a deletion. 400 for all faults of its shape. A value that no profile can have (a placeholder, a too
 * long one) is reported as not found, and the others are deleted.
 */
export function readDeletion(body: Static<typeof deletionBody>, reading: IdentityReading = {}) {
  const faults: ErrorDetail[] = [];
  const regions = eitherRegions(body, faults);
  const [type, ...others] = Object.keys(body.ids);
  if (type === undefined || others.length > 0)
    faults.push({ path: '/ids', message: 'must hold exactly one identifier type' });
  else faults.push(...nameFault(type, '/ids'));
  if (type === undefined || faults.length > 0) throw invalidRequest(...faults.slice(0, MAX_DETAILS));
  return { regions, identityType: type, ...distinctIn(body.ids, 'every', reading) };
}
