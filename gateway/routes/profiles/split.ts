import { below, type KeptPlaces, type ProfileSplitOutcome, type SplitRefusal } from '@tributary/core';
import type { Static } from 'typebox';
import { type ApiError, conflict, type ErrorDetail, invalidRequest } from '../../errors/api-error.ts';
import type { NamedRegion } from './admission.ts';
import { tooLarge } from './bounds.ts';
import { readUcid } from './identities.ts';
import type { splitAnswer, splitBody } from './schemas.ts';

/** What a body wants to be split off, before it is known who may do it where. */
export interface SplitRequest {
  readonly region: NamedRegion;
  readonly ucid: string;
}

/** 400 where the ucid is none. */
export function readSplit(body: Static<typeof splitBody>): SplitRequest {
  const faults: ErrorDetail[] = [];
  const ucid = readUcid({ value: body.ucid, path: '/ucid' }, faults);
  if (ucid === undefined) throw invalidRequest(...faults);
  return { region: { name: body.region, path: '/region' }, ucid };
}

/** `kept` names attributes of the profile: only for a caller that may read them. */
export function splitAnswerOf(
  { profile, survivor, kept }: Extract<ProfileSplitOutcome, { kind: 'split' }>,
  mayRead: boolean,
): Static<typeof splitAnswer> {
  return { ucid: profile.ucid, survivor: survivor.ucid, ...(mayRead ? { kept: pointersOf(kept) } : {}) };
}

export function splitRefusal(reason: SplitRefusal): ApiError {
  switch (reason) {
    case 'unknown_ucid':
      return invalidRequest({ path: '/ucid', message: 'is no profile of the region' });
    case 'not_merged':
    case 'unknown_origin':
      return conflict(reason);
    case 'too_large':
      return tooLarge();
  }
}

/** JSON pointers into a record. */
function pointersOf({ attributes, preferences, consents, identityTypes }: KeptPlaces): readonly string[] {
  return [
    ...attributes.map((path) => path.reduce<string>(below, '/profile')),
    ...preferences.map((name) => below('/mkt_preferences', name)),
    ...consents.map((name) => below('/consent', name)),
    ...identityTypes.map((type) => below('/ids', type)),
  ];
}
