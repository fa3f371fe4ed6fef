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
