import { SIGNATURE_ALGORITHMS } from '@tributary/core';
import {
  decodeJwt,
  errors,
  type JWTPayload,
  type JWTVerifyGetKey,
  type JWTVerifyOptions,
  jwtVerify,
  UnsecuredJWT,
} from 'jose';
import { isAdmitted, isIssuedToUs, profileScopes, subjectOf, verifiedEmail } from './claims.ts';
import type { Identity, IdentityVerifier } from './identity.ts';

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
