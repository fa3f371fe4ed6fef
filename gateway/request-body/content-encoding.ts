import { promisify } from 'node:util';
import {
  brotliDecompress,
  constants,
  gunzip,
  inflateRaw,
  inflate as inflateZlib,
  zstdDecompress,
} from 'node:zlib';
import type { FastifyRequest } from 'fastify';
import { bodyTooLarge, invalidRequest } from '../errors/api-error.ts';

type Inflater = (body: Buffer, options: { readonly maxOutputLength: number }) => Promise<Buffer>;

const [fromGzip, fromZlib, fromRawDeflate, fromZstd] = [
  promisify(gunzip),
  promisify(inflateZlib),
  promisify(inflateRaw),
  promisify(zstdDecompress),
];

/** A frame may ask for a window of 128 MiB. Decoders have to support 8 MiB (RFC 8878), and no body is longer. */
const ZSTD = { params: { [constants.ZSTD_d_windowLogMax]: 23 } };

/** `deflate` means a zlib stream (RFC 9110); some senders leave out its header. */
const fromDeflate: Inflater = (body, options) =>
  hasZlibHeader(body) ? fromZlib(body, options) : fromRawDeflate(body, options);

const INFLATERS = new Map<string, Inflater>([
  ['gzip', fromGzip],
  // An alias of gzip (RFC 9110).
  ['x-gzip', fromGzip],
  ['deflate', fromDeflate],
  ['br', promisify(brotliDecompress)],
  ['zstd', (body, options) => fromZstd(body, { ...options, ...ZSTD })],
]);

const IDENTITY = 'identity';
/** A library and a proxy may each have compressed the body. */
const MAX_ENCODINGS = 2;
const NO_ENCODINGS: readonly string[] = [];

/** The content encodings of a body, in the order in which they were applied; none for a plain body. */
export function encodingsOf({ headers }: FastifyRequest): readonly string[] {
  const names = headers['content-encoding'];
  if (names === undefined) return NO_ENCODINGS;
  return names
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '' && name !== IDENTITY);
}

export function isCompressed(request: FastifyRequest): boolean {
  return encodingsOf(request).length > 0;
}

export function isSupported(encodings: readonly string[]): boolean {
  return encodings.length <= MAX_ENCODINGS && encodings.every((name) => INFLATERS.has(name));
}

/**
 * Inflates a body as a whole, which stops at `maxOutputLength`; a stream would continue past the limit without a reader.
 *
 * Errors: 413 above the limit, 400 for a body that is not encoded as stated.
 */
export async function inflate(
  body: Buffer,
  encodings: readonly string[],
  maxOutputLength: number,
): Promise<Buffer> {
  try {
    let inflated = body;
    for (const encoding of encodings.toReversed())
      inflated = (await INFLATERS.get(encoding)?.(inflated, { maxOutputLength })) ?? inflated;
    return inflated;
  } catch (error) {
    throw isTooLarge(error) ? bodyTooLarge() : notAsEncoded();
  }
}

/** RFC 1950: the compression method is 8, and the first two bytes are a multiple of 31. */
function hasZlibHeader(body: Buffer): boolean {
  const [method = 0, flags = 0] = body;
  return (method & 0x0f) === 8 && (method * 256 + flags) % 31 === 0;
}

function isTooLarge(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE';
}

function notAsEncoded(): Error {
  return invalidRequest({ path: '', message: 'the body is not what its content-encoding says' });
}
