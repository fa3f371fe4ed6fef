import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { fetchKeys } from './fetch-keys.ts';

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

/** What an issuer answers, by path: a body, or what to do. `URL` in a body stands for its address. */
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
  it('are those its discovery document leads to', async () => {
    const issuer = await serve({ [DISCOVERY]: document, '/keys': { keys: [key] } });
    expect(await fetched(issuer)).toEqual({ keys: [key] });
  });

  it('are found below an issuer with a path, with or without a slash at its end', async () => {
    for (const path of ['/realms/one', '/realms/two/']) {
      const answers = { issuer: `URL${path}`, jwks_uri: 'URL/keys' };
      const discovery = `${path.replace(/\/$/, '')}${DISCOVERY}`;
      const url = await serve({ [discovery]: answers, '/keys': { keys: [key] } });
      expect(await fetched(`${url}${path}`)).toEqual({ keys: [key] });
    }
  });

  it('leave out what nothing can be verified with', async () => {
    const issuer = await serve({ [DISCOVERY]: document, '/keys': { keys: [...spoilt, key] } });
    expect(await fetched(issuer)).toEqual({ keys: [key] });
  });
});

describe('an answer that is none', () => {
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

  it('is waited for as long as the caller says, also when it comes a byte at a time', async () => {
    for (const slow of [silent, dripping]) {
      const issuer = await serve({ [DISCOVERY]: document, '/keys': slow });
      await expect(fetched(issuer, AbortSignal.timeout(300))).rejects.toThrow(/keys could not be fetched/);
    }
  });

  it('is also nobody listening', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    server.close();
    await once(server, 'close');
    for (const host of ['127.0.0.1', 'localhost'])
      await expect(fetched(`http://${host}:${port}`)).rejects.toThrow(/could not be fetched: .*ECONNREFUSED/);
  });

  it('shows no more than the start of what it said', async () => {
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
