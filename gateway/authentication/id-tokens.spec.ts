import { Unavailable } from '@tributary/core';
import {
  createLocalJWKSet,
  exportJWK,
  exportSPKI,
  generateKeyPair,
  type JWTPayload,
  SignJWT,
  UnsecuredJWT,
} from 'jose';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  createIdentityVerifier,
  type IdentityVerifier,
  isAdmitted,
  subjectOf,
  type TrustedIssuer,
  verifiedEmail,
} from './id-tokens.ts';

const NOW = Date.parse('2026-01-01T12:00:00Z') / 1000;
const ISSUER = 'https://issuer.example';
const AUDIENCE = 'tributary';
const claims = {
  iss: ISSUER,
  aud: AUDIENCE,
  sub: 'ada',
  email: 'Ada@example.com',
  email_verified: true,
  iat: NOW - 60,
  exp: NOW + 3_540,
};

type Keys = Awaited<ReturnType<typeof generateKeyPair>>;
let keys: Keys;
let publicKeys: TrustedIssuer['keys'];
let verifier: IdentityVerifier;
beforeAll(async () => {
  keys = await generateKeyPair('ES256', { extractable: true });
  const published = { ...(await exportJWK(keys.publicKey)), kid: 'k1', alg: 'ES256', use: 'sig' };
  publicKeys = createLocalJWKSet({ keys: [published] });
  verifier = verifierOf({});
});

function verifierOf(changes: Partial<TrustedIssuer>): IdentityVerifier {
  const trusted = {
    issuer: ISSUER,
    audiences: [AUDIENCE, 'tributary-cli'],
    // An algorithm configured by mistake is refused as well.
    algorithms: ['ES256', 'HS256', 'none'],
    emailDomains: [],
    keys: publicKeys,
    ...changes,
  };
  return createIdentityVerifier([trusted], () => new Date(NOW * 1000));
}

function sign(
  changes: JWTPayload = {},
  header: { kid?: string; typ?: string; alg?: string } = { kid: 'k1' },
) {
  return new SignJWT({ ...claims, ...changes })
    .setProtectedHeader({ alg: 'ES256', ...header })
    .sign(keys.privateKey);
}

/** The claims without one of them. */
function lacking(claim: keyof typeof claims): JWTPayload {
  return { [claim]: undefined };
}

describe('an ID token', () => {
  it('that its claims refuse is refused without a look at the issuer’s keys', async () => {
    const down = verifierOf({
      keys: () => {
        throw new Unavailable('the issuer does not answer');
      },
    });
    for (const changes of [{ exp: NOW - 31 }, { aud: 'elsewhere' }, { nbf: NOW + 31 }, { iat: NOW + 31 }])
      expect(await down.verify(await sign(changes))).toBeUndefined();
    expect(await down.verify(await hmac(await exportSPKI(keys.publicKey)))).toBeUndefined();
    expect(await down.verify(new UnsecuredJWT(claims).encode())).toBeUndefined();
    await expect(down.verify(await sign())).rejects.toThrow(Unavailable);
  });

  it('names its caller', async () => {
    expect(await verifier.verify(await sign())).toEqual({
      issuer: ISSUER,
      subject: 'ada',
      email: 'ada@example.com',
      issuedAt: '2026-01-01T11:59:00.000Z',
      expiresAt: (claims.exp + 30) * 1000,
    });
    expect(await verifier.verify(await sign({ aud: 'tributary-cli' }))).toMatchObject({ subject: 'ada' });
  });

  it('may be off by the skew of two clocks', async () => {
    expect(await verifier.verify(await sign({ exp: NOW - 29 }))).toMatchObject({ subject: 'ada' });
    expect(await verifier.verify(await sign({ iat: NOW + 29 }))).toMatchObject({ subject: 'ada' });
  });

  it.each<[string, () => Promise<string> | string]>([
    ['was issued so long ago that no expiry counts', () => sign({ iat: NOW - 25 * 3600 })],
    ['is a logout token', () => sign({}, { kid: 'k1', typ: 'logout+jwt' })],
    ['has no issuer', () => sign(lacking('iss'))],
    ['has an empty subject', () => sign({ sub: '' })],
  ])('is refused when it %s', async (_, make) => {
    expect(await verifier.verify(await make())).toBeUndefined();
  });
});

function hmac(secret: string): Promise<string> {
  return new SignJWT(claims)
    .setProtectedHeader({ alg: 'HS256', kid: 'k1' })
    .sign(new TextEncoder().encode(secret));
}

describe('the subject', () => {
  it.each([undefined, '', 7, 'x'.repeat(256)])('is absent when it is %j', (sub) => {
    expect(subjectOf({ sub: sub as string })).toBeUndefined();
  });

  it('may have the length OpenID Connect allows', () => {
    expect(subjectOf({ sub: 'x'.repeat(255) })).toHaveLength(255);
  });
});

describe('the e-mail address', () => {
  it.each([true, 'true'])('counts when it is verified (%j)', (email_verified) => {
    expect(verifiedEmail({ email: 'Ada@Example.com', email_verified })).toBe('ada@example.com');
  });

  it.each([undefined, false, 'false', null, 1, 'yes'])('does not when its flag is %j', (email_verified) => {
    expect(verifiedEmail({ email: 'ada@example.com', email_verified })).toBeNull();
  });

  it.each([undefined, 7, '', 'ada', ['ada@example.com']])('does not when it is %j', (email) => {
    expect(verifiedEmail({ email, email_verified: true })).toBeNull();
  });

  it('accepts addresses of a domain, and not of one that ends like it or lies below it', () => {
    expect(isAdmitted('ada@example.com', ['example.org', 'example.com'])).toBe(true);
    expect(isAdmitted('ada@badexample.com', ['example.com'])).toBe(false);
    expect(isAdmitted('ada@sub.example.com', ['example.com'])).toBe(false);
    expect(isAdmitted(null, ['example.com'])).toBe(false);
    expect(isAdmitted(null, [])).toBe(true);
  });
});
