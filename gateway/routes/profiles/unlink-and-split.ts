import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  below,
  type IdentityReading,
  type ProfileSplitOutcome,
  type ProfileUnlinkOutcome,
  type SplitRefusal,
  type UnattributedValues,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import { type ApiError, conflict, type ErrorDetail, invalidRequest } from '../../errors/api-error.ts';
import { MAX_DETAILS } from '../../errors/error-handler.ts';
import { closed, listOf, operation, optional, string } from '../../resources/schemas.ts';
import {
  countOf,
  distinctIn,
  IDENTITY_TYPES,
  identityValue,
  mapOf,
  missingOf,
  type NamedOnce,
  nameFault,
  orgId,
  readUcid,
  refuseManyIdentities,
  region,
  sentOf,
  tooLarge,
  UCID,
  ucid,
} from './bodies.ts';
import type { ProfileCallOptions } from './calls.ts';

const unlinkBody = closed(
  {
    orgId,
    region,
    ids: mapOf<readonly string[]>(
      { type: 'array', items: identityValue, minItems: 1 },
      'Identifier type to the values to take away from their profile.',
      { ...IDENTITY_TYPES, minProperties: 1 },
    ),
    ucid: optional(ucid),
  },
  {
    title: 'ProfileUnlinkBody',
    examples: [{ orgId: 1, region: 'eu', ids: { email: ['office@example.com'] } }],
  },
);

const splitBody = closed(
  {
    orgId,
    region,
    ucid: string('UUID of a profile that became part of another one.'),
  },
  {
    title: 'ProfileSplitBody',
    examples: [{ orgId: 1, region: 'eu', ucid: '0192f0c2-11aa-7b0e-9d1e-7a2f6d1b4c3d' }],
  },
);

const rests = {
  kept: optional(
    listOf(
      Type.String(),
      'Values that name no part, written after the merge, which the survivor keeps: JSON pointers into its record, one for each type of identity. Only when `profile.read` is effective as well.',
    ),
  ),
  lost: optional(
    listOf(
      Type.String(),
      'Values that only one of the two has, while the other may have had an older one that was not kept: version 0.2.0 merged them, or there were too many. JSON pointers, as `kept`.',
    ),
  ),
};

const unlinkAnswer = Type.Object(
  {
    ucids: listOf(
      Type.String(),
      'The profile that was changed, then that of the identities where they became one; empty when no profile has any of them.',
    ),
    identitiesNotFound: listOf(Type.String(), 'The identities that the profile did not have, as sent.'),
    ...rests,
  },
  { title: 'ProfileUnlink' },
);

const splitAnswer = Type.Object(
  {
    ucid: string('The profile that is one of its own again.', 'uuid'),
    survivor: string('The profile that it was part of.', 'uuid'),
    ...rests,
  },
  { title: 'ProfileSplit' },
);

/** `POST /cdp/v1/users/_unlink`. */
export const unlinkRoute: FastifyPluginAsyncTypebox<ProfileCallOptions> = async (app, { calls }) => {
  const { profiles, profileBounds } = calls.dependencies;

  app.post(
    '/users/_unlink',
    operation('profiles.unlink', 'unlinkIdentities', 'Remove identities from a profile', {
      description:
        'An extension of the specification. Removes the identities, all of one profile, so that they belong to no profile. No event links them to that profile again, whenever it happened; a write that names them together with an identity of the profile or its `ucid` does. With a `ucid`, identities that the profile does not have are blocked too. Where they are all that events or calls named of a part that was merged, or a device of events of its own, they become a profile again, with what their own sources said, as by a split: its ucid is the second of `ucids`. Else the values stay with the profile.',
      body: unlinkBody,
      response: { 200: unlinkAnswer },
    }),
    async (request, reply) => {
      const { region, named, ...names } = readUnlink(request.body, calls.readingFor(request.body));
      const { organization, mayRead } = calls.admit(request, 'profile.write', [region]);
      const scope = { org: organization.org_id, region: region.name };
      const outcome = await calls.bounded(request, reply, organization, () =>
        calls.audited(request, {
          requested: {
            name: 'unlinked',
            organization_id: organization.id,
            regions: [region.name],
            identity_types: [...new Set(names.identities.map(({ type }) => type))].sort(),
            requested: named.length,
          },
          async run(): Promise<ProfileUnlinkOutcome> {
            // Values that no profile can have need no store.
            if (names.identities.length === 0) return { kind: 'refused', reason: 'no_profile' };
            return profiles.unlink({
              ...names,
              ...scope,
              ...(profileBounds === undefined ? {} : { bounds: profileBounds }),
            });
          },
          resultOf: (result) => ({
            ucids: unlinkAnswerOf(result, named, false).ucids,
            not_found: notFoundBy(result, named),
          }),
        }),
      );
      const refusal =
        outcome.kind === 'refused' && names.identities.length > 0
          ? unlinkRefusal(outcome, { ...names, named })
          : undefined;
      if (refusal !== undefined) throw refusal;
      return unlinkAnswerOf(outcome, named, mayRead);
    },
  );
};

/** `POST /cdp/v1/users/_split`. */
export const splitRoute: FastifyPluginAsyncTypebox<ProfileCallOptions> = async (app, { calls }) => {
  const { profiles } = calls.dependencies;

  app.post(
    '/users/_split',
    operation('profiles.split', 'splitProfile', 'Undo a merge of two profiles', {
      description:
        'An extension of the specification. The ucid, which became part of another profile, names a profile of its own again. Each of the two has what was written about its own identities, before the merge and after it, as if they had never been merged. Values that calls wrote after the merge with identities of both, or of neither, stay with the survivor and are listed as `kept`; values of which an older one may have been lost are listed as `lost`. No event makes them one again; a write that names identities of both does. 409 with the reason `not_merged` where the ucid is a profile of its own, as after a split that was done, and `unknown_origin` where nothing of the profile is known to have come from it: it was merged before version 0.2.0, or the profile is too large to keep origins.',
      body: splitBody,
      response: { 200: splitAnswer },
    }),
    async (request, reply) => {
      const faults: ErrorDetail[] = [];
      const ucid = readUcid({ value: request.body.ucid, path: '/ucid' }, faults);
      if (ucid === undefined) throw invalidRequest(...faults);
      const { region } = request.body;
      const place = { name: region, path: '/region' };
      const { organization, mayRead } = calls.admit(request, 'profile.write', [place]);
      const outcome = await calls.bounded(request, reply, organization, () =>
        calls.audited(request, {
          requested: {
            name: 'split',
            organization_id: organization.id,
            regions: [region],
            identity_types: [UCID],
            requested: 1,
          },
          run: () => profiles.split({ org: organization.org_id, region, ucid }),
          resultOf: (result) =>
            result.kind === 'refused'
              ? { ucids: [], not_found: result.reason === 'unknown_ucid' ? 1 : 0 }
              : { ucids: [ucid, result.survivor.ucid], not_found: 0 },
        }),
      );
      if (outcome.kind === 'refused') throw splitRefusal(outcome.reason);
      return splitAnswerOf(outcome, mayRead);
    },
  );
};

/** 400 for all faults of the body. A value that no profile can have is reported as not found. */
function readUnlink(body: Static<typeof unlinkBody>, reading: IdentityReading) {
  refuseManyIdentities(countOf(body.ids), '/ids');
  const faults: ErrorDetail[] = Object.keys(body.ids).flatMap((type) =>
    type === UCID
      ? [{ path: below('/ids', type), message: 'is no identity: name the profile as /ucid' }]
      : nameFault(type, '/ids'),
  );
  const { identities, named } = distinctIn(body.ids, 'usual', reading);
  if (named.length === 0 && faults.length === 0)
    faults.push({ path: '/ids', message: 'must hold an identifier' });
  const ucid = body.ucid == null ? undefined : readUcid({ value: body.ucid, path: '/ucid' }, faults);
  if (faults.length > 0) throw invalidRequest(...faults.slice(0, MAX_DETAILS));
  return {
    region: { name: body.region, path: '/region' },
    identities,
    ...(ucid === undefined ? {} : { ucid }),
    named,
  };
}

/** The response to an unlink that is not refused. */
function unlinkAnswerOf(
  outcome: ProfileUnlinkOutcome,
  named: readonly NamedOnce[],
  mayRead: boolean,
): Static<typeof unlinkAnswer> {
  if (outcome.kind === 'refused') return { ucids: [], identitiesNotFound: sentOf(named) };
  const { profile, notHeld, split } = outcome;
  return {
    ucids: split === undefined ? [profile.ucid] : [profile.ucid, split.ucid],
    identitiesNotFound: sentOf(missingOf(named, notHeld)),
    ...(split !== undefined && mayRead ? restsOf(split) : {}),
  };
}

/** The number of identities without a profile; 0 when the unlink was refused for another reason. */
function notFoundBy(outcome: ProfileUnlinkOutcome, named: readonly NamedOnce[]): number {
  if (outcome.kind === 'unlinked') return missingOf(named, outcome.notHeld).length;
  return outcome.reason === 'no_profile' ? named.length : 0;
}

/** The error of a refusal; undefined when no profile has the identities, which is a successful response. */
function unlinkRefusal(
  { reason, elsewhere = [] }: Extract<ProfileUnlinkOutcome, { kind: 'refused' }>,
  { ucid, named }: { readonly ucid?: string; readonly named: readonly NamedOnce[] },
): ApiError | undefined {
  switch (reason) {
    case 'no_profile':
      return ucid === undefined
        ? undefined
        : invalidRequest({ path: '/ucid', message: 'is not a profile of the region' });
    case 'several_profiles':
      return invalidRequest(
        ...named
          .filter(({ indexes }) => elsewhere.some((index) => indexes.has(index)))
          .slice(0, MAX_DETAILS)
          .map(({ path }) => ({
            path,
            message: `belongs to another profile than ${ucid === undefined ? 'the first of the identities' : 'the ucid'}: unlink those of one profile at a time`,
          })),
      );
    case 'too_large':
      return tooLarge();
  }
}

/** `kept` and `lost` name attributes of the profile, so they are only for callers that may read them. */
function splitAnswerOf(
  { profile, survivor, ...rests }: Extract<ProfileSplitOutcome, { kind: 'split' }>,
  mayRead: boolean,
): Static<typeof splitAnswer> {
  return { ucid: profile.ucid, survivor: survivor.ucid, ...(mayRead ? restsOf(rests) : {}) };
}

function restsOf({ kept, lost }: Pick<Extract<ProfileSplitOutcome, { kind: 'split' }>, 'kept' | 'lost'>) {
  return { kept: pointersOf(kept), lost: pointersOf({ ...lost, identityTypes: [] }) };
}

function splitRefusal(reason: SplitRefusal): ApiError {
  switch (reason) {
    case 'unknown_ucid':
      return invalidRequest({ path: '/ucid', message: 'is not a profile of the region' });
    case 'not_merged':
    case 'unknown_origin':
      return conflict(reason);
    case 'too_large':
      return tooLarge();
  }
}

/** JSON pointers into a record. */
function pointersOf({
  attributes,
  preferences,
  consents,
  identityTypes,
}: UnattributedValues): readonly string[] {
  return [
    ...attributes.map((path) => path.reduce<string>(below, '/profile')),
    ...preferences.map((name) => below('/mkt_preferences', name)),
    ...consents.map((name) => below('/consent', name)),
    ...identityTypes.map((type) => below('/ids', type)),
  ];
}
