import { gzipSync } from 'node:zlib';

/** The target of an attack, and its key. */
export interface Target {
  readonly path: string;
  readonly writeKey: string;
}

/** Whole numbers from 0 to below `to`, the same for the same seed. */
export type Draw = (to: number) => number;

/** Invalid client input: bytes of a connection, with one request or more, or with none. */
export type Attack = (target: Target, draw: Draw) => Buffer;

const GOOD = '{"userId":"u","event":"E","properties":{"a":1}}';

/** A complete request, after which the server is to close the connection. */
function request(
  { path, writeKey }: Target,
  body: Buffer,
  headers: readonly string[] = ['connection: close'],
): Buffer {
  const head = [
    `POST ${path} HTTP/1.1`,
    'host: x',
    `authorization: Bearer ${writeKey}`,
    'content-type: application/json',
    `content-length: ${body.length}`,
    ...headers,
    '\r\n',
  ].join('\r\n');
  return Buffer.concat([Buffer.from(head), body]);
}

const noise = (length: number, draw: Draw) => Buffer.from(Array.from({ length }, () => draw(256)));

/** `value` as properties of an otherwise valid event of either API. */
const withProperties = (value: string) =>
  Buffer.from(`{"userId":"u","event":"E","properties":${value},"batch":[],"z":1}`);

export const ATTACKS: Readonly<Record<string, Attack>> = {
  // The first byte starts no method name, so the server can reject it without waiting for more.
  'random bytes': (_target, draw) => Buffer.concat([Buffer.from([1]), noise(draw(4_096), draw)]),
  'a body of random bytes': (target, draw) => request(target, noise(1 + draw(4_096), draw)),
  'truncated gzip': (target, draw) => {
    const whole = gzipSync(GOOD);
    return request(target, whole.subarray(0, 1 + draw(whole.length - 9)), [
      'content-encoding: gzip',
      'connection: close',
    ]);
  },
  'bytes in gzip that are none': (target, draw) =>
    request(target, noise(1 + draw(500), draw), ['content-encoding: gzip', 'connection: close']),
  'invalid UTF-8': (target, draw) => {
    const body = Buffer.from(GOOD);
    body[body.indexOf('E')] = 0x80 + draw(0x40);
    return request(target, body);
  },
  'deep nesting': (target, draw) => {
    const depth = 100 + draw(20_000);
    return request(target, withProperties(`{"a":${'['.repeat(depth)}${']'.repeat(depth)}}`));
  },
  'a huge number': (target, draw) => {
    const numbers = ['1e999', '-1e400', '9'.repeat(400 + draw(5_000)), `1e${'9'.repeat(100)}`];
    return request(target, withProperties(`{"n":${numbers[draw(numbers.length)]}}`));
  },
  '10,000 keys': (target, draw) => {
    const keys = Array.from({ length: 10_000 }, (_, at) => `"key-${draw(10)}-${at}":${draw(10)}`);
    const properties = `{${keys.join()}}`;
    return request(target, Buffer.from(`{"userId":"u","event":"E","properties":${properties},"batch":0}`));
  },
  'many requests at once, all of them bad': (target, draw) =>
    Buffer.concat([
      ...Array.from({ length: 5 + draw(20) }, () => request(target, Buffer.from('{"event":'), [])),
      request(target, Buffer.from('{"event":')),
    ]),
  'two lengths': (target) => request(target, Buffer.from(GOOD), ['content-length: 3']),
  'a length and chunks': (target) => request(target, Buffer.from(GOOD), ['transfer-encoding: chunked']),
  'headers without end': ({ path }, draw) =>
    Buffer.from(`POST ${path} HTTP/1.1\r\nhost: x\r\nx-large: ${'x'.repeat(17_000 + draw(50_000))}\r\n\r\n`),
};

/**
 * Faults for which senders that cannot react are not refused: `/v1` mends and accepts the event, and records
 * it in the context.
 */
const MENDED: ReadonlySet<string> = new Set(['invalid UTF-8', 'deep nesting', 'a huge number']);

/** Whether an attack of the kind may be answered with this status. */
export function mayAnswer(status: number, kind: string, path: string): boolean {
  return (status >= 400 && status < 500) || (status === 200 && path.startsWith('/v1/') && MENDED.has(kind));
}
