import { type Identity, identityKey } from '@tributary/core';
import type { Static } from 'typebox';
import { type ErrorDetail, invalidRequest } from '../../http/errors.ts';
import { MAX_DETAILS } from '../../http/validation.ts';
import type { NamedRegion } from './admission.ts';
import { nameFault, readMeaning, valuesOf } from './identities.ts';
import { eitherRegions } from './regions.ts';
import type { deletionBody } from './schemas.ts';

/** What a body wants to be deleted: identities or ucids, none twice. */
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
}

/** Values of a body that mean the same. */
interface Named {
  readonly sent: Set<string>;
  /** Its place among the identities or the ucids; undefined for a value that can be neither. */
  readonly place: number | undefined;
}

/**
 * 400 with everything that is wrong with the shape of the body. A value that no profile can have (a placeholder, one
 * that is too long, ...) is not found, like any other that nobody has: the rest of the list is deleted.
 */
export function readDeletion(body: Static<typeof deletionBody>): DeletionRequest {
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
  for (const one of valuesOf(body.ids, '/ids')) {
    const meaning = readMeaning(one);
    const key =
      meaning === undefined
        ? `?${one.value}`
        : meaning.kind === 'ucid'
          ? meaning.ucid
          : identityKey(meaning.identity);
    const known = named.get(key);
    if (known !== undefined) {
      known.sent.add(one.value);
      continue;
    }
    const place =
      meaning === undefined
        ? undefined
        : (meaning.kind === 'ucid' ? ucids.push(meaning.ucid) : identities.push(meaning.identity)) - 1;
    named.set(key, { sent: new Set([one.value]), place });
  }
  return {
    regions,
    identityType: type,
    identities,
    ucids,
    requested: named.size,
    unreadable: named.size - identities.length - ucids.length,
    notFoundAsSent(notFound) {
      const places = new Set(notFound);
      return [...named.values()].flatMap(({ place, sent }) =>
        place === undefined || places.has(place) ? [...sent] : [],
      );
    },
  };
}
