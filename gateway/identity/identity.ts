/** Who an identity platform says is calling. */
export interface Identity {
  readonly issuer: string;
  readonly subject: string;
  readonly email: string | null;
  /** Epoch ms: from then on the token is nobody's. */
  readonly expiresAt: number;
}

/** Verifies ID tokens. Undefined for any token that is not to be trusted; throws `Unavailable` when it cannot tell. */
export interface IdentityVerifier {
  verify(token: string): Promise<Identity | undefined>;
}
