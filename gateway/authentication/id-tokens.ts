import { normalizeEmail, SIGNATURE_ALGORITHMS } from '@tributary/core';
import {
  decodeJwt,
  errors,
  type JWTPayload,
  type JWTVerifyGetKey,
  type JWTVerifyOptions,
  jwtVerify,
  UnsecuredJWT,
} from 'jose';

/** An identity platform whose ID tokens are accepted. */
export interface TrustedIssuer {
  /** The exact `iss` of its tokens. */
  readonly issuer: string;
  /** Its tokens must carry one of these as `aud`. */
  readonly audiences: readonly string[];
  /** Asymmetric algorithms only: `none` and HMAC are never accepted, even if listed. */
  readonly algorithms: readonly string[];
  /** Domains, in lower case, of the verified e-mail addresses that are accepted; empty: all. */
  readonly emailDomains: readonly string[];
  /** Finds the signing key of a token. Throws `Unavailable` while the issuer's keys cannot be read. */
  readonly keys: JWTVerifyGetKey;
  /** The origins of its endpoints that a browser calls to sign in, as far as they are known. */
  readonly endpointOrigins?: () => readonly string[];
}

const CLOCK_SKEW_SECONDS = 30;
/** Maximal age by `iat`; also refuses tokens issued in the future. Issuers set `exp` well below it. */
export const MAX_TOKEN_AGE_SECONDS = 24 * 3600;

/** Accepts tokens of the given issuers only. */
export function createIdentityVerifier(issuers: readonly TrustedIssuer[], now: () => Date): IdentityVerifier {
  const byName = new Map(issuers.map((issuer) => [issuer.issuer, issuer]));
  return {
    async verify(token: string): Promise<Identity | undefined> {
      const trusted = byName.get(claimedIssuer(token) ?? '');
      if (trusted === undefined) return undefined;
      const { audiences, emailDomains } = trusted;
      const rules = rulesOf(trusted, now());
      try {
        refuseByClaims(token, rules);
        const { payload, protectedHeader } = await jwtVerify(token, trusted.keys, rules);
        const subject = subjectOf(payload);
        const email = verifiedEmail(payload);
        if (subject === undefined || !isIdToken(protectedHeader.typ)) return undefined;
        if (!isIssuedToUs(payload, audiences) || !isAdmitted(email, emailDomains)) return undefined;
        const scopes = profileScopes(payload);
        return {
          issuer: trusted.issuer,
          subject,
          email,
          issuedAt: isoSeconds(payload.iat ?? 0),
          expiresAt: expiryOf(payload),
          ...(scopes === undefined ? {} : { profileScopes: scopes }),
        };
      } catch (error) {
        if (error instanceof errors.JOSEError) return undefined;
        throw error;
      }
    },
  };
}

function rulesOf({ issuer, audiences, algorithms }: TrustedIssuer, currentDate: Date): JWTVerifyOptions {
  const asymmetric: readonly string[] = SIGNATURE_ALGORITHMS;
  return {
    issuer,
    audience: [...audiences],
    algorithms: algorithms.filter((algorithm) => asymmetric.includes(algorithm)),
    clockTolerance: CLOCK_SKEW_SECONDS,
    currentDate,
    requiredClaims: ['exp', 'iat', 'sub'],
    maxTokenAge: MAX_TOKEN_AGE_SECONDS,
  };
}

/**
 * Throws for claims that are refused without a signature, such as an expired token: no key is needed, so it is answered
 * while the issuer is down, and cannot cause requests to the issuer. The claims are checked again with the signature.
 */
function refuseByClaims(token: string, rules: JWTVerifyOptions): void {
  UnsecuredJWT.decode(`${UNSECURED_HEADER}.${token.split('.')[1]}.`, rules);
}

const UNSECURED_HEADER = Buffer.from('{"alg":"none"}').toString('base64url');

/** Excludes access tokens and logout tokens of the same issuer and audience. */
function isIdToken(typ: string | undefined): boolean {
  return typ === undefined || /^(application\/)?jwt$/i.test(typ);
}

function isoSeconds(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}

/** When the verification stops accepting these claims; epoch ms. */
function expiryOf({ exp = 0, iat = 0 }: JWTPayload): number {
  return (Math.min(exp, iat + MAX_TOKEN_AGE_SECONDS) + CLOCK_SKEW_SECONDS) * 1000;
}

function claimedIssuer(token: string): string | undefined {
  try {
    return decodeJwt(token).iss;
  } catch {
    return undefined;
  }
}

export interface Identity {
  readonly issuer: string;
  readonly subject: string;
  /** Null unless the issuer has verified the address; normalised by `normalizeEmail`. */
  readonly email: string | null;
  /** When the token was issued, ISO 8601: of two tokens with different claims the later one counts. */
  readonly issuedAt: string;
  /** The profile API scopes of the token; absent when it has none. */
  readonly profileScopes?: readonly string[];
  /** Epoch ms. */
  readonly expiresAt: number;
}

/** Verifies ID tokens. Undefined for a token that is not accepted; throws `Unavailable` when that cannot be decided. */
export interface IdentityVerifier {
  verify(token: string): Promise<Identity | undefined>;
}

/** The maximal length of a subject by OpenID Connect. */
const MAX_SUBJECT = 255;

/** The subject of a token; undefined for a claim that is not valid. */
export function subjectOf({ sub }: JWTPayload): string | undefined {
  return typeof sub === 'string' && sub !== '' && sub.length <= MAX_SUBJECT ? sub : undefined;
}

/**
 * Whether a token was issued to one of the configured clients. A token with several audiences must name the client in
 * `azp`: else any of the audiences could use tokens that it obtained.
 */
function isIssuedToUs({ aud, azp }: JWTPayload, audiences: readonly string[]): boolean {
  if (!Array.isArray(aud) || aud.length === 1) return true;
  return typeof azp === 'string' && audiences.includes(azp);
}

/** The e-mail address of a token, if the issuer has verified it. Some issuers write the flag as text. */
export function verifiedEmail({ email, email_verified: verified }: JWTPayload): string | null {
  if (typeof email !== 'string' || (verified !== true && verified !== 'true')) return null;
  return normalizeEmail(email) ?? null;
}

/** Whether the address is of one of the domains, in lower case; no domains accept all. */
export function isAdmitted(email: string | null, domains: readonly string[]): boolean {
  return domains.length === 0 || domains.some((domain) => email?.endsWith(`@${domain}`));
}

/**
 * The profile API scopes of a token, from `scope` or `scopes`, as a list or as text; undefined when it has none. Unknown
 * scopes are included: a token with only unknown scopes is allowed nothing.
 */
function profileScopes({ scope, scopes }: JWTPayload): readonly string[] | undefined {
  const named = [scope, scopes].flatMap(wordsOf).filter((word) => word.startsWith('profile.'));
  return named.length > 0 ? named : undefined;
}

function wordsOf(claim: unknown): readonly string[] {
  if (Array.isArray(claim)) return claim.flatMap((item) => (typeof item === 'string' ? wordsOf(item) : []));
  return typeof claim === 'string' ? claim.split(/[\s,]+/) : [];
}
