import { distinctIdentities, type Identity } from '@tributary/core';
import type { Static } from 'typebox';
import { type ErrorDetail, invalidRequest } from '../../http/errors.ts';
import { MAX_DETAILS } from '../../http/validation.ts';
import type { NamedRegion } from './admission.ts';
import { countOf, readValues, valuesOf } from './identities.ts';
import { regionsOf } from './regions.ts';
import { MAX_SEARCHED, type searchBody } from './schemas.ts';

/** What a body looks for. */
export interface SearchRequest {
  readonly regions: readonly NamedRegion[];
  readonly identities: readonly Identity[];
  readonly ucids: readonly string[];
}

/** 400 with everything that is wrong. */
export function readSearch({ regions, search }: Static<typeof searchBody>): SearchRequest {
  const count = countOf(search);
  if (count === 0) throw invalidRequest({ path: '/search', message: 'must not be empty' });
  if (count > MAX_SEARCHED)
    throw invalidRequest({ path: '/search', message: `must hold at most ${MAX_SEARCHED} values in all` });
  const faults: ErrorDetail[] = [];
  const meanings = readValues(valuesOf(search, '/search'), faults);
  if (faults.length > 0) throw invalidRequest(...faults.slice(0, MAX_DETAILS));
  const identities = meanings.flatMap((one) => (one.kind === 'identity' ? [one.identity] : []));
  const ucids = meanings.flatMap((one) => (one.kind === 'ucid' ? [one.ucid] : []));
  return {
    regions: regionsOf(regions),
    identities: distinctIdentities(identities),
    ucids: [...new Set(ucids)],
  };
}
