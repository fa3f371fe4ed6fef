import { hash } from 'node:crypto';
import { isPlaceholder, isPlaceholderAddress, isPlaceholderDigest } from './placeholders.ts';
import type { Identity, ProfileScope } from './profile.ts';

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

/**
 * An identity as stores know it: blanks around the value trimmed, an e-mail address and the digits of a hash in lower
 * case. What comes out goes through unchanged.
 */
export function normaliseIdentity(type: string, value: unknown): NormalisedIdentity {
  if (!TYPE.test(type)) return { kind: 'fault', fault: 'type' };
  if (RESERVED.has(type) || RESERVED.has(namespaceOf(type))) return { kind: 'fault', fault: 'reserved_type' };
  if (typeof value !== 'string' || !value.isWellFormed()) return { kind: 'fault', fault: 'not_text' };
  const written = inOneForm(type, value.trim());
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

function inOneForm(type: string, value: string): string {
  if (type === RAW_EMAIL) return lowerCased(value);
  return isHashed(type) && HEXADECIMAL.test(value) ? value.toLowerCase() : value;
}

/** The Kelvin sign and the dotted I keep their case: lower-cased they would become ASCII, and another address. */
function lowerCased(address: string): string {
  return address.replace(/[^\u212a\u0130]+/g, (part) => part.toLowerCase());
}

function longerThan(text: string, characters: number): boolean {
  return text.length > characters && [...text].length > characters;
}
