import { hash } from 'node:crypto';
import type { Identity, ProfileScope } from '../profile.ts';
import { canonicalAddress, formerAddresses, formerlyNormalisedAddress } from './email-address.ts';
import { canonicalPhone, formerPhones, isSameNumber } from './phone-number.ts';
import { isPlaceholder, isPlaceholderAddress, isPlaceholderDigest } from './placeholders.ts';

/** Bound on the trimmed value of an identity, in Unicode characters. */
export const MAX_IDENTITY_CHARACTERS = 512;

const TYPE = /^\w[\w.:-]{0,99}$/;
const HASHED = /^(.+)_(?:md5|sha1|sha256)(?:_lowercase|_uppercase)?$/;
const HEXADECIMAL = /^[0-9a-f]+$/i;

/** Keys of an IdentityMap itself, and names that must not become keys of an object. */
const RESERVED: ReadonlySet<string> = new Set([
  'ucid',
  'linkedUcid',
  '_ts',
  '__proto__',
  'constructor',
  'prototype',
]);

/**
 * - `type`: not a valid type name.
 * - `reserved_type`: a reserved word, such as `ucid`, which callers that accept one handle before.
 * - `not_text`: not a string, or not a well-formed one.
 * - `placeholder`: a value that identifies nobody, such as an empty one.
 */
export type IdentityFault = 'type' | 'reserved_type' | 'not_text' | 'too_long' | 'placeholder';

type NormalisedIdentity =
  | { readonly kind: 'identity'; readonly identity: Identity }
  | { readonly kind: 'fault'; readonly fault: IdentityFault };

/** The organization's settings for reading identities. */
export interface IdentityReading {
  /**
   * ISO 3166 alpha-2: the country of telephone numbers without a country code. Absent: such numbers are not parsed.
   */
  readonly defaultCountry?: string | undefined;
}

/**
 * Normalises an identity for stores: the value is trimmed, e-mail addresses and telephone numbers get one spelling,
 * hexadecimal hashes lower case. Idempotent.
 */
export function normaliseIdentity(
  type: string,
  value: unknown,
  reading: IdentityReading = {},
): NormalisedIdentity {
  if (!TYPE.test(type)) return { kind: 'fault', fault: 'type' };
  if (RESERVED.has(type) || RESERVED.has(namespaceOf(type))) return { kind: 'fault', fault: 'reserved_type' };
  if (typeof value !== 'string' || !value.isWellFormed()) return { kind: 'fault', fault: 'not_text' };
  const written = inOneForm(type, value.trim(), reading);
  if (longerThan(written, MAX_IDENTITY_CHARACTERS)) return { kind: 'fault', fault: 'too_long' };
  if (namesNobody(type, written)) return { kind: 'fault', fault: 'placeholder' };
  return { kind: 'identity', identity: { type, value: written } };
}

function namesNobody(type: string, value: string): boolean {
  if (isPlaceholder(value)) return true;
  return type === RAW_EMAIL ? isPlaceholderAddress(value) : isHashed(type) && isPlaceholderDigest(value);
}

/** The namespace of a type in an IdentityMap: `email` for `email_sha256_lowercase`, else the type itself. */
export function namespaceOf(type: string): string {
  return HASHED.exec(type)?.[1] ?? type;
}

/**
 * The key of a normalised identity within a scope: equal exactly for equal identities. An address and its
 * `email_sha256_lowercase` are equal.
 */
export function identityKey({ type, value }: Identity): string {
  return type === RAW_EMAIL ? `${HASHED_EMAIL}=${hash('sha256', value)}` : `${type}=${value}`;
}

/** A hash of the identity and its scope, for places where the value must not be kept. */
export function identityHash({ org, region }: ProfileScope, identity: Identity): string {
  return hash('sha256', `${org}\n${region}\n${identityKey(identity)}`, 'base64url');
}

/** Two forms of the same identity. The first is kept, because the second can be derived from it. */
export const RAW_EMAIL = 'email';
export const HASHED_EMAIL = 'email_sha256_lowercase';

function isHashed(type: string): boolean {
  return HASHED.test(type);
}

const PHONE_TYPES: ReadonlySet<string> = new Set(['cellphone', 'phone']);

function inOneForm(type: string, value: string, { defaultCountry }: IdentityReading): string {
  if (type === RAW_EMAIL) return addressInOneForm(value);
  if (PHONE_TYPES.has(type)) return canonicalPhone(value, defaultCountry) ?? value;
  return isHashed(type) && HEXADECIMAL.test(value) ? value.toLowerCase() : value;
}

/** A value that is no address keeps the spelling of earlier releases. */
function addressInOneForm(value: string): string {
  const address = canonicalAddress(value);
  if (address !== undefined) return address;
  const former = formerlyNormalisedAddress(value);
  return canonicalAddress(former) ?? former;
}

/**
 * Older spellings: other values under which earlier releases may have stored this identity. `sent` is the value
 * before normalisation. `usual`: none for nearly every address, so that events pay nothing. `every`: all that can be
 * derived, for erasures and for searches without a result.
 */
export function formerSpellings(
  { type, value }: Identity,
  sent: string,
  breadth: 'usual' | 'every',
  { defaultCountry }: IdentityReading = {},
): readonly Identity[] {
  if (type === RAW_EMAIL)
    return value.includes('@') ? asIdentities(type, formerAddresses(value, sent, breadth)) : [];
  if (!PHONE_TYPES.has(type)) return [];
  const former = new Set([sent.trim(), ...(breadth === 'every' ? formerPhones(value, defaultCountry) : [])]);
  former.delete(value);
  return asIdentities(type, [...former]);
}

/** Whether values of the type have several spellings. */
export function hasSpellings({ type }: Identity): boolean {
  return type === RAW_EMAIL || PHONE_TYPES.has(type);
}

/**
 * The normalised form of an older spelling, if it is in the list; undefined for a value that is normalised already.
 */
export function newerSpelling<One extends Identity>(older: Identity, among: readonly One[]): One | undefined {
  const { type, value } = older;
  if (PHONE_TYPES.has(type))
    return among.find((one) => one.type === type && one.value !== value && isSameNumber(value, one.value));
  const form = addressInOneForm(value);
  return form === value ? undefined : among.find((one) => one.type === type && one.value === form);
}

function asIdentities(type: string, values: readonly string[]): readonly Identity[] {
  return values.map((value) => ({ type, value }));
}

function longerThan(text: string, characters: number): boolean {
  return text.length > characters && [...text].length > characters;
}
