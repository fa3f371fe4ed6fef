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
import type { IdentityVerifier } from './identity.ts';
import { createIdentityVerifier } from './issuers.ts';

const NOW = Date.parse('2026-01-01T12:00:00Z') / 1000;
const ISSUER = 'https://issuer.example';
const AUDIENCE = 'tributary';
const claims = {
  iss: ISSUER,
  aud: AUDIENCE,
  sub: 'ada',
  email: 'ada@example.com',
  iat: NOW - 60,
  exp: NOW + 3_540,
};

type Keys = Awaited<ReturnType<typeof generateKeyPair>>;
let keys: Keys;
let strangers: Keys;
let verifier: IdentityVerifier;
beforeAll(async () => {
  keys = await generateKeyPair('ES256', { extractable: true });
  strangers = await generateKeyPair('ES256');
  const published = { ...(await exportJWK(keys.publicKey)), kid: 'k1', alg: 'ES256', use: 'sig' };
  verifier = createIdentityVerifier(
    [
      {
        issuer: ISSUER,
        audience: AUDIENCE,
        // What is configured by mistake is not taken either.
        algorithms: ['ES256', 'HS256', 'none'],
        keys: createLocalJWKSet({ keys: [published] }),
      },
    ],
    () => new Date(NOW * 1000),
  );
});

function sign(changes: JWTPayload = {}, header: { kid?: string } = { kid: 'k1' }, by: Keys = keys) {
  return new SignJWT({ ...claims, ...changes })
    .setProtectedHeader({ alg: 'ES256', ...header })
    .sign(by.privateKey);
}

/** The claims without one of them. */
function lacking(claim: keyof typeof claims): JWTPayload {
  return { [claim]: undefined };
}

describe('an ID token', () => {
  it('names who is calling', async () => {
    expect(await verifier.verify(await sign())).toEqual({
      issuer: ISSUER,
      subject: 'ada',
      email: 'ada@example.com',
      expiresAt: (claims.exp + 30) * 1000,
    });
    expect(await verifier.verify(await sign(lacking('email')))).toMatchObject({ email: null });
  });

  it('may be off by the skew of two clocks', async () => {
    expect(await verifier.verify(await sign({ exp: NOW - 29 }))).toMatchObject({ subject: 'ada' });
    expect(await verifier.verify(await sign({ iat: NOW + 29 }))).toMatchObject({ subject: 'ada' });
  });

  it.each<[string, () => Promise<string> | string]>([
    ['expired', () => sign({ exp: NOW - 31 })],
    ['is issued in the future', () => sign({ iat: NOW + 31 })],
    ['is not valid yet', () => sign({ nbf: NOW + 31 })],
    ['was issued so long ago that no expiry counts', () => sign({ iat: NOW - 25 * 3600 })],
    ['is for another audience', () => sign({ aud: 'elsewhere' })],
    ['has no audience', () => sign(lacking('aud'))],
    ['is of an issuer that is not trusted', () => sign({ iss: 'https://other.example' })],
    ['has no issuer', () => sign(lacking('iss'))],
    ['never expires', () => sign(lacking('exp'))],
    ['does not say when it was issued', () => sign(lacking('iat'))],
    ['has no subject', () => sign(lacking('sub'))],
    ['has an empty subject', () => sign({ sub: '' })],
    ['names a key nobody published', () => sign({}, { kid: 'k2' })],
    ['is signed by another key under the name of a published one', () => sign({}, { kid: 'k1' }, strangers)],
    ['is not signed', () => new UnsecuredJWT(claims).encode()],
    ['is signed with the public key as a secret, PEM', async () => hmac(await exportSPKI(keys.publicKey))],
    [
      'is signed with the public key as a secret, JWK',
      async () => hmac(JSON.stringify(await exportJWK(keys.publicKey))),
    ],
    ['had its claims replaced', async () => withClaims(await sign(), { ...claims, sub: 'grace' })],
    ['had its header replaced', async () => withHeader(await sign(), { alg: 'none', kid: 'k1' })],
    ['is cut short', async () => (await sign()).slice(0, -4)],
    ['is no token', () => 'a.b.c'],
    ['is empty', () => ''],
  ])('is nobody’s when it %s', async (_, make) => {
    expect(await verifier.verify(await make())).toBeUndefined();
  });
});

const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

function hmac(secret: string): Promise<string> {
  return new SignJWT(claims)
    .setProtectedHeader({ alg: 'HS256', kid: 'k1' })
    .sign(new TextEncoder().encode(secret));
}

function withClaims(token: string, changed: object): string {
  const [header, , signature] = token.split('.');
  return `${header}.${encode(changed)}.${signature}`;
}

function withHeader(token: string, changed: object): string {
  const [, payload, signature] = token.split('.');
  return `${encode(changed)}.${payload}.${signature}`;
}
