import {
  below,
  formerSpellings,
  type Identity,
  type IdentityFault,
  type IdentityReading,
  isUuid,
  MAX_IDENTITY_CHARACTERS,
  normaliseIdentity,
} from '@tributary/core';
import type { ErrorDetail } from '../../errors/api-error.ts';

/** Names a profile by itself; no type of identity. */
export const UCID = 'ucid';

/** A value of a body that names a profile. */
export interface NamedValue {
  readonly type: string;
  readonly value: string;
  /** JSON pointer to where it stands. */
  readonly path: string;
}

/** What a value of a body means. */
export type Meaning =
  | { readonly kind: 'identity'; readonly identity: Identity; readonly sent: string }
  | { readonly kind: 'ucid'; readonly ucid: string };

const WHAT_IS_WRONG: Readonly<Record<IdentityFault, string>> = {
  type: 'is no name of an identifier type',
  reserved_type: 'is a word of its own here and no identifier type',
  not_text: 'must be well-formed text',
  too_long: `must have at most ${MAX_IDENTITY_CHARACTERS} characters`,
  placeholder: 'names nobody',
};

/** What the values of `search` mean, in their order; what is wrong is added to `faults`. */
export function readValues(
  values: readonly NamedValue[],
  faults: ErrorDetail[],
  reading: IdentityReading,
): readonly Meaning[] {
  return values.flatMap((named): readonly Meaning[] => {
    if (named.type === UCID) {
      const ucid = readUcid(named, faults);
      return ucid === undefined ? [] : [{ kind: 'ucid', ucid }];
    }
    const identity = readIdentity(named, faults, reading);
    return identity === undefined ? [] : [{ kind: 'identity', identity, sent: named.value }];
  });
}

/** What one value means; undefined where nobody can have it. */
export function readMeaning({ type, value }: NamedValue, reading: IdentityReading): Meaning | undefined {
  if (type === UCID) return isUuid(value) ? { kind: 'ucid', ucid: value.toLowerCase() } : undefined;
  const normalised = normaliseIdentity(type, value, reading);
  return normalised.kind === 'identity' ? { ...normalised, sent: value } : undefined;
}

/** What is wrong with a type itself, independent of its values. */
export function nameFault(type: string, path: string): readonly ErrorDetail[] {
  if (type === UCID) return [];
  const normalised = normaliseIdentity(type, 'a value that an identity of any type can have');
  const isName = normalised.kind === 'identity' || !['type', 'reserved_type'].includes(normalised.fault);
  return isName ? [] : [{ path: below(path, type), message: WHAT_IS_WRONG[normalised.fault] }];
}

export function readIdentity(
  { type, value, path }: NamedValue,
  faults: ErrorDetail[],
  reading: IdentityReading,
): Identity | undefined {
  const normalised = normaliseIdentity(type, value, reading);
  if (normalised.kind === 'identity') return normalised.identity;
  faults.push({ path, message: WHAT_IS_WRONG[normalised.fault] });
  return undefined;
}

/** The identity and the older spellings that earlier releases may have stored it under. */
export function withSpellings(
  identity: Identity,
  sent: string,
  breadth: 'usual' | 'every',
  reading: IdentityReading,
): readonly Identity[] {
  return [identity, ...formerSpellings(identity, sent, breadth, reading)];
}

/** In lower case, as stores write them. */
export function readUcid(
  { value, path }: Pick<NamedValue, 'value' | 'path'>,
  faults: ErrorDetail[],
): string | undefined {
  if (isUuid(value)) return value.toLowerCase();
  faults.push({ path, message: 'must be a UUID' });
  return undefined;
}

/** How many values a map has. Bodies may hold any number: who has a bound asks before anything is made of them. */
export function countOf(map: Readonly<Record<string, readonly string[]>>): number {
  return Object.values(map).reduce((count, values) => count + values.length, 0);
}

/** Every value of a map from type to values, with its place. */
export function valuesOf(
  map: Readonly<Record<string, readonly string[]>>,
  path: string,
): readonly NamedValue[] {
  return Object.entries(map).flatMap(([type, values]) =>
    values.map((value, at) => ({ type, value, path: below(below(path, type), at) })),
  );
}
