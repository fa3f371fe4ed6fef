import { pbkdf2Sync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { type DeriveKey, readServerFirst, ScramClient, type ScramDigest } from './scram.ts';

const derive: DeriveKey = async (password, salt, iterations, digest) =>
  pbkdf2Sync(password, salt, iterations, digest === 'sha256' ? 32 : 64, digest);

/** The exchange of RFC 7677, section 3. */
const RFC = {
  nonce: 'rOprNGfwEbeRWgbNEkqO',
  serverFirst: 'r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096',
  clientFinal:
    'c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=',
  serverFinal: 'v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=',
};

function client(options: { derive?: DeriveKey; digest?: ScramDigest; username?: string } = {}) {
  return new ScramClient({
    username: 'user',
    password: 'pencil',
    digest: 'sha256',
    nonce: () => RFC.nonce,
    derive,
    ...options,
  });
}

/** Gives its answers in turn, and records the requests. */
function played(...answers: readonly string[]) {
  const sent: string[] = [];
  return { sent, exchange: async (message: string) => answers[sent.push(message) - 1] ?? '' };
}

it('the exchange of RFC 7677 proves the password in both directions', async () => {
  const { sent, exchange } = played(RFC.serverFirst, RFC.serverFinal);
  await client().authenticate(exchange);
  expect(sent).toEqual([`n,,n=user,r=${RFC.nonce}`, RFC.clientFinal]);
});

it('user names are escaped', async () => {
  const { sent, exchange } = played(RFC.serverFirst, RFC.serverFinal);
  await client({ username: 'a=b,c' })
    .authenticate(exchange)
    .catch(() => undefined);
  expect(sent[0]).toBe(`n,,n=a=3Db=2Cc,r=${RFC.nonce}`);
});

it.each(['v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95X4=', 'v=6rri', 'e=invalid-proof', '', 'v=='])(
  'a server that does not know the password is refused: %j',
  async (serverFinal) => {
    const { exchange } = played(RFC.serverFirst, serverFinal);
    await expect(client().authenticate(exchange)).rejects.toMatchObject({ code: 'scram_refused' });
  },
);

describe('the first message of a server', () => {
  const first = (iterations: string) => `r=${RFC.nonce}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=${iterations}`;

  it.each([...'0 1 4095 100001 100000000 9007199254740993 4096e9 -4096 0x1000 NaN'.split(' '), '4096 ', ''])(
    'is refused before any iteration is computed if it requests %j',
    async (iterations) => {
      let derivations = 0;
      const counted: DeriveKey = async (...args) => {
        derivations += 1;
        return derive(...args);
      };
      const { exchange } = played(first(iterations), RFC.serverFinal);
      const made = client({ derive: counted }).authenticate(exchange);
      await expect(made).rejects.toMatchObject({ code: 'scram_refused' });
      expect(derivations).toBe(0);
    },
  );

  it.each(['4096', '8192', '100000'])('can request %s iterations', (iterations) => {
    expect(readServerFirst(first(iterations)).iterations).toBe(Number(iterations));
  });

  it.each([
    `r=${RFC.nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096`,
    'r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096',
    `r=${RFC.nonce}x,s=,i=4096`,
    `r=${RFC.nonce}x,s=${'A'.repeat(5_000)},i=4096`,
    `m=ext,${first('4096')}`,
    '',
  ])('is refused if it is invalid: %j', async (serverFirst) => {
    const { sent, exchange } = played(serverFirst, RFC.serverFinal);
    await expect(client().authenticate(exchange)).rejects.toMatchObject({ code: 'scram_refused' });
    expect(sent).toHaveLength(1);
  });
});

it('the key is derived once for a salt, and again after a failure or for another salt', async () => {
  let derivations = 0;
  const scram = client({
    derive: async (...args) => {
      derivations += 1;
      if (derivations === 1) throw new Error('busy');
      return derive(...args);
    },
  });
  const sign = () => scram.authenticate(played(RFC.serverFirst, RFC.serverFinal).exchange);
  await expect(sign()).rejects.toThrow('busy');
  await sign();
  await sign();
  expect(derivations).toBe(2);
  const other = RFC.serverFirst.replace('s=W', 's=X');
  await scram.authenticate(played(other, RFC.serverFinal).exchange).catch(() => undefined);
  expect(derivations).toBe(3);
});
