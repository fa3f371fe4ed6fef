import { type Identity, identityKey } from '@tributary/core';
import type { Static } from 'typebox';
import { type ErrorDetail, invalidRequest } from '../../http/errors.ts';
import { MAX_DETAILS } from '../../http/validation.ts';
import type { NamedRegion } from './admission.ts';
import { type Meaning, readValues, valuesOf } from './identities.ts';
import { eitherRegions } from './regions.ts';
import type { deletionBody } from './schemas.ts';

/** What a body wants to be deleted: identities or ucids, none twice. */
export interface DeletionRequest {
  readonly regions: readonly NamedRegion[];
  readonly identities: readonly Identity[];
  readonly ucids: readonly string[];
  /** How each of them was written in the body, by its place in whichever list there is. */
  readonly asSent: readonly (readonly string[])[];
}

/** 400 with everything that is wrong. */
export function readDeletion(body: Static<typeof deletionBody>): DeletionRequest {
  const faults: ErrorDetail[] = [];
  const regions = eitherRegions(body, faults);
  const hasOneType = Object.keys(body.ids).length === 1;
  if (!hasOneType) faults.push({ path: '/ids', message: 'must hold exactly one identifier type' });
  // Only one type has a bounded number of values.
  const values = hasOneType ? valuesOf(body.ids, '/ids') : [];
  const meanings = readValues(values, faults);
  if (faults.length > 0) throw invalidRequest(...faults.slice(0, MAX_DETAILS));
  const distinct = new Map<string, { readonly meaning: Meaning; readonly sent: Set<string> }>();
  meanings.forEach((meaning, at) => {
    const key = meaning.kind === 'ucid' ? meaning.ucid : identityKey(meaning.identity);
    const one = distinct.get(key) ?? { meaning, sent: new Set<string>() };
    one.sent.add(values[at]?.value ?? '');
    distinct.set(key, one);
  });
  const all = [...distinct.values()];
  return {
    regions,
    identities: all.flatMap(({ meaning }) => (meaning.kind === 'identity' ? [meaning.identity] : [])),
    ucids: all.flatMap(({ meaning }) => (meaning.kind === 'ucid' ? [meaning.ucid] : [])),
    asSent: all.map(({ sent }) => [...sent]),
  };
}
