import {
  below,
  formerSpellings,
  type Identity,
  type IdentityFault,
  type IdentityReading,
  identityKey,
  isUuid,
  MAX_IDENTITY_CHARACTERS,
  MAX_PROFILE_BYTES,
  MAX_PROFILE_IDENTITIES,
  normaliseIdentity,
  type ProfileExcess,
} from '@tributary/core';
import { type TSchema, Type } from 'typebox';
import { ApiError, type ErrorDetail, invalidRequest } from '../../errors/api-error.ts';
import { documentedAs, freeObject, integer, listOf, string } from '../../resources/schemas.ts';

/** Regions of one call, at most: more than an organization has, to bound the work before admission. */
const MAX_REGIONS = 100;

export const orgId = integer('Organisation identifier.');
export const region = string('Region code.');
export const regions = listOf(region, 'Region codes.', { minItems: 1, maxItems: MAX_REGIONS });
export const ucid = string('UUID of a profile, or of one that became part of it.');

/** A map with keys of the caller. `documented`: keywords for the OpenAPI document. */
export function mapOf<Value>(values: TSchema, description: string, documented: object = {}) {
  return Type.Unsafe<Readonly<Record<string, Value>>>({
    type: 'object',
    additionalProperties: values,
    description,
    ...documentedAs({ ...documented }),
  } satisfies TSchema);
}

/** Documents the checks of `nameFault`. */
export const IDENTITY_TYPES = { propertyNames: { pattern: '^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}$' } };
export const identityValue = Type.String({ ...documentedAs({ pattern: '\\S' }) });

export const valuesByType = mapOf<readonly string[]>(
  { type: 'array', items: identityValue, minItems: 1 },
  'Identifier type to identifier values.',
  IDENTITY_TYPES,
);

export const profileRecord = Type.Object(
  {
    updated_ts: integer('Epoch ms.'),
    created_ts: integer('Epoch ms.'),
    profile: freeObject('Attributes, by category.'),
    ids: freeObject('Identities, by namespace.'),
    mkt_preferences: freeObject('Marketing preferences, by name.'),
    consent: freeObject('Consents, by name.'),
    region: Type.String(),
    ucid: Type.String({ format: 'uuid' }),
  },
  { title: 'ProfileRecord' },
);

export const profileRecords = listOf(profileRecord);

/** Identifies a profile directly; not an identity type. */
export const UCID = 'ucid';

/** A value of a body that identifies a profile. */
export interface NamedValue {
  readonly type: string;
  readonly value: string;
  /** JSON pointer to its place in the body. */
  readonly path: string;
}

type ParsedValue =
  | { readonly kind: 'identity'; readonly identity: Identity; readonly sent: string }
  | { readonly kind: 'ucid'; readonly ucid: string };

const FAULT_MESSAGES: Readonly<Record<IdentityFault, string>> = {
  type: 'is not a valid name of an identifier type',
  reserved_type: 'is reserved and not an identifier type',
  not_text: 'must be well-formed text',
  too_long: `must have at most ${MAX_IDENTITY_CHARACTERS} characters`,
  placeholder: 'is a placeholder and identifies no person',
};

/** Parses one value; undefined for a value that no profile can have. */
export function parseValue({ type, value }: NamedValue, reading: IdentityReading): ParsedValue | undefined {
  if (type === UCID) return isUuid(value) ? { kind: 'ucid', ucid: value.toLowerCase() } : undefined;
  const normalised = normaliseIdentity(type, value, reading);
  return normalised.kind === 'identity' ? { ...normalised, sent: value } : undefined;
}

/** The faults of a type, independent of its values. */
export function nameFault(type: string, path: string): readonly ErrorDetail[] {
  if (type === UCID) return [];
  const normalised = normaliseIdentity(type, 'a value that an identity of any type can have');
  const isName = normalised.kind === 'identity' || !['type', 'reserved_type'].includes(normalised.fault);
  return isName ? [] : [{ path: below(path, type), message: FAULT_MESSAGES[normalised.fault] }];
}

export function readIdentity(
  { type, value, path }: NamedValue,
  faults: ErrorDetail[],
  reading: IdentityReading,
): Identity | undefined {
  const normalised = normaliseIdentity(type, value, reading);
  if (normalised.kind === 'identity') return normalised.identity;
  faults.push({ path, message: FAULT_MESSAGES[normalised.fault] });
  return undefined;
}

/** The identity and its older spellings, which earlier releases may have stored. */
export function withSpellings(
  identity: Identity,
  sent: string,
  breadth: 'usual' | 'every',
  reading: IdentityReading,
): readonly Identity[] {
  return [identity, ...formerSpellings(identity, sent, breadth, reading)];
}

/** In lower case, as stored. */
export function readUcid(
  { value, path }: Pick<NamedValue, 'value' | 'path'>,
  faults: ErrorDetail[],
): string | undefined {
  if (isUuid(value)) return value.toLowerCase();
  faults.push({ path, message: 'must be a UUID' });
  return undefined;
}

/** The number of values of a map, for bounds that are checked before the values are parsed. */
export function countOf(map: Readonly<Record<string, readonly string[]>>): number {
  return Object.values(map).reduce((count, values) => count + values.length, 0);
}

/** The values of a map from type to values, with their places. */
export function valuesOf(
  map: Readonly<Record<string, readonly string[]>>,
  path: string,
): readonly NamedValue[] {
  return Object.entries(map).flatMap(([type, values]) =>
    values.map((value, at) => ({ type, value, path: below(below(path, type), at) })),
  );
}

/** The values of a body that name the same identity or ucid. */
export interface NamedOnce {
  /** As sent. */
  readonly sent: Set<string>;
  /** JSON pointer to the first of them. */
  readonly path: string;
  /** Indices among the identities, older spellings included, or the ucids; none for a value that no profile can have. */
  readonly indexes: Set<number>;
}

/** The distinct identities of a body with their older spellings, the distinct ucids, and which values named them. */
export function distinctIn(
  ids: Readonly<Record<string, readonly string[]>>,
  breadth: 'usual' | 'every',
  reading: IdentityReading,
) {
  const distinct = new Map<string, NamedOnce>();
  const identities: Identity[] = [];
  const ucids: string[] = [];
  const indexOf = new Map<string, number>();
  for (const { type, value, path } of valuesOf(ids, '/ids')) {
    const parsed = parseValue({ type, value, path }, reading);
    const read = parsed?.kind === 'ucid' ? parsed.ucid : parsed && identityKey(parsed.identity);
    const key = read ?? `?${type}=${value}`;
    const one = distinct.get(key) ?? { sent: new Set(), path, indexes: new Set() };
    distinct.set(key, one);
    one.sent.add(value);
    if (parsed?.kind === 'ucid' && one.indexes.size === 0) one.indexes.add(ucids.push(parsed.ucid) - 1);
    if (parsed?.kind !== 'identity') continue;
    for (const spelling of withSpellings(parsed.identity, value, breadth, reading)) {
      const spelled = identityKey(spelling);
      const index = indexOf.get(spelled) ?? identities.push(spelling) - 1;
      indexOf.set(spelled, index);
      one.indexes.add(index);
    }
  }
  return { identities, ucids, named: [...distinct.values()] };
}

/** Those of which none was found, in any spelling. `notFound`: indices of their identities or ucids. */
export function missingOf(named: readonly NamedOnce[], notFound: readonly number[]): readonly NamedOnce[] {
  const missing = new Set(notFound);
  return named.filter(({ indexes }) => [...indexes].every((index) => missing.has(index)));
}

/** The values of some, as sent and in order. */
export function sentOf(named: readonly NamedOnce[]): readonly string[] {
  return named.flatMap(({ sent }) => [...sent]);
}

/**
 * 400 for more identities than a profile can hold. Counted before anything is built of the body, which may have half a
 * million of them.
 */
export function refuseManyIdentities(count: number, path: '/ids' | '/search'): void {
  if (count > MAX_PROFILE_IDENTITIES)
    throw invalidRequest({ path, message: `must hold at most ${MAX_PROFILE_IDENTITIES} identities` });
}

const EXCESSES: Readonly<Record<ProfileExcess['of'], string>> = {
  values:
    'the profile would have more than {limit} attributes, preferences and consents, unset ones included',
  bytes: 'the profile would have more than {limit} bytes',
  value_bytes: 'a value of the profile would have more than {limit} bytes',
};

/**
 * 413 with the bound as `quota`, such as `profile_values`, and its `limit`. `size`: what the profile would have; only for
 * callers that may read it.
 */
export function tooLarge(
  { of, limit, size }: ProfileExcess = { of: 'bytes', limit: MAX_PROFILE_BYTES, size: 0 },
  mayRead = false,
): ApiError {
  const fields = { quota: `profile_${of}`, limit, ...(mayRead ? { size } : {}) };
  const message = EXCESSES[of].replace('{limit}', String(limit));
  return new ApiError(413, 'payload too large', { fields, details: [{ path: '/upsert', message }] });
}
