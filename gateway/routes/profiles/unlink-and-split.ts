import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  below,
  type Identity,
  type IdentityReading,
  identityKey,
  type ProfileSplitOutcome,
  type ProfileUnlink,
  type ProfileUnlinkOutcome,
  type SplitRefusal,
  type UnattributedValues,
  type UnlinkRefusal,
} from '@tributary/core';
import type { Static } from 'typebox';
import { type ApiError, conflict, type ErrorDetail, invalidRequest } from '../../errors/api-error.ts';
import { MAX_DETAILS } from '../../errors/validation.ts';
import { errorAnswers } from '../../resources/schemas.ts';
import type { NamedRegion } from './admission.ts';
import { refuseManyIdentities, tooLarge } from './bounds.ts';
import { countOf, readIdentity, readUcid, UCID, valuesOf, withSpellings } from './identities.ts';
import type { ProfileCallOptions } from './profile-calls.ts';
import { splitAnswer, splitBody, unlinkAnswer, unlinkBody } from './schemas.ts';

/** `POST /cdp/v1/users/_unlink`. */
export const unlinkRoute: FastifyPluginAsyncTypebox<ProfileCallOptions> = async (app, { calls }) => {
  const { profiles } = calls.dependencies;

  app.post(
    '/users/_unlink',
    {
      config: { operation: 'profiles.unlink' },
      schema: {
        operationId: 'unlinkIdentities',
        summary: 'Remove identities from a profile',
        description:
          'An extension of the specification. Removes the identities, all of one profile, so that they belong to no profile. No event links them to that profile again, whenever it happened; a write that names them together with an identity of the profile or its `ucid` does. With a `ucid`, identities that the profile does not have are blocked too. Values written before stay with the profile.',
        body: unlinkBody,
        response: { 200: unlinkAnswer, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { region, named, ...names } = readUnlink(request.body, calls.readingFor(request.body));
      const { organization } = calls.admit(request, 'profile.write', [region]);
      const scope = { org: organization.org_id, region: region.name };
      const outcome = await calls.bounded(request, organization, () =>
        calls.audited(request, {
          requested: {
            name: 'unlinked',
            organization_id: organization.id,
            regions: [region.name],
            identity_types: [...new Set(names.identities.map(({ type }) => type))].sort(),
            requested: named.length,
          },
          run: () => profiles.unlink({ ...names, ...scope }),
          resultOf: (result) => ({
            ucids: unlinkAnswerOf(result, named).ucids,
            not_found: notFoundBy(result, named),
          }),
        }),
      );
      const refusal = outcome.kind === 'refused' ? unlinkRefusal(outcome.reason, names) : undefined;
      if (refusal !== undefined) throw refusal;
      return reply.code(200).send(unlinkAnswerOf(outcome, named));
    },
  );
};

/** `POST /cdp/v1/users/_split`. */
export const splitRoute: FastifyPluginAsyncTypebox<ProfileCallOptions> = async (app, { calls }) => {
  const { profiles } = calls.dependencies;

  app.post(
    '/users/_split',
    {
      config: { operation: 'profiles.split' },
      schema: {
        operationId: 'splitProfile',
        summary: 'Undo a merge of two profiles',
        description:
          'An extension of the specification. The ucid, which became part of another profile, names a profile of its own again. It gets the identities and values that were written to it before the merge, as far as no newer one replaced them; the other one, the survivor, loses them and keeps everything else. Values written after the merge cannot be attributed: they stay and are listed as `kept`. No event makes them one again; a write that names identities of both does. 409 with the reason `not_merged` where the ucid is a profile of its own, as after a split that was done, and `unknown_origin` where nothing of the profile is known to have come from it: it was merged before version 0.2.0, everything was replaced since, or the profile is too large to keep origins.',
        body: splitBody,
        response: { 200: splitAnswer, ...errorAnswers },
      },
    },
    async (request, reply) => {
      const { region, ucid } = readSplit(request.body);
      const { organization, mayRead } = calls.admit(request, 'profile.write', [region]);
      const outcome = await calls.bounded(request, organization, () =>
        calls.audited(request, {
          requested: {
            name: 'split',
            organization_id: organization.id,
            regions: [region.name],
            identity_types: [UCID],
            requested: 1,
          },
          run: () => profiles.split({ org: organization.org_id, region: region.name, ucid }),
          resultOf: (result) =>
            result.kind === 'refused'
              ? { ucids: [], not_found: result.reason === 'unknown_ucid' ? 1 : 0 }
              : { ucids: [ucid, result.survivor.ucid], not_found: 0 },
        }),
      );
      if (outcome.kind === 'refused') throw splitRefusal(outcome.reason);
      return reply.code(200).send(splitAnswerOf(outcome, mayRead));
    },
  );
};

interface NamedIdentity {
  /** The values as sent. */
  readonly sent: ReadonlySet<string>;
  readonly indexes: ReadonlySet<number>;
}

/** The body of an unlink. */
interface UnlinkRequest extends Pick<ProfileUnlink, 'identities' | 'ucid'> {
  readonly region: NamedRegion;
  /** The distinct identities of the body, each with the indices of its spellings among `identities`. */
  readonly named: readonly NamedIdentity[];
}

/** 400 for all faults of the body. */
export function readUnlink(body: Static<typeof unlinkBody>, reading: IdentityReading = {}): UnlinkRequest {
  refuseManyIdentities(countOf(body.ids), '/ids');
  const faults: ErrorDetail[] = [];
  const distinct = new Map<string, { readonly sent: Set<string>; readonly indexes: Set<number> }>();
  const identities: Identity[] = [];
  const indexOf = new Map<string, number>();
  for (const named of valuesOf(body.ids, '/ids')) {
    const identity = readIdentity(named, faults, reading);
    if (identity === undefined) continue;
    const key = identityKey(identity);
    const one = distinct.get(key) ?? { sent: new Set(), indexes: new Set() };
    distinct.set(key, one);
    one.sent.add(named.value);
    for (const spelling of withSpellings(identity, named.value, 'usual', reading)) {
      const spelled = identityKey(spelling);
      const index = indexOf.get(spelled) ?? identities.push(spelling) - 1;
      indexOf.set(spelled, index);
      one.indexes.add(index);
    }
  }
  if (distinct.size === 0 && faults.length === 0)
    faults.push({ path: '/ids', message: 'must hold an identifier' });
  const ucid = body.ucid == null ? undefined : readUcid({ value: body.ucid, path: '/ucid' }, faults);
  if (faults.length > 0) throw invalidRequest(...faults.slice(0, MAX_DETAILS));
  return {
    region: { name: body.region, path: '/region' },
    identities,
    ...(ucid === undefined ? {} : { ucid }),
    named: [...distinct.values()],
  };
}

/** The response to an unlink that is not refused. */
function unlinkAnswerOf(
  outcome: ProfileUnlinkOutcome,
  named: UnlinkRequest['named'],
): Static<typeof unlinkAnswer> {
  return outcome.kind === 'unlinked'
    ? {
        ucids: [outcome.profile.ucid],
        identitiesNotFound: notHeldOf(outcome.notHeld, named).flatMap(({ sent }) => [...sent]),
      }
    : { ucids: [], identitiesNotFound: named.flatMap(({ sent }) => [...sent]) };
}

/** The number of identities without a profile; 0 when the unlink was refused for another reason. */
function notFoundBy(outcome: ProfileUnlinkOutcome, named: UnlinkRequest['named']): number {
  if (outcome.kind === 'unlinked') return notHeldOf(outcome.notHeld, named).length;
  return outcome.reason === 'no_profile' ? named.length : 0;
}

/** The identities of which the profile had no spelling. */
function notHeldOf(notHeld: readonly number[], named: UnlinkRequest['named']): readonly NamedIdentity[] {
  const indexes = new Set(notHeld);
  return named.filter((one) => [...one.indexes].every((index) => indexes.has(index)));
}

/** The error of a refusal; undefined when no profile has the identities, which is a successful response. */
function unlinkRefusal(reason: UnlinkRefusal, names: Pick<UnlinkRequest, 'ucid'>): ApiError | undefined {
  switch (reason) {
    case 'no_profile':
      return names.ucid === undefined
        ? undefined
        : invalidRequest({ path: '/ucid', message: 'is not a profile of the region' });
    case 'several_profiles':
      return invalidRequest({
        path: '/ids',
        message: 'belong to several profiles: unlink those of one profile at a time',
      });
    case 'too_large':
      return tooLarge();
  }
}

/** The body of a split. */
interface SplitRequest {
  readonly region: NamedRegion;
  readonly ucid: string;
}

/** 400 for an invalid ucid. */
function readSplit(body: Static<typeof splitBody>): SplitRequest {
  const faults: ErrorDetail[] = [];
  const ucid = readUcid({ value: body.ucid, path: '/ucid' }, faults);
  if (ucid === undefined) throw invalidRequest(...faults);
  return { region: { name: body.region, path: '/region' }, ucid };
}

/** `kept` names attributes of the profile, so it is only for callers that may read them. */
function splitAnswerOf(
  { profile, survivor, kept }: Extract<ProfileSplitOutcome, { kind: 'split' }>,
  mayRead: boolean,
): Static<typeof splitAnswer> {
  return { ucid: profile.ucid, survivor: survivor.ucid, ...(mayRead ? { kept: pointersOf(kept) } : {}) };
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
