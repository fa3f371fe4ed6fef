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

/** An identity platform whose ID tokens are taken. */
export interface TrustedIssuer {
  /** The exact `iss` of its tokens. */
  readonly issuer: string;
  /** Its tokens must carry one of these as `aud`. */
  readonly audiences: readonly string[];
  /** Asymmetric algorithms only; `none` and HMAC are never taken, whatever stands here. */
  readonly algorithms: readonly string[];
  /** Only people with a verified e-mail address of one of these domains, in lower case, are let in; empty = everybody. */
  readonly emailDomains: readonly string[];
  /** Finds the key a token names; throws `Unavailable` while it cannot know whether there is one. */
  readonly keys: JWTVerifyGetKey;
}

const CLOCK_SKEW_SECONDS = 30;
/** A bound on `iat`, which also refuses tokens issued in the future; issuers set `exp` well below it. */
const MAX_TOKEN_AGE_SECONDS = 24 * 3600;

/** Takes the tokens of the given issuers and of nobody else. */
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
 * Throws what the claims alone refuse, such as a token that expired: that needs no key, so it is answered while the
 * issuer is down too, and nobody makes us ask it for keys by it. The claims are looked at again once the signature is
 * known to be good.
 */
function refuseByClaims(token: string, rules: JWTVerifyOptions): void {
  UnsecuredJWT.decode(`${UNSECURED_HEADER}.${token.split('.')[1]}.`, rules);
}

const UNSECURED_HEADER = Buffer.from('{"alg":"none"}').toString('base64url');

/** An access token or a logout token of the same issuer is none, also when its audience is ours. */
function isIdToken(typ: string | undefined): boolean {
  return typ === undefined || /^(application\/)?jwt$/i.test(typ);
}

function isoSeconds(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}

/** When the verification above stops taking these claims, which it requires; epoch ms. */
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

/** Who an identity platform says is calling. */
export interface Identity {
  readonly issuer: string;
  readonly subject: string;
  /** Null unless the issuer says that it verified the address; as `normalizeEmail` writes it. */
  readonly email: string | null;
  /** When the token was issued, ISO 8601: of two tokens that tell different things the later one is right. */
  readonly issuedAt: string;
  /** The scopes of the profile API that the token names; absent when it names none. */
  readonly profileScopes?: readonly string[];
  /** Epoch ms: from then on the token is nobody's. */
  readonly expiresAt: number;
}

/** Verifies ID tokens. Undefined for any token that is not to be trusted; throws `Unavailable` when it cannot tell. */
export interface IdentityVerifier {
  verify(token: string): Promise<Identity | undefined>;
}

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
