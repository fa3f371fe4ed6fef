import { decodeJwt } from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import { type OidcProvider, startOidcProvider } from '../../helpers/oidc-provider.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';

/** People sign in with an OpenID Connect provider; `TRIBUTARY_ISSUERS` lists the trusted ones. */
describe('Sign-in', () => {
  const ada = { sub: 'ada', email: 'ada@example.com', email_verified: true };
  const UNDECIDED = { status: 503, body: { error: 'unavailable' } };
  let provider: OidcProvider;
  let tributary: Tributary;
  let token: string;
  let person: Client;
  let server: Client;
  const tokens: string[] = [];
  beforeAll(async () => {
    provider = await startOidcProvider();
    tributary = await startTributary({ env: trusting(provider) });
  });
  afterAll(async () => {
    await tributary.remove();
    await provider.close();
  });

  /** The ID token of Ada, through a regular sign-in. */
  async function signIn(): Promise<string> {
    const fresh = await provider.signIn(ada);
    tokens.push(fresh);
    return fresh;
  }
  const listing = (idToken: string) => tributary.owner.with({ token: idToken }).call('GET', '/workspaces');
  const readyz = async () => (await fetch(`${tributary.adminUrl}/readyz`)).json();

  it('an account is created at the first sign-in and reused at every later one', async () => {
    token = await signIn();
    expect(decodeJwt(token)).toMatchObject({ iss: provider.issuer, sub: 'ada' });
    expect(await listing(token)).toMatchObject({ status: 200, body: [] });
    person = tributary.owner.with({ token });
    const { id } = await person.post<{ id: string }>('/workspaces', { name: 'Engines' });
    person = person.with({ workspaceId: id });
    const { key } = await person.post<{ key: string }>('./api-keys', { name: 'server' });
    server = person.with({ token: key });
    expect(await listing(await signIn())).toMatchObject({ status: 200, body: [{ id, role: 'admin' }] });
    expect(await readyz()).toMatchObject({ checks: { [`issuer ${provider.issuer}`]: 'answers' } });
  });

  it('an ID token gives access to the workspaces of its person and to no others', async () => {
    expect((await person.call('GET', './event-keys')).status).toBe(200);
    const foreign = await person.with({ workspaceId: tributary.workspaceId }).call('GET', './event-keys');
    expect(foreign).toMatchObject({ status: 403, body: { error: 'permission denied' } });
  });

  it('an invalid ID token is answered 401', async () => {
    const expired = Math.floor(Date.now() / 1000) - 100;
    for (const bad of [
      await provider.sign({ exp: expired }),
      await provider.sign({ aud: 'other' }),
      `${token}x`,
    ])
      expect(await listing(bad)).toMatchObject({ status: 401, body: { error: 'not authenticated' } });
  });

  it('the provider can change its signing key at any time', async () => {
    await provider.rotate();
    token = await signIn();
    expect((await listing(token)).status).toBe(200);
  });

  it('while the provider is down, a token with a known key is accepted; one with an unknown key is answered 503', async () => {
    await provider.goDown();
    expect((await listing(token)).status).toBe(200);
    await provider.rotate();
    const perhapsGood = await provider.sign();
    // Keys were fetched for an unknown key a moment ago. Until they may be fetched again, the token counts as
    // invalid.
    const status = async () => (await listing(perhapsGood)).status;
    await expect.poll(status, { timeout: 15_000, interval: 1_000 }).toBe(503);
    const undecided = await listing(perhapsGood);
    expect(undecided).toMatchObject(UNDECIDED);
    expect(undecided.headers['retry-after']).toMatch(/^[1-9]\d*$/);
  });

  it('Tributary starts without the provider: API keys work, people cannot sign in until it is back', async () => {
    await tributary.stop();
    tributary = await startTributary({ env: trusting(provider), folder: tributary.folder });
    const { url } = tributary;
    expect((await server.at(url).call('GET', './event-contracts')).status).toBe(200);
    expect((await tributary.producer.call('POST', './events/page', { user_id: 'u' })).status).toBe(202);
    expect(await listing(token)).toMatchObject(UNDECIDED);
    expect(tributary.log()).toContain('the keys of an issuer cannot be fetched');
    expect(await tributary.metrics()).toMatch(
      /^tributary_issuer_key_fetches_total\{.*outcome="failed".*\} [1-9]/m,
    );
    expect(await readyz()).toMatchObject({
      status: 'ready',
      checks: { [`issuer ${provider.issuer}`]: expect.stringMatching(/^does not answer: .*ECONNREFUSED/) },
    });
    await provider.comeBack();
    token = await signIn();
    await expect
      .poll(async () => (await listing(token)).status, { timeout: 25_000, interval: 250 })
      .toBe(200);
  });

  it('no log line contains a token', () => {
    for (const each of tokens) expect(tributary.log()).not.toContain(each.split('.')[2]);
  });
});

function trusting({ settings }: OidcProvider): Readonly<Record<string, string>> {
  return { TRIBUTARY_ISSUERS: JSON.stringify([settings]) };
}
