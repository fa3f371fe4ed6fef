import { type Fact, nameId, TOPIC, Unavailable } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { Client, eventually } from '../../helpers/client.ts';
import { inProcess, openTestGateway, type TestGateway } from '../../helpers/gateway.ts';
import { type OidcProvider, type Person, startOidcProvider } from '../../helpers/oidc-provider.ts';

const REFUSED = { status: 401, body: { error: 'not authenticated' } };
const UNDECIDED = { status: 503, body: { error: 'unavailable' } };

let provider: OidcProvider;
beforeEach(async () => {
  provider = await startOidcProvider();
});
afterEach(() => provider.close());

/** A gateway that trusts these providers. */
async function open(trusted = [provider], folder?: string): Promise<TestGateway> {
  const env = { TRIBUTARY_ISSUERS: JSON.stringify(trusted.map(({ settings }) => settings)) };
  const gateway = await openTestGateway({ env, ...(folder === undefined ? {} : { folder }) });
  onTestFinished(() => gateway.close());
  return gateway;
}

const listing = ({ app }: TestGateway, token: string) =>
  new Client(inProcess(app), token).call('GET', '/workspaces');

const accountId = (subject: string) => nameId('account', provider.issuer, subject);
const accountOf = ({ dependencies }: TestGateway, subject: string) =>
  dependencies.catalog.state.account(accountId(subject));

/** The facts about a person in the log, in order. */
async function factsAbout({ dependencies }: TestGateway, subject: string): Promise<readonly Fact[]> {
  const { entries } = await dependencies.log.read(TOPIC.catalog, 0, 0, { maxBytes: 1e6 });
  const facts = entries.map(({ value }) => JSON.parse(value) as Fact);
  return facts.filter(({ entity }) => entity === accountId(subject));
}

describe('the keys of a provider', () => {
  it('can change while the gateway runs: the new one is accepted at once, the old one is refused', async () => {
    const gateway = await open();
    const before = await provider.signIn({ sub: 'ada' });
    expect((await listing(gateway, before)).status).toBe(200);
    await provider.rotate();
    expect((await listing(gateway, before)).status).toBe(200); // the revocation is not known yet
    const after = await provider.signIn({ sub: 'ada' });
    expect((await listing(gateway, after)).status).toBe(200);
    expect(await listing(gateway, before)).toMatchObject(REFUSED);
  });
});

describe('a provider that is down', () => {
  it('delays only its own users if it accepts connections without responding', async () => {
    const other = await startOidcProvider();
    onTestFinished(() => other.close());
    const token = await provider.signIn({ sub: 'ada' });
    provider.hang();
    const gateway = await open([provider, other]);
    const owner = await gateway.openWorkspace();
    let isDecided = false;
    const undecided = listing(gateway, token).finally(() => {
      isDecided = true;
    });
    expect((await listing(gateway, await other.signIn({ sub: 'grace' }))).status).toBe(200);
    expect((await owner.call('GET', './event-contracts')).status).toBe(200);
    expect((await (await owner.withApiKey('viewer')).call('GET', './event-contracts')).status).toBe(200);
    expect(isDecided).toBe(false);
    expect(await undecided).toMatchObject(UNDECIDED);
    const asked = performance.now();
    expect(await listing(gateway, token)).toMatchObject(UNDECIDED);
    expect(performance.now() - asked).toBeLessThan(1_000);
  });
});

describe('the account of a person', () => {
  const ada = { sub: 'ada', email: 'ada@example.com', email_verified: true };
  const signedIn = async (gateway: TestGateway, person: Person) =>
    expect((await listing(gateway, await provider.signIn(person))).status).toBe(200);

  it('is created once, also by sign-ins at two gateways at the same time', async () => {
    const one = await open();
    const other = await open([provider], one.folder);
    const token = await provider.signIn(ada);
    const gateways = Array.from({ length: 20 }, (_, i) => (i % 2 === 0 ? one : other));
    const answers = await Promise.all(gateways.map((gateway) => listing(gateway, token)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect(accountOf(one, 'ada')).toMatchObject({ version: 1, email: 'ada@example.com' });
    expect(accountOf(other, 'ada')).toEqual(accountOf(one, 'ada'));
    expect((await factsAbout(one, 'ada')).length).toBeLessThanOrEqual(2);

    const { id } = await new Client(inProcess(one.app), token).ok<{ id: string }>('POST', '/workspaces', {
      name: 'W',
    });
    const seen = await eventually(
      () => listing(other, token),
      ({ body }) => Array.isArray(body) && body.length > 0,
    );
    expect(seen.body).toMatchObject([{ id, role: 'admin' }]);
  });

  it('gets a new e-mail address once it is verified, with one fact, also at two gateways at the same time', async () => {
    const one = await open();
    const other = await open([provider], one.folder);
    await signedIn(one, { ...ada, email_verified: false });
    expect(accountOf(one, 'ada')).toMatchObject({ email: null });
    await signedIn(one, ada);
    expect(accountOf(one, 'ada')).toMatchObject({ email: 'ada@example.com', version: 2 });
    await signedIn(one, { ...ada, email: 'eve@example.com', email_verified: false });
    await signedIn(one, { sub: 'ada' });
    expect(accountOf(one, 'ada')).toMatchObject({ email: 'ada@example.com', version: 2 });

    const married = {
      email: 'king@example.com',
      email_verified: true,
      iat: Math.floor(Date.now() / 1000) + 20,
    };
    const token = await provider.sign(married);
    await Promise.all([one, one, other, other].map((gateway) => listing(gateway, token)));
    await eventually(
      () => [one, other].map((gateway) => accountOf(gateway, 'ada')?.email),
      (emails) => emails.every((email) => email === 'king@example.com'),
    );
    expect(accountOf(one, 'ada')).toEqual(accountOf(other, 'ada'));
    expect(accountOf(one, 'ada')?.version).toBe(3);
  });

  it('keeps the newer address when an older token is still valid', async () => {
    const gateway = await open();
    const now = Math.floor(Date.now() / 1000);
    const told = (email: string, iat: number) => provider.sign({ email, email_verified: true, iat });
    const [older, newer] = [await told('old@example.com', now - 60), await told('new@example.com', now - 30)];
    for (const token of [older, newer, older, newer, older])
      expect((await listing(gateway, token)).status).toBe(200);
    expect(accountOf(gateway, 'ada')).toMatchObject({ email: 'new@example.com', version: 2 });
    expect(await factsAbout(gateway, 'ada')).toHaveLength(2);
  });

  it('gives access while a new address cannot be recorded, and gets it later', async () => {
    const gateway = await open();
    await signedIn(gateway, { sub: 'ada' });
    const { catalog } = gateway.dependencies;
    const propose = vi.spyOn(catalog, 'propose').mockRejectedValue(new Unavailable('the log is down'));
    await signedIn(gateway, ada);
    await signedIn(gateway, ada);
    expect(propose).toHaveBeenCalledTimes(1);
    propose.mockRestore();
    gateway.clock.pass(31_000);
    await signedIn(gateway, ada);
    expect(accountOf(gateway, 'ada')).toMatchObject({ email: 'ada@example.com' });
  });

  it('is 503, not 401, if it cannot be created yet', async () => {
    const gateway = await open();
    const propose = vi
      .spyOn(gateway.dependencies.catalog, 'propose')
      .mockRejectedValue(new Unavailable('the log is down'));
    const token = await provider.signIn(ada);
    expect(await listing(gateway, token)).toMatchObject(UNDECIDED);
    propose.mockRestore();
    expect((await listing(gateway, token)).status).toBe(200);
  });
});
