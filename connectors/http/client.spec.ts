import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { Agent } from 'undici';
import { afterEach, describe, expect, it, test } from 'vitest';
import { AddressRefused, Closed, Stopped, TimedOut } from '../failures.ts';
import {
  classifyFailure,
  classifyResponse,
  EXCERPT_BYTES,
  excerptOf,
  mayConcernSome,
  parseRetryAfter,
  secretTexts,
  sendRequest,
} from './client.ts';

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** An agent, and the URL of a server with this answer; `connections` counts the opened connections. */
async function talk(answer: (response: ServerResponse) => void) {
  const seen = { connections: 0 };
  const server = createServer((request, response) => {
    request.resume().on('end', () => answer(response));
  });
  server.on('connection', () => {
    seen.connections += 1;
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  ends.push(
    () => server.closeAllConnections(),
    () => server.close(),
  );
  const agent = new Agent({ connections: 1 });
  ends.push(() => agent.destroy());
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/path?q=1`);
  const ask = (signal = new AbortController().signal, kept?: number) =>
    sendRequest(agent, { method: 'POST', url, headers: ['a', 'b'], body: 'x' }, signal, kept);
  return { seen, ask };
}

const text = ({ start }: { start: Uint8Array }) => Buffer.from(start).toString();

describe('an answer', () => {
  it('is a status line, its Retry-After and its body', async () => {
    const { ask } = await talk((response) => response.writeHead(503, { 'retry-after': '7' }).end('busy'));
    const answer = await ask();
    expect(answer).toMatchObject({ status: 503, retryAfter: '7', whole: true });
    expect(text(answer)).toBe('busy');
  });

  it('follows any number of interim responses', async () => {
    const { ask } = await talk((response) => {
      response.writeProcessing();
      response.writeEarlyHints({ link: '</a>; rel=preload' });
      response.writeHead(204).end();
    });
    expect(await ask()).toMatchObject({ status: 204, whole: true });
  });

  it('is kept as far as asked, and its connection is used again', async () => {
    const { ask, seen } = await talk((response) => response.end('y'.repeat(5_000)));
    for (let n = 0; n < 3; n++) {
      const answer = await ask(undefined, 1_000);
      expect(answer).toMatchObject({ status: 200, whole: false });
      expect(text(answer)).toBe('y'.repeat(1_000));
    }
    expect(seen.connections).toBe(1);
  });

  it('that is longer than is read of one costs its connection, and stands', async () => {
    const { ask, seen } = await talk((response) => {
      response.writeHead(200);
      const timer = setInterval(() => response.write('z'.repeat(4_096)), 1);
      response.on('close', () => clearInterval(timer));
    });
    for (let n = 0; n < 2; n++) {
      const answer = await ask();
      expect(answer).toMatchObject({ status: 200, whole: false });
      expect(text(answer)).toBe('z'.repeat(1_024));
    }
    expect(seen.connections).toBe(2);
  });

  it('counts once its status line arrived, also when the body breaks off or the time is over', async () => {
    const broken = await talk((response) => {
      response.writeHead(200, { 'content-length': '10' });
      response.write('part', () => response.destroy());
    });
    expect(await broken.ask()).toMatchObject({ status: 200, whole: false });
    const over = new AbortController();
    const dripping = await talk((response) => {
      response.writeHead(200).write('drip');
      setTimeout(() => over.abort(new Error('over')), 50);
    });
    const answer = await dripping.ask(over.signal);
    expect(answer).toMatchObject({ status: 200, whole: false });
    expect(text(answer)).toBe('drip');
  });

  it('that does not come is the reason of the signal, and nothing follows', async () => {
    const over = new AbortController();
    const { ask } = await talk(() => setTimeout(() => over.abort(new Error('over')), 20));
    await expect(ask(over.signal)).rejects.toThrow('over');
    await expect(ask(over.signal)).rejects.toThrow('over');
  });

  it('is not waited for behind a connection that is not there yet', async () => {
    const server = createTcpServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    ends.push(() => server.close());
    const agent = new Agent({ connect: () => undefined, connections: 1 });
    ends.push(() => agent.destroy());
    const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    const over = new AbortController();
    const asked = sendRequest(agent, { method: 'POST', url, headers: [] }, over.signal);
    setTimeout(() => over.abort(new Error('over')), 20);
    await expect(asked).rejects.toThrow('over');
  });

  it('is an error of the network where no response arrived', async () => {
    const { ask } = await talk((response) => response.destroy());
    await expect(ask()).rejects.toMatchObject({ code: 'UND_ERR_SOCKET' });
  });
});

const answer = (status: number, retryAfter?: string) =>
  classifyResponse({ status, retryAfter, excerpt: 'why' }, 0);
const coded = (code: string) =>
  classifyFailure(Object.assign(new Error('http://a.example/?token=x'), { code }));

test.each([200, 201, 202, 204, 299])('%d is delivered', (status) => {
  expect(answer(status)).toEqual({ outcome: 'delivered', status, response: 'why' });
});

test.each([408, 425, 500, 502, 503, 504, 599])('%d is tried again', (status) => {
  expect(answer(status)).toEqual({ outcome: 'retry', status, response: 'why', reason: `answered ${status}` });
});

test.each([400, 401, 403, 404, 409, 410, 413, 422, 499, 600, 999])('%d is dead', (status) => {
  expect(answer(status)).toEqual({ outcome: 'dead', status, response: 'why', reason: `answered ${status}` });
});

test.each([300, 301, 302, 303, 304, 307, 308])('%d is dead: redirects are not followed', (status) => {
  expect(answer(status)).toMatchObject({ outcome: 'dead', reason: 'redirects are not followed' });
});

test('a refusal of the body may be the fault of some in a batch; one of the place is not', () => {
  const blaming = [
    200, 302, 400, 401, 402, 403, 404, 405, 407, 408, 409, 410, 413, 415, 422, 429, 499, 500, 600,
  ];
  expect(blaming.filter((status) => mayConcernSome(answer(status)))).toEqual([400, 409, 413, 422, 499, 500]);
  expect(mayConcernSome({ outcome: 'dead', reason: 'address not allowed' })).toBe(false);
});

test('429, and 503 with Retry-After, ask for fewer requests', () => {
  expect(answer(429)).toEqual({
    outcome: 'retry',
    throttled: true,
    status: 429,
    response: 'why',
    reason: 'answered 429',
  });
  expect(answer(503, '5')).toMatchObject({ outcome: 'retry', throttled: true, afterMs: 5_000 });
  expect(answer(503)).not.toHaveProperty('throttled');
  expect(answer(503, 'nonsense')).not.toHaveProperty('throttled');
  expect(answer(500, '3')).not.toHaveProperty('throttled');
});

test('Retry-After counts on 429 and 503 alone', () => {
  expect(answer(429, '3')).toMatchObject({ outcome: 'retry', afterMs: 3_000 });
  expect(answer(503, 'Thu, 01 Jan 1970 00:01:00 GMT')).toMatchObject({ outcome: 'retry', afterMs: 60_000 });
  expect(answer(500, '3')).not.toHaveProperty('afterMs');
  expect(answer(429, 'nonsense')).not.toHaveProperty('afterMs');
});

test('an empty answer shows no response', () => {
  expect(classifyResponse({ status: 204, retryAfter: undefined, excerpt: '' }, 0)).toEqual({
    outcome: 'delivered',
    status: 204,
  });
});

test.each(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'])('%s is a reset', (code) => {
  expect(coded(code)).toEqual({
    outcome: 'retry',
    reason: 'connection closed before an answer',
    reset: true,
  });
});

test.each([
  ['ECONNREFUSED', 'connection refused'],
  ['ENOTFOUND', 'the name has no address that may be reached'],
  ['EAI_AGAIN', 'the name has no address that may be reached'],
  ['UND_ERR_CONNECT_TIMEOUT', 'connection timed out'],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'certificate not accepted (DEPTH_ZERO_SELF_SIGNED_CERT)'],
  ['CERT_HAS_EXPIRED', 'certificate not accepted (CERT_HAS_EXPIRED)'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'certificate not accepted (ERR_TLS_CERT_ALTNAME_INVALID)'],
  ['EPROTO', 'network error (EPROTO)'],
])('%s is tried again: %s', (code, reason) => {
  expect(coded(code)).toEqual({ outcome: 'retry', reason });
});

test('our own errors', () => {
  expect(classifyFailure(new AddressRefused('x'))).toEqual({
    outcome: 'dead',
    reason: 'address not allowed',
  });
  expect(classifyFailure(new TimedOut('x'))).toEqual({ outcome: 'retry', reason: 'timed out' });
  expect(classifyFailure(new Stopped('x'))).toEqual({ outcome: 'retry', reason: 'stopped' });
  expect(classifyFailure(new Closed('x'))).toEqual({ outcome: 'retry', reason: 'stopped' });
  expect(coded('UND_ERR_INVALID_ARG')).toMatchObject({ outcome: 'dead' });
});

test('an error without a code is not an error of the network', () => {
  expect(classifyFailure(new TypeError('our mistake'))).toBeUndefined();
  expect(classifyFailure('thrown text')).toBeUndefined();
  expect(coded('not an identifier: secret')).toBeUndefined();
});

const NOW = Date.parse('1994-11-06T08:49:30Z');

test.each([
  ['0', 0],
  ['120', 120_000],
  [' 7 ', 7_000],
  ['Sun, 06 Nov 1994 08:49:37 GMT', 7_000],
  ['Sunday, 06-Nov-94 08:49:37 GMT', 7_000],
  ['Sun Nov  6 08:49:37 1994', 7_000],
  ['Sun, 06 Nov 1994 08:00:00 GMT', 0],
])('"%s" asks for %d ms', (header, ms) => {
  expect(parseRetryAfter(header, NOW)).toBe(ms);
});

test.each(['', '-1', '1.5', '1e3', 'soon', '12345678901', 'Infinity', 'Xyz, whenever'])(
  '"%s" asks for nothing',
  (header) => {
    expect(parseRetryAfter(header, NOW)).toBeUndefined();
  },
);

const SECRET = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD';
const secrets = secretTexts({
  secret: SECRET,
  headers: [
    ['authorization', 'Bearer tok_0123456789'],
    ['x-quoted', 'a"b"cdef'],
    ['x-empty', ''],
  ],
});
const excerpt = (text: string) => excerptOf(Buffer.from(text), secrets);

test('an answer is shown without control characters and not past a kilobyte', () => {
  expect(excerpt('  all\u0000 \u001b[31mgood\n')).toBe('all [31mgood');
  expect(excerpt('é'.repeat(EXCERPT_BYTES))).toBe('é'.repeat(EXCERPT_BYTES / 2));
  expect(excerpt(`x${'é'.repeat(EXCERPT_BYTES)}`)).toBe(`x${'é'.repeat(EXCERPT_BYTES / 2 - 1)}`);
});

test('secret settings that a destination echoes are masked', () => {
  expect(excerpt(`you sent ${SECRET}`)).toBe('you sent ***');
  expect(excerpt('{"authorization":"Bearer tok_0123456789"}')).toBe('{"authorization":"***"}');
  expect(excerpt('{"token":"tok_0123456789"}')).toBe('{"token":"***"}');
  expect(excerpt(JSON.stringify({ 'x-quoted': 'a"b"cdef' }))).toBe('{"x-quoted":"***"}');
});

test('a secret that the end of the excerpt cuts in two is masked too', () => {
  const shown = excerpt('.'.repeat(EXCERPT_BYTES - 20) + SECRET);
  expect(shown).toBe(`${'.'.repeat(EXCERPT_BYTES - 20)}***`);
});
