import { hash } from 'node:crypto';
import type { Identity, ProfileScope } from '../profile.ts';
import { canonicalAddress, formerAddresses, formerlyNormalisedAddress } from './email-address.ts';
import { canonicalPhone, formerPhones, isSameNumber } from './phone-number.ts';
import { isPlaceholder, isPlaceholderAddress, isPlaceholderDigest } from './placeholders.ts';

/** Of the value of an identity, after blanks around it are trimmed: Unicode characters. */
export const MAX_IDENTITY_CHARACTERS = 512;

const TYPE = /^\w[\w.:-]{0,99}$/;
const HASHED = /^(.+)_(?:md5|sha1|sha256)(?:_lowercase|_uppercase)?$/;
const HEXADECIMAL = /^[0-9a-f]+$/i;

/** Words of an IdentityMap itself, and names that must never become keys of an object. */
const RESERVED: ReadonlySet<string> = new Set([
  'ucid',
  'linkedUcid',
  '_ts',
  '__proto__',
  'constructor',
  'prototype',
]);

/**
 * `type`: no name of an identity type. `reserved_type`: a word of its own, `ucid` among them, which callers that take
 * one look for first. `not_text`: no string, or no well-formed one. `placeholder`: names nobody, as does an empty one.
 */
export type IdentityFault = 'type' | 'reserved_type' | 'not_text' | 'too_long' | 'placeholder';

export type NormalisedIdentity =
  | { readonly kind: 'identity'; readonly identity: Identity }
  | { readonly kind: 'fault'; readonly fault: IdentityFault };

/** How the values of an organization are to be read. */
export interface IdentityReading {
  /** ISO 3166 alpha-2: the country of telephone numbers that name none. Absent: they are not read. */
  readonly defaultCountry?: string | undefined;
}

/**
 * An identity as stores know it: blanks around the value trimmed, an e-mail address and a telephone number in their one
 * spelling, the digits of a hash in lower case. What comes out goes through unchanged.
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

/** What the type stands under in an IdentityMap: `email` of `email_sha256_lowercase`, else the type itself. */
export function namespaceOf(type: string): string {
  return HASHED.exec(type)?.[1] ?? type;
}

/**
 * The text that two identities share when, and only when, they are one: an address and its `email_sha256_lowercase`
 * are. Within one scope; the identity is normalised.
 */
export function identityKey({ type, value }: Identity): string {
  return type === RAW_EMAIL ? `${HASHED_EMAIL}=${hash('sha256', value)}` : `${type}=${value}`;
}

/** Stands for the identity in its scope where its value must not be kept. */
export function identityHash({ org, region }: ProfileScope, identity: Identity): string {
  return hash('sha256', `${org}\n${region}\n${identityKey(identity)}`, 'base64url');
}

/** The two ways to write the same identity; of both the first is kept, as the second can be told from it. */
export const RAW_EMAIL = 'email';
export const HASHED_EMAIL = 'email_sha256_lowercase';

function isHashed(type: string): boolean {
  return HASHED.test(type);
}

/** Types whose values are telephone numbers. */
const PHONE_TYPES: ReadonlySet<string> = new Set(['cellphone', 'phone']);

function inOneForm(type: string, value: string, { defaultCountry }: IdentityReading): string {
  if (type === RAW_EMAIL) return addressInOneForm(value);
  if (PHONE_TYPES.has(type)) return canonicalPhone(value, defaultCountry) ?? value;
  return isHashed(type) && HEXADECIMAL.test(value) ? value.toLowerCase() : value;
}

/** A value that is no address is written as it always was. */
function addressInOneForm(value: string): string {
  const address = canonicalAddress(value);
  if (address !== undefined) return address;
  const former = formerlyNormalisedAddress(value);
  return canonicalAddress(former) ?? former;
}

/**
 * Other values under which earlier releases, which knew an identity by its spelling, may have stored this one. `sent`:
 * the value that it was made of. `usual`: none for nearly every address, so that an event pays nothing. `every`: all that
 * can be told, for erasures and for searches that found nothing.
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

/** Whether values of the type are written in several ways. */
export function hasSpellings({ type }: Identity): boolean {
  return type === RAW_EMAIL || PHONE_TYPES.has(type);
}

/** The one form of an identity, if it is among these; undefined where the identity itself is in it. */
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
