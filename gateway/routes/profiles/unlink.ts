import {
  type Identity,
  identityKey,
  type ProfileUnlink,
  type ProfileUnlinkOutcome,
  type UnlinkRefusal,
} from '@tributary/core';
import type { Static } from 'typebox';
import { type ApiError, type ErrorDetail, invalidRequest } from '../../http/errors.ts';
import { MAX_DETAILS } from '../../http/validation.ts';
import type { NamedRegion } from './admission.ts';
import { refuseManyIdentities, tooLarge } from './bounds.ts';
import { countOf, readIdentity, readUcid, valuesOf } from './identities.ts';
import type { unlinkAnswer, unlinkBody } from './schemas.ts';

/** What a body wants to be unlinked, before it is known who may do it where. */
export interface UnlinkRequest extends Pick<ProfileUnlink, 'identities' | 'ucid'> {
  readonly region: NamedRegion;
  /** How each of the identities was written in the body, by its place. */
  readonly asSent: readonly (readonly string[])[];
}

/** 400 with everything that is wrong. */
export function readUnlink(body: Static<typeof unlinkBody>): UnlinkRequest {
  refuseManyIdentities(countOf(body.ids), '/ids');
  const faults: ErrorDetail[] = [];
  const distinct = new Map<string, { readonly identity: Identity; readonly sent: Set<string> }>();
  for (const named of valuesOf(body.ids, '/ids')) {
    const identity = readIdentity(named, faults);
    if (identity === undefined) continue;
    const key = identityKey(identity);
    const one = distinct.get(key) ?? { identity, sent: new Set<string>() };
    one.sent.add(named.value);
    distinct.set(key, one);
  }
  if (distinct.size === 0 && faults.length === 0)
    faults.push({ path: '/ids', message: 'must hold an identifier' });
  const ucid = body.ucid == null ? undefined : readUcid({ value: body.ucid, path: '/ucid' }, faults);
  if (faults.length > 0) throw invalidRequest(...faults.slice(0, MAX_DETAILS));
  const all = [...distinct.values()];
  return {
    region: { name: body.region, path: '/region' },
    identities: all.map(({ identity }) => identity),
    ...(ucid === undefined ? {} : { ucid }),
    asSent: all.map(({ sent }) => [...sent]),
  };
}

/** What the caller is told where nothing is wrong with what it asked for. */
export function unlinkAnswerOf(
  outcome: ProfileUnlinkOutcome,
  asSent: UnlinkRequest['asSent'],
): Static<typeof unlinkAnswer> {
  return outcome.kind === 'unlinked'
    ? {
        ucids: [outcome.profile.ucid],
        identitiesNotFound: outcome.notHeld.flatMap((at) => asSent[at] ?? []),
      }
    : { ucids: [], identitiesNotFound: asSent.flat() };
}

/** How many of the named identities belonged to nobody; 0 where the call was refused for another reason. */
export function notFoundBy(outcome: ProfileUnlinkOutcome, requested: number): number {
  if (outcome.kind === 'unlinked') return outcome.notHeld.length;
  return outcome.reason === 'nobody' ? requested : 0;
}

/** The refusal as an error; undefined where it is an answer: that nobody has the identities. */
export function unlinkRefusal(
  reason: UnlinkRefusal,
  names: Pick<UnlinkRequest, 'ucid'>,
): ApiError | undefined {
  switch (reason) {
    case 'nobody':
      return names.ucid === undefined
        ? undefined
        : invalidRequest({ path: '/ucid', message: 'is no profile of the region' });
    case 'several_profiles':
      return invalidRequest({
        path: '/ids',
        message: 'are of several profiles: unlink those of one profile at a time',
      });
    case 'too_large':
      return tooLarge();
  }
}
