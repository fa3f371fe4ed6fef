import { decodeJwt, errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose';
import type { Identity, IdentityVerifier } from './identity.ts';

/** An identity platform whose ID tokens are taken. */
export interface TrustedIssuer {
  /** The exact `iss` of its tokens. */
  readonly issuer: string;
  /** The `aud` its tokens must carry. */
  readonly audience: string;
  /** Asymmetric algorithms only; `none` and HMAC are never taken, whatever stands here. */
  readonly algorithms: readonly string[];
  /** Finds the key a token names. */
  readonly keys: JWTVerifyGetKey;
}

const ASYMMETRIC = /^(RS|PS|ES)(256|384|512)$|^EdDSA$|^Ed25519$/;
const CLOCK_SKEW_SECONDS = 30;

/** Takes the tokens of the given issuers and of nobody else. */
export function createIdentityVerifier(issuers: readonly TrustedIssuer[], now: () => Date): IdentityVerifier {
  const byName = new Map(issuers.map((issuer) => [issuer.issuer, issuer]));
  return {
    async verify(token: string): Promise<Identity | undefined> {
      const trusted = byName.get(claimedIssuer(token) ?? '');
      if (trusted === undefined) return undefined;
      try {
        const { payload } = await jwtVerify(token, trusted.keys, {
          issuer: trusted.issuer,
          audience: trusted.audience,
          algorithms: trusted.algorithms.filter((algorithm) => ASYMMETRIC.test(algorithm)),
          clockTolerance: CLOCK_SKEW_SECONDS,
          currentDate: now(),
          requiredClaims: ['exp', 'iat', 'sub'],
          maxTokenAge: MAX_TOKEN_AGE_SECONDS,
        });
        if (typeof payload.sub !== 'string' || payload.sub === '') return undefined;
        return {
          issuer: trusted.issuer,
          subject: payload.sub,
          email: typeof payload.email === 'string' ? payload.email : null,
          expiresAt: expiryOf(payload),
        };
      } catch (error) {
        if (error instanceof errors.JOSEError) return undefined;
        throw error;
      }
    },
  };
}

/** A bound on `iat`, which also refuses tokens issued in the future; issuers set `exp` well below it. */
const MAX_TOKEN_AGE_SECONDS = 24 * 3600;

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
