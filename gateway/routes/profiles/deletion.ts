import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  type Identity,
  type IdentityReading,
  identityKey,
  iso,
  PartialDeletion,
  type ProfileDeletionOutcome,
  TributaryError,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import { authorOf } from '../../authentication/caller.ts';
import { type ErrorDetail, invalidRequest, unavailable } from '../../errors/api-error.ts';
import { MAX_DETAILS } from '../../errors/error-handler.ts';
import { closed, listOf, operation, optional } from '../../resources/schemas.ts';
import {
  IDENTITY_TYPES,
  identityValue,
  mapOf,
  nameFault,
  orgId,
  parseValue,
  region,
  regions,
  valuesOf,
  withSpellings,
} from './bodies.ts';
import { eitherRegions, type NamedRegion, namesOf, type ProfileCallOptions } from './calls.ts';

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
    sendEmailNotification: optional(
      Type.Boolean({ description: 'Whether a notification e-mail is sent. Default false.' }),
    ),
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
            requested: requested.requested,
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

/** The distinct identities, each with its older spellings, or ucids to delete. */
export interface DeletionRequest {
  readonly regions: readonly NamedRegion[];
  /** The type of all identities, or `ucid`. */
  readonly identityType: string;
  readonly identities: readonly Identity[];
  readonly ucids: readonly string[];
  /** The number of distinct values, invalid ones included. */
  readonly requested: number;
  /** The number of invalid values. */
  readonly unreadable: number;
  /** The values without a match, as sent and in order. `notFound`: indices of `identities` or `ucids`. */
  notFoundAsSent(notFound: readonly number[]): readonly string[];
  /** The number of distinct values without a match. */
  countNotFound(notFound: readonly number[]): number;
}

/** Equivalent values of a body. */
interface Named {
  readonly sent: Set<string>;
  /** Indices among the identities, older spellings included, or the ucids; none for an invalid value. */
  readonly indexes: Set<number>;
}

/**
 * Reads the body of a deletion. 400 for all faults of its shape. A value that no profile can have (a placeholder, a too
 * long one) is reported as not found, and the others are deleted.
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
  const indexOf = new Map<string, number>();
  for (const one of valuesOf(body.ids, '/ids')) {
    const parsed = parseValue(one, reading);
    const key =
      parsed === undefined
        ? `?${one.value}`
        : parsed.kind === 'ucid'
          ? parsed.ucid
          : identityKey(parsed.identity);
    const known = named.get(key) ?? { sent: new Set(), indexes: new Set() };
    named.set(key, known);
    known.sent.add(one.value);
    if (parsed?.kind === 'ucid' && known.indexes.size === 0) known.indexes.add(ucids.push(parsed.ucid) - 1);
    if (parsed?.kind !== 'identity') continue;
    for (const spelling of withSpellings(parsed.identity, one.value, 'every', reading)) {
      const spelled = identityKey(spelling);
      const index = indexOf.get(spelled) ?? identities.push(spelling) - 1;
      indexOf.set(spelled, index);
      known.indexes.add(index);
    }
  }
  return {
    regions,
    identityType: type,
    identities,
    ucids,
    requested: named.size,
    unreadable: [...named.values()].filter(({ indexes }) => indexes.size === 0).length,
    notFoundAsSent: (notFound) => missingOf(notFound).flatMap(({ sent }) => [...sent]),
    countNotFound: (notFound) => missingOf(notFound).length,
  };

  /** A value is missing when all of its spellings are. */
  function missingOf(notFound: readonly number[]): readonly Named[] {
    const missing = new Set(notFound);
    return [...named.values()].filter(({ indexes }) => [...indexes].every((index) => missing.has(index)));
  }
}
