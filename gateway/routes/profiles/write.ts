import {
  below,
  distinctIdentities,
  type Identity,
  type IdentityReading,
  type NullMeaning,
  type ProfileWrite,
  type SpelledBefore,
} from '@tributary/core';
import type { Static } from 'typebox';
import { type ErrorDetail, invalidRequest } from '../../errors/api-error.ts';
import { MAX_DETAILS } from '../../errors/validation.ts';
import { eitherRegions, type NamedRegion } from './admission.ts';
import { readAttributes } from './attributes.ts';
import { refuseHeavyValues, refuseManyIdentities, refuseManyValues } from './bounds.ts';
import { countOf, type NamedValue, readIdentity, readUcid, valuesOf, withSpellings } from './identities.ts';
import type { writeBody } from './schemas.ts';

type WriteBody = Static<typeof writeBody>;

/** What a body wants to be written, before it is known who may write it where. */
export interface WriteRequest {
  readonly region: NamedRegion;
  readonly identities: readonly Identity[];
  readonly spelledBefore?: readonly SpelledBefore[];
  readonly ucid?: string;
  readonly attributes: ProfileWrite['attributes'];
  /** Name and value of each. */
  /** `null` takes it away. */
  readonly preferences: readonly (readonly [string, string | null])[];
  readonly consents: readonly (readonly [string, string | null])[];
}

/**
 * Reads either shape of the body: `region` with `ids`, or `regions` with `search`, which then name one region and one
 * value each. `now` in epoch ms; `nulls` of attributes, as a `null` preference or consent is always taken away. 400 with everything that is wrong; 413 when it is more than a profile can hold.
 */
export function readWrite(
  body: WriteBody,
  now: number,
  nulls: NullMeaning,
  reading: IdentityReading = {},
): WriteRequest {
  const { ids, search, upsert } = body;
  refuseManyIdentities(search == null ? Object.keys(ids ?? {}).length : countOf(search), namesIn(body));
  refuseManyValues(upsert ?? {});
  const faults: ErrorDetail[] = [];
  const [region, ...others] = eitherRegions(body, faults);
  if (others.length > 0) faults.push({ path: '/regions', message: 'must hold exactly one region' });
  const named = namedValues(body, faults).flatMap(({ value, ...where }) => {
    const identity = readIdentity({ value, ...where }, faults, reading);
    return identity === undefined ? [] : [{ identity, sent: value }];
  });
  const identities = distinctIdentities(named.map(({ identity }) => identity));
  const spelledBefore = named.flatMap(({ identity: of, sent }) =>
    identities.includes(of)
      ? withSpellings(of, sent, 'usual', reading).flatMap((identity) =>
          identity === of ? [] : [{ of, identity }],
        )
      : [],
  );
  const ucid = body.ucid == null ? undefined : readUcid({ value: body.ucid, path: '/ucid' }, faults);
  const values = {
    attributes: readAttributes(upsert?.profile ?? {}, '/upsert/profile', faults, now, nulls),
    preferences: Object.entries(upsert?.mkt_preferences ?? {}),
    consents: Object.entries(upsert?.consent ?? {}),
  };
  if (identities.length === 0 && ucid === undefined && faults.length === 0)
    faults.push({ path: namesIn(body), message: 'must hold an identifier where there is no ucid' });
  if (faults.length > 0 || region === undefined) throw invalidRequest(...faults.slice(0, MAX_DETAILS));
  refuseHeavyValues(values);
  return {
    region,
    identities,
    ...(spelledBefore.length === 0 ? {} : { spelledBefore }),
    ...(ucid === undefined ? {} : { ucid }),
    ...values,
  };
}

/** Where the identities of a write stand. */
export function namesIn({ search }: Pick<WriteBody, 'search'>): '/ids' | '/search' {
  return search == null ? '/ids' : '/search';
}

/** Where an identity of a write stands: of a type there is one. */
export function placeOf(body: Pick<WriteBody, 'search'>, { type }: Identity): string {
  return body.search == null ? below('/ids', type) : below(below('/search', type), 0);
}

/** 400 where there are identities that the organization blocks. */
export function refuseBlocked(blocked: readonly Identity[], body: Pick<WriteBody, 'search'>): void {
  if (blocked.length === 0) return;
  throw invalidRequest(
    ...blocked.slice(0, MAX_DETAILS).map((identity) => ({
      path: placeOf(body, identity),
      message: 'names nobody: the organization blocks it',
    })),
  );
}

function namedValues(body: WriteBody, faults: ErrorDetail[]): readonly NamedValue[] {
  const { region, ids, regions, search } = body;
  if (search != null && ids != null)
    faults.push({ path: '/search', message: 'must not be there beside ids' });
  else if (search != null && region != null)
    faults.push({ path: '/search', message: 'goes with regions, as ids does with region' });
  else if (search == null && regions != null && region == null)
    faults.push({ path: '/regions', message: 'goes with search, as region does with ids' });
  if (search == null)
    return Object.entries(ids ?? {}).map(([type, value]) => ({ type, value, path: below('/ids', type) }));
  for (const [type, values] of Object.entries(search))
    if (values.length !== 1)
      faults.push({ path: below('/search', type), message: 'must hold exactly one value to write' });
  return valuesOf(search, '/search');
}
