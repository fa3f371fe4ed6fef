import { distinctIdentities, type Identity, type IdentityReading, type Profile } from '@tributary/core';
import type { Static } from 'typebox';
import { type ErrorDetail, invalidRequest } from '../../errors/api-error.ts';
import { MAX_DETAILS } from '../../errors/validation.ts';
import type { NamedRegion } from './admission.ts';
import { countOf, readValues, valuesOf, withSpellings } from './identities.ts';
import { regionsOf } from './regions.ts';
import { MAX_SEARCHED, type searchBody } from './schemas.ts';

/** What a body looks for. */
export interface SearchRequest {
  readonly regions: readonly NamedRegion[];
  readonly identities: readonly Identity[];
  readonly ucids: readonly string[];
  /** All older spellings of the identities that none of these profiles has. */
  spellingsBeyond(found: readonly Profile[]): readonly Identity[];
}

/** 400 with everything that is wrong. */
export function readSearch(
  { regions, search }: Static<typeof searchBody>,
  reading: IdentityReading,
): SearchRequest {
  const count = countOf(search);
  if (count === 0) throw invalidRequest({ path: '/search', message: 'must not be empty' });
  if (count > MAX_SEARCHED)
    throw invalidRequest({ path: '/search', message: `must hold at most ${MAX_SEARCHED} values in all` });
  const faults: ErrorDetail[] = [];
  const meanings = readValues(valuesOf(search, '/search'), faults, reading);
  if (faults.length > 0) throw invalidRequest(...faults.slice(0, MAX_DETAILS));
  const named = meanings.flatMap((one) => (one.kind === 'identity' ? [one] : []));
  const spelled = (breadth: 'usual' | 'every', some = named) =>
    distinctIdentities(some.flatMap(({ identity, sent }) => withSpellings(identity, sent, breadth, reading)));
  const ucids = meanings.flatMap((one) => (one.kind === 'ucid' ? [one.ucid] : []));
  return {
    regions: regionsOf(regions),
    identities: spelled('usual'),
    ucids: [...new Set(ucids)],
    spellingsBeyond(found) {
      const had = new Set(
        found.flatMap(({ identities }) => identities.map(({ type, value }) => `${type}=${value}`)),
      );
      const missing = named.filter(({ identity: { type, value } }) => !had.has(`${type}=${value}`));
      const looked = new Set(missing.map(({ identity }) => identity));
      return spelled('every', missing).filter((identity) => !looked.has(identity));
    },
  };
}
