import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { NO_LOGGER, NO_METRICS, Unavailable } from '@tributary/core';
import { exportJWK, generateKeyPair, type JWK } from 'jose';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { fetchKeys, IssuerKeys, keysUrlOf, REFRESH_AFTER_MS, REST_MS } from './oidc-issuers.ts';

/** Two successive keys of the issuer. */
let first: JWK;
let second: JWK;
beforeAll(async () => {
  const make = async (kid: string) => {
    const { publicKey } = await generateKeyPair('ES256', { extractable: true });
    return { ...(await exportJWK(publicKey)), kid, alg: 'ES256', use: 'sig' };
  };
  [first, second] = [await make('first'), await make('second')];
});

/**
 * An issuer that publishes `keys`, or does not answer while they are undefined; and a clock set by the test.
 */
function issuer(keys: readonly JWK[] | undefined) {
  const here = { keys, asked: 0, now: 1_000_000, hold: Promise.resolve() };
  const cache = new IssuerKeys({
    issuer: 'https://issuer.example',
    async fetch(signal) {
      here.asked++;
      const answer = here.keys;
      await Promise.race([here.hold, once(signal, 'abort')]);
      if (answer === undefined) throw new Error('it is down');
      return { keys: [...answer] };
    },
    logger: NO_LOGGER,
    metrics: NO_METRICS,
    now: () => here.now,
  });
  onTestFinished(() => cache.close());
  const find = (kid: string) => cache.key({ alg: 'ES256', kid }, { payload: '', signature: '' });
  return { here, cache, find };
}

describe('the keys of an issuer', () => {
  it('are fetched once for many concurrent tokens', async () => {
    const { here, find } = issuer([first]);
    await Promise.all(Array.from({ length: 50 }, () => find('first')));
    expect(here.asked).toBe(1);
    here.now += REFRESH_AFTER_MS - 1;
    await find('first');
    expect(here.asked).toBe(1);
  });

  it('that were published during a fetch are found by another one', async () => {
    const { here, cache, find } = issuer([first]);
    await find('first');
    let letGo = () => {};
    here.hold = new Promise((resolve) => {
      letGo = resolve;
    });
    void cache.fetchKeys();
    here.keys = [second];
    const found = find('second');
    letGo();
    await found;
    expect(here.asked).toBe(3);
  });

  it('are fetched again before they are old: one may have been taken back', async () => {
    const { here, find } = issuer([first]);
    await find('first');
    here.keys = [second];
    here.now += REFRESH_AFTER_MS;
    await expect(find('first')).rejects.toThrow('no applicable key');
  });

  it('are fetched for unknown keys at most once in a while', async () => {
    const { here, find } = issuer([first]);
    await find('first');
    for (let i = 0; i < 5; i++) await expect(find(`unknown ${i}`)).rejects.toThrow('no applicable key');
    expect(here.asked).toBe(2);
    here.now += REST_MS;
    await expect(find('unknown')).rejects.toThrow('no applicable key');
    expect(here.asked).toBe(3);
  });

  it('stay in use while the issuer is down, and no request waits for it', async () => {
    const { here, cache, find } = issuer([first]);
    await find('first');
    here.keys = undefined;
    here.now += REFRESH_AFTER_MS;
    await find('first');
    expect(cache.status).toBe('does not answer: it is down');
    here.hold = new Promise(() => {});
    for (let hour = 0; hour < 48; hour++) {
      here.now += 3_600_000;
      await find('first');
    }
  });

  it('are unavailable while the issuer has never answered', async () => {
    const { here, cache, find } = issuer(undefined);
    for (let i = 0; i < 50; i++) await expect(find('first')).rejects.toThrow(Unavailable);
    expect(here.asked).toBe(1);
    here.keys = [first];
    here.now += REST_MS;
    await find('first');
    expect(cache.status).toBe('answers');
    here.keys = undefined;
    await expect(find('second')).rejects.toThrow(Unavailable);
    await find('first');
  });

  it('are fetched without a token too, so that /readyz is up to date', async () => {
    const { here, cache } = issuer(undefined);
    await cache.refresh();
    here.keys = [first];
    await cache.refresh();
    expect(here.asked).toBe(1);
    here.now += REST_MS;
    await cache.refresh();
    expect({ asked: here.asked, said: cache.status }).toEqual({ asked: 2, said: 'answers' });
  });
});

const DISCOVERY = '/.well-known/openid-configuration';

let key: object;
let spoilt: readonly unknown[];
beforeAll(() => {
  const jwk = (object: KeyObject) => object.export({ format: 'jwk' });
  key = { ...jwk(generateKeyPairSync('rsa', { modulusLength: 2048 }).publicKey), kid: 'good' };
  spoilt = [
    { ...jwk(generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey), kid: 'short' },
    { ...jwk(generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey), kid: 'private' },
    { kty: 'EC', crv: 'P-256', x: 'AA', y: 'AA', kid: 'no point of the curve' },
    { kty: 'oct', k: 'c2VjcmV0', kid: 'secret' },
    null,
    'key',
  ];
});

/** Answers of an issuer by path: a body, or a handler. `URL` in a body is replaced by the address of the issuer. */
async function serve(answers: Readonly<Record<string, unknown>>): Promise<string> {
  const server = createServer((request, response) => {
    const answer = answers[request.url ?? ''];
    if (typeof answer === 'function') (answer as RequestListener)(request, response);
    else if (answer === undefined) response.writeHead(404).end();
    else response.end((typeof answer === 'string' ? answer : JSON.stringify(answer)).replaceAll('URL', url));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return url;
}

const fetched = (issuer: string, signal = AbortSignal.timeout(5_000)) => fetchKeys(issuer, signal);
const document = { issuer: 'URL', jwks_uri: 'URL/keys' };
const redirect =
  (to: string): RequestListener =>
  (_, response) =>
    response.writeHead(302, { location: to }).end(JSON.stringify(document));

describe('the keys of an issuer', () => {
  it('are those that its discovery document leads to', async () => {
    const issuer = await serve({ [DISCOVERY]: document, '/keys': { keys: [key] } });
    expect(await fetched(issuer)).toEqual({ keys: [key], endpointOrigins: [] });
  });

  it('are found for an issuer with a path, with or without a trailing slash', async () => {
    for (const path of ['/realms/one', '/realms/two/']) {
      const answers = { issuer: `URL${path}`, jwks_uri: 'URL/keys' };
      const discovery = `${path.replace(/\/$/, '')}${DISCOVERY}`;
      const url = await serve({ [discovery]: answers, '/keys': { keys: [key] } });
      expect(await fetched(`${url}${path}`)).toEqual({ keys: [key], endpointOrigins: [] });
    }
  });

  it('come with the origins that a browser signs in at, each once, without those in plain text elsewhere', async () => {
    const origins = async (endpoints: object) => {
      const issuer = await serve({ [DISCOVERY]: { ...document, ...endpoints }, '/keys': { keys: [key] } });
      return (await fetched(issuer)).endpointOrigins;
    };
    const authorization_endpoint = 'https://login.example.com/authorize?policy=a';
    expect(
      await origins({ authorization_endpoint, token_endpoint: 'https://login.example.com/token' }),
    ).toEqual(['https://login.example.com']);
    expect(
      await origins({ authorization_endpoint, token_endpoint: 'https://api.example.net:8443/token' }),
    ).toEqual(['https://login.example.com', 'https://api.example.net:8443']);
    expect(
      await origins({ authorization_endpoint: 'http://login.example.com/', token_endpoint: 'no URL' }),
    ).toEqual([]);
    expect(await origins({ authorization_endpoint: 7 })).toEqual([]);
  });

  it('do not include unusable keys', async () => {
    const issuer = await serve({ [DISCOVERY]: document, '/keys': { keys: [...spoilt, key] } });
    expect(await fetched(issuer)).toEqual({ keys: [key], endpointOrigins: [] });
  });
});

describe('an invalid answer', () => {
  it.each<[string, Readonly<Record<string, unknown>>, RegExp]>([
    ['no discovery document', {}, /openid-configuration could not be fetched: it answered 404/],
    ['no JSON', { [DISCOVERY]: '<html>' }, /no JSON$/],
    ['no object', { [DISCOVERY]: [document] }, /no JSON object/],
    [
      'another issuer',
      { [DISCOVERY]: { ...document, issuer: 'https://evil.example' } },
      /says its issuer is "https:/,
    ],
    ['a slash more', { [DISCOVERY]: { ...document, issuer: 'URL/' } }, /says its issuer is/],
    ['no address of keys', { [DISCOVERY]: { issuer: 'URL' } }, /jwks_uri .* undefined/],
    ['keys over http', { [DISCOVERY]: { ...document, jwks_uri: 'http://evil.example/keys' } }, /no https:/],
    ['keys in a file', { [DISCOVERY]: { ...document, jwks_uri: 'file:///etc/passwd' } }, /no https:/],
    ['no keys', { [DISCOVERY]: document, '/keys': { keys: [] } }, /holds no public key/],
    ['keys that are none', { [DISCOVERY]: document, '/keys': { keys: { a: 1 } } }, /holds no public key/],
    [
      'a redirect of the document',
      { [DISCOVERY]: redirect('/elsewhere'), '/elsewhere': document },
      /answered 302/,
    ],
    ['a redirect of the keys', { [DISCOVERY]: document, '/keys': redirect('/elsewhere') }, /answered 302/],
    [
      'more than anybody reads',
      { [DISCOVERY]: document, '/keys': endless },
      /keys could not .* more than \d+ bytes/,
    ],
    ['a broken connection', { [DISCOVERY]: document, '/keys': broken }, /keys could not be fetched: /],
  ])('is refused in a sentence: %s', async (_, answers, message) => {
    await expect(fetched(await serve(answers))).rejects.toThrow(message);
  });

  it('is awaited until the timeout of the caller, also when it arrives byte by byte', async () => {
    for (const slow of [silent, dripping]) {
      const issuer = await serve({ [DISCOVERY]: document, '/keys': slow });
      await expect(fetched(issuer, AbortSignal.timeout(300))).rejects.toThrow(/keys could not be fetched/);
    }
  });

  it('includes a refused connection', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    server.close();
    await once(server, 'close');
    for (const host of ['127.0.0.1', 'localhost'])
      await expect(fetched(`http://${host}:${port}`)).rejects.toThrow(/could not be fetched: .*ECONNREFUSED/);
  });

  it('is quoted by its start only', async () => {
    const issuer = await serve({ [DISCOVERY]: { ...document, issuer: 'x'.repeat(100_000) } });
    const error = await fetched(issuer).catch((thrown: Error) => thrown);
    expect(String(error).length).toBeLessThan(500);
  });
});

const endless: RequestListener = (_, response) => {
  const chunk = Buffer.alloc(64 * 1024, ' ');
  const write = () => {
    while (!response.destroyed && response.write(chunk));
    if (!response.destroyed) response.once('drain', write);
  };
  write();
};
const broken: RequestListener = (_, response) => {
  response.write('{"keys":');
  setTimeout(() => response.destroy(), 20);
};
const silent: RequestListener = () => {};
const dripping: RequestListener = (_, response) => {
  const timer = setInterval(() => response.write(' '), 20);
  response.once('close', () => clearInterval(timer));
};

describe('the keys of an issuer', () => {
  it('may be on another host', () => {
    expect(keysUrlOf('https://accounts.example', 'https://keys.example/certs')).toBe(
      'https://keys.example/certs',
    );
    expect(keysUrlOf('http://localhost:1', 'http://127.0.0.1:2/certs')).toBe('http://127.0.0.1:2/certs');
  });

  it.each([
    'http://accounts.example/certs',
    'https://localhost/certs',
    'http://[::1]/certs',
    'certs',
    '',
    7,
    null,
  ])('of one elsewhere are not at %j', (jwksUri) =>
    expect(keysUrlOf('https://accounts.example', jwksUri)).toBeUndefined(),
  );
});
