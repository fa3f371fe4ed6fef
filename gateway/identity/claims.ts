import { normalizeEmail } from '@tributary/core';
import type { JWTPayload } from 'jose';

/** What OpenID Connect allows a subject to be long at most; it is kept for good. */
const MAX_SUBJECT = 255;

/** Who a token is about; undefined for a claim that names nobody. */
export function subjectOf({ sub }: JWTPayload): string | undefined {
  return typeof sub === 'string' && sub !== '' && sub.length <= MAX_SUBJECT ? sub : undefined;
}

/**
 * Whether a token was issued to one of ours. A token for several audiences is: any of them may have asked for it and
 * would otherwise speak for the person here.
 */
export function isIssuedToUs({ aud, azp }: JWTPayload, audiences: readonly string[]): boolean {
  if (!Array.isArray(aud) || aud.length === 1) return true;
  return typeof azp === 'string' && audiences.includes(azp);
}

/** The address of a token, if its issuer verified it. Some issuers write the flag as text. */
export function verifiedEmail({ email, email_verified: verified }: JWTPayload): string | null {
  if (typeof email !== 'string' || (verified !== true && verified !== 'true')) return null;
  return normalizeEmail(email) ?? null;
}

/** Whether people of this address are let in. `domains` are in lower case; none means everybody is. */
export function isAdmitted(email: string | null, domains: readonly string[]): boolean {
  return domains.length === 0 || domains.some((domain) => email?.endsWith(`@${domain}`));
}

/**
 * The scopes of the profile API that a token names, in `scope` or `scopes`, as a list or in one text; undefined when it
 * names none. Those there are not are told too: who names nothing but them may do nothing.
 */
export function profileScopes({ scope, scopes }: JWTPayload): readonly string[] | undefined {
  const named = [scope, scopes].flatMap(wordsOf).filter((word) => word.startsWith('profile.'));
  return named.length > 0 ? named : undefined;
}

function wordsOf(claim: unknown): readonly string[] {
  if (Array.isArray(claim)) return claim.flatMap((item) => (typeof item === 'string' ? wordsOf(item) : []));
  return typeof claim === 'string' ? claim.split(/[\s,]+/) : [];
}
