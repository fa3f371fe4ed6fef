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

/** Identifies a profile directly; not an identity type. */
export const UCID = 'ucid';

/** A value of a body that identifies a profile. */
export interface NamedValue {
  readonly type: string;
  readonly value: string;
  /** JSON pointer to its place in the body. */
  readonly path: string;
}

/** A parsed value. */
export type ParsedValue =
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
