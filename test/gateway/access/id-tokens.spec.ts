import { createPublicKey, randomBytes } from 'node:crypto';
import { nameId } from '@tributary/core';
import { type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Client } from '../../helpers/client.ts';
import { inProcess, openTestGateway, type TestGateway } from '../../helpers/gateway.ts';
import { CLIENT_ID, type OidcProvider, startOidcProvider } from '../../helpers/oidc-provider.ts';

/**
 * ID tokens of two providers trusted by the gateway and of one that is not; each refusal follows the
 * specification.
 */
let ours: OidcProvider;
let theirs: OidcProvider;
let strangers: OidcProvider;
let test: TestGateway;
beforeAll(async () => {
  [ours, theirs, strangers] = await Promise.all([
    startOidcProvider(),
    startOidcProvider(),
    startOidcProvider(),
  ]);
  const issuers = [
    { ...ours.settings, audiences: [CLIENT_ID, 'tributary-cli'] },
    { ...theirs.settings, email_domains: ['theirs.example'] },
  ];
  test = await openTestGateway({ env: { TRIBUTARY_ISSUERS: JSON.stringify(issuers) } });
  await test.issuersAnswered();
});
afterAll(async () => {
  await test.close();
  await Promise.all([ours, theirs, strangers].map((provider) => provider.close()));
});
/** Passes the periods in which failed sign-ins and unknown keys count against a caller. */
beforeEach(() => test.clock.pass(60_000));

const listing = (token: string) => new Client(inProcess(test.app), token).call('GET', '/workspaces');
const accountOf = ({ issuer }: OidcProvider, subject: string) =>
  test.dependencies.catalog.state.account(nameId('account', issuer, subject));

describe('an ID token', () => {
  it('is accepted from each of the trusted issuers', async () => {
    const ada = { sub: 'ada', email: 'Ada@theirs.example', email_verified: true };
    for (const provider of [ours, theirs]) {
      expect(await listing(await provider.signIn(ada))).toMatchObject({ status: 200, body: [] });
      expect(accountOf(provider, 'ada')).toMatchObject({ email: 'ada@theirs.example', subject: 'ada' });
    }
    expect(accountOf(ours, 'ada')?.id).not.toBe(accountOf(theirs, 'ada')?.id);
  });

  it('is accepted without its e-mail address if that is unverified', async () => {
    const eve = { sub: 'eve', email: 'ada@theirs.example', email_verified: false };
    expect((await listing(await ours.signIn(eve))).status).toBe(200);
    expect(accountOf(ours, 'eve')).toMatchObject({ email: null });
  });

  it('creates no account if its e-mail domain is not allowed for its issuer', async () => {
    const mallory = { sub: 'mallory', email: 'mallory@elsewhere.example', email_verified: true };
    expect(await listing(await theirs.signIn(mallory))).toMatchObject(REFUSED);
    expect(accountOf(theirs, 'mallory')).toBeUndefined();
  });

  it('is accepted for each configured audience, also beside others if `azp` is a configured one', async () => {
    expect((await listing(await ours.sign({ aud: 'tributary-cli' }))).status).toBe(200);
    const several = { aud: ['tributary-cli', 'elsewhere'], azp: 'tributary-cli' };
    expect((await listing(await ours.sign(several))).status).toBe(200);
  });
});

const REFUSED = { status: 401, body: { error: 'not authenticated' } };
const seconds = (fromNow: number) => Math.floor(Date.now() / 1000) + fromNow;
const claims = () => ({
  iss: ours.issuer,
  aud: CLIENT_ID,
  sub: 'ada',
  iat: seconds(0),
  exp: seconds(3600),
});

describe('401 `not authenticated` is the answer to a token that', () => {
  it.each<[string, () => Promise<string> | string]>([
    ['expired', () => ours.sign({ iat: seconds(-3700), exp: seconds(-100) })],
    ['has the wrong audience', () => ours.sign({ aud: 'elsewhere' })],
    ['has no audience', () => ours.sign({ aud: undefined })],
    ['has the wrong issuer, one that is trusted', () => ours.sign({ iss: theirs.issuer })],
    ['has the wrong issuer, with a slash more', () => ours.sign({ iss: `${ours.issuer}/` })],
    ['is of an issuer that is not trusted', () => strangers.sign()],
    ['names a trusted issuer but is signed by another one', () => strangers.sign({ iss: ours.issuer })],
    ['names a key of another issuer and is signed with it', () => theirs.sign({ iss: ours.issuer })],
    ['names a key of another issuer', () => ours.sign({}, { kid: String(theirs.key.kid) })],
    ['names a key of ours and is signed with another’s', () => theirs.sign({}, { kid: ours.key.kid })],
    ['contains its own key', () => bringingItsKey()],
    ['has `alg: none`', () => new UnsecuredJWT(claims()).encode()],
    ['has `alg: none` and the signature of a good one', async () => withHeader(await ours.sign(), 'none')],
    ['has `alg: NonE`', async () => withHeader(await ours.sign(), 'NonE')],
    ['is signed by HS256 with the public key as PEM', () => hmac(publicPem())],
    ['is signed by HS256 with the public key as JWK', () => hmac(JSON.stringify(publicJwk()))],
    ['is signed by HS256 with the modulus of the public key', () => hmac(String(ours.key.n))],
    ['is signed by HS512 with a secret', () => hmac(randomBytes(64).toString('hex'), 'HS512')],
    ['is signed by an algorithm that is not allowed', () => rs384()],
    ['had its claims tampered with', async () => withClaims(await ours.sign(), { ...claims(), sub: 'root' })],
    ['had a byte of its signature changed', async () => withOtherSignature(await ours.sign())],
    ['has no signature', async () => (await ours.sign()).replace(/[^.]+$/, '')],
    ['has two parts', async () => (await ours.sign()).replace(/\.[^.]+$/, '')],
    ['is not valid yet', () => ours.sign({ nbf: seconds(100) })],
    ['was issued in the future', () => ours.sign({ iat: seconds(100) })],
    [
      'was issued two days ago and expires in a year',
      () => ours.sign({ iat: seconds(-172_800), exp: seconds(3e7) }),
    ],
    ['never expires', () => ours.sign({ exp: undefined })],
    ['does not say when it was issued', () => ours.sign({ iat: undefined })],
    ['has no subject', () => ours.sign({ sub: undefined })],
    ['has several audiences and no `azp`', () => ours.sign({ aud: [CLIENT_ID, 'elsewhere'] })],
    [
      'is for us and others, asked for by another',
      () => ours.sign({ aud: [CLIENT_ID, 'elsewhere'], azp: 'elsewhere' }),
    ],
    ['is an access token', () => ours.sign({}, { typ: 'at+jwt' })],
    ['requires an unknown extension', () => critical()],
  ])('%s', async (_, make) => {
    // The refused tokens each differ from this one as their names state.
    expect((await listing(await ours.sign())).status).toBe(200);
    const token = await make();
    const answer = await listing(token);
    expect({ status: answer.status, body: answer.body }).toEqual(REFUSED);
  });
});

const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

function publicPem(): string {
  const key = createPublicKey({ key: { ...ours.key, kty: 'RSA' }, format: 'jwk' });
  return String(key.export({ format: 'pem', type: 'spki' }));
}

function publicJwk(): object {
  const { kty, n, e, kid, alg, use } = ours.key;
  return { kty, n, e, kid, alg, use };
}

function hmac(secret: string, alg = 'HS256'): Promise<string> {
  return new SignJWT(claims())
    .setProtectedHeader({ alg, kid: String(ours.key.kid) })
    .sign(new TextEncoder().encode(secret));
}

/** Signed with a key of the sender, which the header contains and points at. */
async function bringingItsKey(): Promise<string> {
  const { kty, n, e } = strangers.key;
  return strangers.sign(
    { iss: ours.issuer },
    { kid: ours.key.kid, jwk: { kty, n, e }, jku: strangers.issuer },
  );
}

async function rs384(): Promise<string> {
  const { alg: _, ...key } = ours.key;
  return new SignJWT(claims()).setProtectedHeader({ alg: 'RS384', kid: String(key.kid) }).sign(key);
}

async function critical(): Promise<string> {
  return new SignJWT(claims())
    .setProtectedHeader({ alg: 'RS256', kid: String(ours.key.kid), crit: ['x'], x: 1 })
    .sign(ours.key, { crit: { x: true } });
}

function withClaims(token: string, changed: JWTPayload): string {
  const [header, , signature] = token.split('.');
  return `${header}.${encode(changed)}.${signature}`;
}

function withHeader(token: string, alg: string): string {
  const [, payload, signature] = token.split('.');
  return `${encode({ alg, kid: ours.key.kid })}.${payload}.${signature}`;
}

function withOtherSignature(token: string): string {
  const [header, payload, signature = ''] = token.split('.');
  const bytes = Buffer.from(signature, 'base64url');
  bytes[0] = (bytes[0] ?? 0) ^ 1;
  return `${header}.${payload}.${bytes.toString('base64url')}`;
}
